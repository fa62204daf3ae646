import Glibc
import SystemKit

/// The head of a request. An ``HTTPBodySink`` receives the body, if any.
package struct HTTPRequest: Sendable {
  package let method: String
  /// The decoded path, without the query.
  package let path: String
  package let query: [String: String]
  package let remote: String
  package let isTLS: Bool
  /// The certificate of the client; nil over plain HTTP, or if the certificate is missing or not accepted.
  package let peer: PeerCertificate?
  /// The reason why the client's certificate is not accepted; nil if it is accepted or missing.
  package let peerProblem: String?
  /// The length of the body; nil if it is not known in advance, 0 without a body.
  package let contentLength: UInt64?
  private let headers: [(name: String, value: String)]

  package init(
    method: String, path: String, query: [String: String] = [:], remote: String = "127.0.0.1", isTLS: Bool = false,
    peer: PeerCertificate? = nil, peerProblem: String? = nil, contentLength: UInt64? = 0,
    headers: [(String, String)] = []
  ) {
    (self.method, self.path, self.query, self.remote) = (method, path, query, remote)
    (self.isTLS, self.peer, self.peerProblem, self.contentLength) = (isTLS, peer, peerProblem, contentLength)
    self.headers = headers.map { (name: $0.0.asciiLowercased, value: $0.1) }
  }

  /// Returns the first value of a header. The case of the name is ignored.
  package func header(_ name: String) -> String? {
    let name = name.asciiLowercased
    return headers.first { $0.name == name }?.value
  }
}

/// The answer of this server to one HTTP request.
///
///     HTTPResponse(status: 200, type: "text/plain", text: "ok\n")
package struct HTTPResponse {
  package enum Body {
    case none
    case bytes([UInt8])
    /// Memory of malloc(3). The response owns it.
    case memory(UnsafeMutableRawBufferPointer)
    /// A part of a file, which closes with the last reference to it.
    case file(File, offset: UInt64, count: UInt64)
  }

  package var status: UInt32
  package var headers: [(String, String)]
  package var body: Body
  /// Whether the server closes the connection after this answer.
  package var closes: Bool

  package init(status: UInt32, headers: [(String, String)] = [], body: Body = .none, closes: Bool = false) {
    (self.status, self.headers, self.body, self.closes) = (status, headers, body, closes)
  }

  package init(status: UInt32, type: String, text: String, closes: Bool = false) {
    self.init(
      status: status, headers: [("Content-Type", type), ("Cache-Control", "no-store")], body: .bytes(Array(text.utf8)),
      closes: closes)
  }

  func discard() {
    switch body {
    case .none, .bytes, .file: break
    case .memory(let memory): free(memory.baseAddress)
    }
  }
}

/// The handler's decision about a request whose head has arrived: to answer it, or to receive its body.
package enum HTTPAction {
  case answer(HTTPResponse)
  case receive(any HTTPBodySink)
}

/// A receiver for the body of one request. The listener calls either `finish` or `abandon`, once.
package protocol HTTPBodySink: AnyObject {
  /// Takes the next bytes, which are valid during the call. An answer other than nil refuses the rest of the body.
  func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse?
  /// Returns the answer to the request, after the whole body has arrived.
  func finish() -> HTTPResponse
  /// Ends the receiver without an answer, because the connection broke or the body was refused.
  func abandon()
}

/// A handler that answers requests, on the thread of the connection. It may block that thread.
package protocol HTTPHandler: Sendable {
  func begin(_ request: HTTPRequest) -> HTTPAction
  /// Returns whether a request in progress may continue; otherwise the connection ends. The listener calls this several
  /// times a second.
  func mayGoOn(_ request: HTTPRequest) -> Bool
}

extension HTTPHandler {
  package func mayGoOn(_ request: HTTPRequest) -> Bool { true }
}
