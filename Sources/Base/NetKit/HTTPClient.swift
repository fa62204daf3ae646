import CCurl
import Changes
import Glibc
import SystemKit

/// The answer of a server to one HTTP request, as the client receives it.
package struct HTTPReply: Sendable {
  package let status: Int
  /// The headers of the answer; the names are in lower case.
  package let headers: [String: String]
  /// The body of the answer; empty if a sink has received it.
  package let body: [UInt8]

  package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
    (self.status, self.headers, self.body) = (status, headers, body)
  }
}

/// A client of one HTTP server, over one connection that stays open between requests. Only one thread may use the
/// client.
///
///     let client = try HTTPClient(base: "https://hq.example:7420", tls: tls, stop: StopSignal())
///     let reply = try client.perform("GET", "/trails")
package final class HTTPClient {
  /// The timeouts and limits of a client.
  ///
  ///     HTTPClient.Options(connectSeconds: 5, silenceSeconds: 20)
  package struct Options: Sendable {
    package var connectSeconds: Int
    /// The number of seconds without a byte in either direction after which a request fails.
    package var silenceSeconds: Int
    /// The limit on bytes per second. Clients with the same ``RateLimit`` object share the limit.
    package var rate: RateLimit?
    /// The name of this node, sent in `Cairn-Node`.
    package var node: String?
    /// The size, in bytes, of the largest body that is kept in a reply.
    package var bodyBytesMax: Int

    package init(
      connectSeconds: Int = 10, silenceSeconds: Int = 20, rate: RateLimit? = nil, node: String? = nil,
      bodyBytesMax: Int = 4 << 20
    ) {
      (self.connectSeconds, self.silenceSeconds) = (connectSeconds, silenceSeconds)
      (self.rate, self.node, self.bodyBytesMax) = (rate, node, bodyBytesMax)
    }
  }

  /// The error of a request that the stop signal interrupted.
  ///
  ///     if stop.isSet { throw HTTPClient.Stopped() }
  package struct Stopped: Error {
    package init() {}
  }

  package let base: HTTPBase
  private let tls: ClientTLS?
  private let options: Options
  private let stop: StopSignal
  private let curl: CurlHandle

  /// Creates a client.
  ///
  /// - Throws: `bad-url` if `base` is not `https://host:port` or `http://host:port`.
  package init(base: String, tls: ClientTLS? = nil, options: Options = Options(), stop: StopSignal) throws {
    guard let parsed = HTTPBase(base) else {
      throw CairnError(
        .badURL, "'\(base)' is not the address of a peer",
        hint: "write https://HOST:PORT, such as https://hq.example:7420", remedy: .badInput)
    }
    self.base = parsed
    (self.tls, self.options, self.stop) = (tls, options, stop)
    curl = try CurlHandle()
    configure()
  }

  /// Sends a request and waits for the whole answer. `target` is the escaped path and query. If there is a `sink`, it
  /// gets the body of an answer with a status 2xx.
  ///
  /// - Throws: ``Stopped`` if the stop signal is set; `conf-value` if a certificate file cannot be read;
  ///   `peer-unreachable` or `peer-untrusted`. The remedy of these errors is retry. Also the errors of `sink` and
  ///   `source`.
  package func perform(
    _ method: String, _ target: String, headers: [(String, String)] = [], body: UnsafeRawBufferPointer? = nil,
    source: (any HTTPBodySource)? = nil, into sink: ((UnsafeRawBufferPointer) throws -> Void)? = nil
  ) throws -> HTTPReply {
    if stop.isSet { throw Stopped() }
    try checkFiles()
    let lines = HeaderList(
      headers + [("Expect", "")] + (options.node.map { [("Cairn-Node", $0)] } ?? [])
        + (body == nil && source == nil ? [] : [("Content-Type", "application/octet-stream")]),
      unless: headers.map(\.0))
    curl.set(CURLOPT_URL, text: urlBase + target)
    curl.set(CURLOPT_HTTPHEADER, pointer: lines.first)
    let sent = body?.count ?? source?.count ?? 0
    switch (method, body) {
    case ("GET", nil): curl.set(CURLOPT_HTTPGET, 1)
    case ("HEAD", nil): curl.set(CURLOPT_NOBODY, 1)
    default:
      curl.set(CURLOPT_POST, 1)
      curl.set(CURLOPT_POSTFIELDSIZE_LARGE, offset: Int64(sent))
      if let start = body?.baseAddress, sent > 0 {
        curl.set(CURLOPT_POSTFIELDS, pointer: start)
      } else if body != nil || source == nil {
        curl.set(CURLOPT_COPYPOSTFIELDS, text: "")
      }
    }
    curl.set(CURLOPT_CUSTOMREQUEST, text: method == "GET" || method == "HEAD" ? nil : method)
    defer {
      curl.set(CURLOPT_HTTPHEADER, pointer: nil)
      curl.set(CURLOPT_POSTFIELDS, pointer: nil)
      if method == "HEAD" { curl.set(CURLOPT_NOBODY, 0) }
    }
    return try withoutActuallyEscaping(sink ?? { _ in }) { escaping in
      let transfer = Transfer(
        sink == nil ? nil : escaping, bodyBytesMax: options.bodyBytesMax, source: body == nil ? source : nil)
      // Bytes that a broken connection did not take do not count as spent.
      defer { options.rate?.spend((body == nil && source != nil ? transfer.read : sent) + transfer.received, stop) }
      return try withExtendedLifetime((lines, transfer)) { try run(transfer) }
    }
  }

  private func run(_ transfer: Transfer) throws -> HTTPReply {
    let result = try curl.perform(transfer, stop: stop)
    if let error = transfer.error { throw error }
    guard result == CURLE_OK else { throw failure(result) }
    return HTTPReply(status: transfer.status, headers: transfer.headers, body: transfer.body)
  }

  private func failure(_ code: CURLcode) -> CairnError {
    let failure = TransferFailure(
      code: code, text: curl.errorText, base: base, name: tls?.name ?? base.host,
      wasConnected: curl.wasConnected, options: options, systemCode: curl.systemCode)
    guard failure.isAboutTrust, tls?.pin == nil else { return failure.error }
    let shown = try? CurlHandle().serverCertificate(urlBase, connectTo: connectTo, seconds: options.connectSeconds)
    return failure.error(shown: shown)
  }

  // MARK: Set once

  // The URL has the host name that the server's certificate must have, not the address to dial.
  private var urlBase: String {
    guard base.isTLS, let name = tls?.name else { return base.url }
    return "https://\(name):\(base.port)"
  }

  private var connectTo: String? {
    guard base.isTLS, tls?.name != nil else { return nil }
    return "::\(base.address)"
  }

  private func configure() {
    curl.set(CURLOPT_NOSIGNAL, 1)
    curl.set(CURLOPT_PROTOCOLS, Int(CURLPROTO_HTTP | CURLPROTO_HTTPS))
    curl.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    curl.set(CURLOPT_TCP_NODELAY, 1)
    curl.watchConnection()
    curl.set(CURLOPT_CONNECTTIMEOUT, options.connectSeconds)
    curl.set(CURLOPT_LOW_SPEED_LIMIT, 1)
    curl.set(CURLOPT_LOW_SPEED_TIME, options.silenceSeconds)
    curl.set(CURLOPT_UPLOAD_BUFFERSIZE, 512 << 10)
    curl.set(CURLOPT_BUFFERSIZE, 256 << 10)
    if let rate = options.rate?.bytesPerSecond {
      // These limits hold within one transfer. Transfers too small for that are counted between them.
      curl.set(CURLOPT_MAX_SEND_SPEED_LARGE, offset: Int64(rate))
      curl.set(CURLOPT_MAX_RECV_SPEED_LARGE, offset: Int64(rate))
    }
    if base.isLoopback { curl.set(CURLOPT_NOPROXY, text: "*") }
    curl.setConnectTo(connectTo)
    guard base.isTLS else { return }
    curl.set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_3))
    curl.set(CURLOPT_SSL_SESSIONID_CACHE, 0)
    if let certificate = tls?.certificate { curl.set(CURLOPT_SSLCERT, text: certificate) }
    if let key = tls?.key { curl.set(CURLOPT_SSLKEY, text: key) }
    if let pin = tls?.pin {
      curl.set(CURLOPT_PINNEDPUBLICKEY, text: pin)
      curl.set(CURLOPT_SSL_VERIFYPEER, 0)
      curl.set(CURLOPT_SSL_VERIFYHOST, 0)
    } else if let authorities = tls?.authorities {
      curl.set(CURLOPT_CAINFO, text: authorities)
      // Otherwise, libcurl would also accept the authorities of the system.
      curl.set(CURLOPT_CAPATH, text: nil)
    }
  }

  private func checkFiles() throws {
    guard base.isTLS, let tls else { return }
    for path in [tls.certificate, tls.key, tls.pin == nil ? tls.authorities : nil] {
      guard let path, access(path, R_OK) != 0 else { continue }
      throw CairnError(
        .confValue, "cannot read \(path) for the connection to \(base.address): \(String(cString: strerror(errno)))",
        hint: "see which users may read the file ('ls -l'), and whether this node has joined ('cairn peer join')",
        remedy: .retry)
    }
  }
}
