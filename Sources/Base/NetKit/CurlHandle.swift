import CCurl
import CShims
import Changes
import Glibc
import SystemKit

/// One libcurl easy handle and the multi handle that drives it, so that a stop signal can end a wait.
final class CurlHandle {
  private static let isReady: Bool = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK
  // A request that waits reports at this interval that its thread is alive.
  private static let beatMilliseconds: Int32 = 1000

  private let easy: UnsafeMutableRawPointer
  private let multi: UnsafeMutableRawPointer
  private let errorBuffer = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
  private var route: UnsafeMutablePointer<curl_slist>?

  init() throws {
    guard Self.isReady, let easy = curl_easy_init(), let multi = curl_multi_init() else {
      throw CairnError(
        .unsupported, "libcurl cannot be initialised", hint: "see whether memory has run out", remedy: .retry)
    }
    (self.easy, self.multi) = (easy, multi)
    errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    set(CURLOPT_ERRORBUFFER, pointer: errorBuffer)
  }

  deinit {
    curl_easy_cleanup(easy)
    curl_multi_cleanup(multi)
    curl_slist_free_all(route)
    errorBuffer.deallocate()
  }

  func set(_ option: CURLoption, _ value: Int) { _ = cairn_curl_set_long(easy, option, value) }
  func set(_ option: CURLoption, offset: Int64) { _ = cairn_curl_set_offset(easy, option, curl_off_t(offset)) }
  func set(_ option: CURLoption, pointer: UnsafeRawPointer?) { _ = cairn_curl_set_pointer(easy, option, pointer) }
  func set(_ option: CURLoption, text: String?) {
    guard let text else { return set(option, pointer: nil) }
    _ = text.withCString { cairn_curl_set_pointer(easy, option, $0) }
  }

  /// Makes the kernel probe an idle connection, so that a dead link is detected.
  func watchConnection() {
    _ = cairn_curl_set_socket(easy, CURLOPT_SOCKOPTFUNCTION) { _, descriptor, _ in
      cairn_tcp_watch(descriptor, Int32(HTTPLimits.linkSeconds))
      return CURL_SOCKOPT_OK
    }
  }

  /// Makes libcurl dial another address than the URL names.
  ///
  /// - Parameter text: `HOST1:PORT1:HOST2:PORT2`. The URL has the first host and port; the connection goes to the
  ///   second.
  func setConnectTo(_ text: String?) {
    guard let text else { return }
    route = curl_slist_append(nil, text)
    set(CURLOPT_CONNECT_TO, pointer: route)
  }

  var errorText: String { String(cString: errorBuffer) }

  var wasConnected: Bool {
    var microseconds: curl_off_t = 0
    _ = cairn_curl_get_pointer(easy, CURLINFO_PRETRANSFER_TIME_T, &microseconds)
    return microseconds > 0
  }

  /// The `errno` of the last failed attempt to connect; 0 if there is none.
  var systemCode: Int32 {
    var code = 0
    _ = cairn_curl_get_long(easy, CURLINFO_OS_ERRNO, &code)
    return Int32(clamping: code)
  }

  func perform(_ transfer: Transfer, stop: StopSignal) throws -> CURLcode {
    errorBuffer.pointee = 0
    transfer.attach(to: easy)
    guard curl_multi_add_handle(multi, easy) == CURLM_OK else { return CURLE_FAILED_INIT }
    defer { curl_multi_remove_handle(multi, easy) }
    while true {
      var count: Int32 = 0
      guard curl_multi_perform(multi, &count) == CURLM_OK else { return CURLE_FAILED_INIT }
      Pulse.beat()
      if stop.isSet { throw HTTPClient.Stopped() }
      while let message = curl_multi_info_read(multi, &count) {
        if message.pointee.msg == CURLMSG_DONE { return message.pointee.data.result }
      }
      var entry = curl_waitfd(fd: stop.descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
      guard curl_multi_poll(multi, &entry, 1, Self.beatMilliseconds, nil) == CURLM_OK else { return CURLE_FAILED_INIT }
    }
  }

  /// Returns the certificate that a server shows, trusted or not. No HTTP request is sent.
  func serverCertificate(_ url: String, connectTo: String?, seconds: Int) throws -> Certificate {
    setConnectTo(connectTo)
    set(CURLOPT_URL, text: url)
    set(CURLOPT_NOSIGNAL, 1)
    set(CURLOPT_CONNECT_ONLY, 1)
    set(CURLOPT_CERTINFO, 1)
    set(CURLOPT_SSL_VERIFYPEER, 0)
    set(CURLOPT_SSL_VERIFYHOST, 0)
    set(CURLOPT_CONNECTTIMEOUT, seconds)
    let code = curl_easy_perform(easy)
    guard code == CURLE_OK else { throw GnuTLSError(code: -1) }
    var info: UnsafeMutablePointer<curl_certinfo>?
    _ = cairn_curl_get_pointer(easy, CURLINFO_CERTINFO, &info)
    guard let chain = info?.pointee, chain.num_of_certs > 0 else { throw GnuTLSError(code: -1) }
    var line = chain.certinfo[0]
    while let entry = line {
      let text = String(cString: entry.pointee.data)
      if text.hasPrefix("Cert:") { return try Certificate(pem: String(text.dropFirst(5))) }
      line = entry.pointee.next
    }
    throw GnuTLSError(code: -1)
  }
}

/// A list of header lines. libcurl does not copy it, so the object must outlive the request.
final class HeaderList {
  private(set) var first: UnsafeMutablePointer<curl_slist>?

  /// Creates the list. If several headers have the same name, only the first is sent. A header with an empty value is
  /// not sent, and libcurl adds no header of the same name.
  init(_ headers: [(String, String)], unless given: [String]) {
    var names: Set<String> = []
    for (name, value) in headers where names.insert(name.asciiLowercased).inserted {
      first = curl_slist_append(first, value.isEmpty ? "\(name):" : "\(name): \(value)") ?? first
    }
  }

  deinit { curl_slist_free_all(first) }
}
