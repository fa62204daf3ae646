import Changes
import NetKit

/// A listener for HTTP GET requests on one address, such as `/metrics`, for at most 32 clients at a time.
///
///     let listener = try HTTPListener(host: "127.0.0.1", port: 9464) { request in answer(request.path) }
package final class HTTPListener: Sendable {
  /// The answer to one request.
  ///
  ///     HTTPListener.Response(status: 404, body: "there is no such page\n")
  package struct Response: Sendable {
    package var status: UInt32
    package var contentType: String
    package var body: String
    /// Further headers.
    package var headers: [(String, String)]
    package init(
      status: UInt32 = 200, contentType: String = "text/plain; charset=utf-8", body: String,
      headers: [(String, String)] = []
    ) {
      (self.status, self.contentType, self.body, self.headers) = (status, contentType, body, headers)
    }
  }
  /// Returns the answer to a GET request; nil if there is no such page. Several threads may call the function at a
  /// time.
  package typealias Answer = @Sendable (HTTPRequest) -> Response?

  private struct Pages: HTTPHandler {
    let answer: Answer
    // Only programs of this machine can connect then, and their `Host` header must name this machine.
    let isLoopback: Bool

    // Against DNS rebinding: a web page could read the answers through a host name of its own that points to 127.0.0.1.
    private func isMeant(_ request: HTTPRequest) -> Bool {
      guard isLoopback, let host = request.header("Host") else { return true }
      return HTTPBase("http://" + host)?.isLoopback ?? false
    }

    func begin(_ request: HTTPRequest) -> HTTPAction {
      guard isMeant(request) else {
        return .answer(
          HTTPResponse(
            status: 403, type: "text/plain; charset=utf-8", text: "ask for 127.0.0.1, [::1] or localhost\n"))
      }
      var reply = Response(status: 405, body: "only GET is supported\n", headers: [("Allow", "GET, HEAD")])
      if request.method == "GET" || request.method == "HEAD" {
        reply = answer(request) ?? Response(status: 404, body: "there is no such page\n")
      }
      var response = HTTPResponse(status: reply.status, type: reply.contentType, text: reply.body)
      // A page of another site may neither show an answer nor guess its type.
      response.headers += [("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin")]
      response.headers += reply.headers
      return .answer(response)
    }
  }

  private let server: HTTPServer
  /// Whether only programs of this machine can connect.
  package let isLoopback: Bool

  /// Listens on a host and port.
  ///
  /// - Parameter tls: The certificates; nil for plain HTTP.
  /// - Throws: `io-failed` if the address cannot be bound, `usage` if it is not an address, `conf-value` if the
  ///   certificates cannot be used.
  package init(host: String, port: UInt16, tls: ServerTLS? = nil, answer: @escaping Answer) throws {
    let limits = HTTPLimits(connections: 32, idleSeconds: 10, handshakeSeconds: 10, unwantedBytes: 65536)
    let shown = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    isLoopback = HTTPBase("http://" + shown)?.isLoopback ?? false
    server = try HTTPServer(
      host: host, port: port, tls: tls, limits: limits, handler: Pages(answer: answer, isLoopback: isLoopback))
  }

  deinit { server.stop() }
}
