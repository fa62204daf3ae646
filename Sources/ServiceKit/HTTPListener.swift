import Changes
import NetKit

/// Answers GET requests on one address. For facts about a service; nothing can be changed by it.
///
/// At most 32 peers at a time, each of which has ten seconds to ask.
package final class HTTPListener {
  package struct Response: Sendable {
    package var status: UInt32
    package var contentType: String
    package var body: String
    package init(status: UInt32 = 200, contentType: String = "text/plain; charset=utf-8", body: String) {
      (self.status, self.contentType, self.body) = (status, contentType, body)
    }
  }
  /// Is given the path; nil: there is no such page. Called on the threads of connections, several at a time.
  package typealias Answer = @Sendable (_ path: String) -> Response?

  private struct Pages: HTTPHandler {
    let answer: Answer

    func begin(_ request: HTTPRequest) -> HTTPAction {
      var reply = Response(status: 405, body: "only GET is answered\n")
      if request.method == "GET" || request.method == "HEAD" {
        reply = answer(request.path) ?? Response(status: 404, body: "there is no such page\n")
      }
      return .answer(HTTPResponse(status: reply.status, type: reply.contentType, text: reply.body))
    }
  }

  private let server: HTTPServer

  /// Errors: `io-failed` when the address cannot be bound, `usage` when it is none.
  package init(host: String, port: UInt16, answer: @escaping Answer) throws {
    let limits = HTTPLimits(connections: 32, idleSeconds: 10, handshakeSeconds: 10, unwantedBytes: 65536)
    server = try HTTPServer(host: host, port: port, limits: limits, handler: Pages(answer: answer))
  }

  deinit { server.stop() }
}
