import Changes
import NetKit

/// A listener for HTTP GET requests on one address, such as `/metrics`, for at most 32 clients at a time.
///
///     let listener = try HTTPListener(host: "127.0.0.1", port: 9464) { path in answer(path) }
package final class HTTPListener {
  package struct Response: Sendable {
    package var status: UInt32
    package var contentType: String
    package var body: String
    package init(status: UInt32 = 200, contentType: String = "text/plain; charset=utf-8", body: String) {
      (self.status, self.contentType, self.body) = (status, contentType, body)
    }
  }
  /// Returns the page at a path; nil if there is none. Several threads may call the function at a time.
  package typealias Answer = @Sendable (_ path: String) -> Response?

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
      var reply = Response(status: 405, body: "only GET is supported\n")
      if request.method == "GET" || request.method == "HEAD" {
        reply = answer(request.path) ?? Response(status: 404, body: "there is no such page\n")
      }
      return .answer(HTTPResponse(status: reply.status, type: reply.contentType, text: reply.body))
    }
  }

  private let server: HTTPServer

  /// Listens on a host and port.
  ///
  /// - Throws: `io-failed` if the address cannot be bound, `usage` if it is not an address.
  package init(host: String, port: UInt16, answer: @escaping Answer) throws {
    let limits = HTTPLimits(connections: 32, idleSeconds: 10, handshakeSeconds: 10, unwantedBytes: 65536)
    let shown = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    server = try HTTPServer(
      host: host, port: port, limits: limits,
      handler: Pages(answer: answer, isLoopback: HTTPBase("http://" + shown)?.isLoopback ?? false))
  }

  deinit { server.stop() }
}
