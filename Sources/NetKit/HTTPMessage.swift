import Glibc

/// One request, as its head says. Its body, if any, goes to a sink.
package struct HTTPRequest: Sendable {
  package let method: String
  /// Decoded, without the query.
  package let path: String
  package let query: [String: String]
  /// The address that it comes from, without port.
  package let remote: String
  package let isTLS: Bool
  /// Who asks; nil where no certificate came, or one that does not count, and over plain HTTP.
  package let peer: PeerCertificate?
  /// Why a certificate that came does not count.
  package let peerProblem: String?
  /// Nil where the length of the body is not told in advance; 0 without a body.
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

  /// The first value of a header, whose name is compared without regard to case.
  package func header(_ name: String) -> String? {
    let name = name.asciiLowercased
    return headers.first { $0.name == name }?.value
  }
}

/// What is answered to a request.
package struct HTTPResponse {
  package enum Body {
    case none
    case bytes([UInt8])
    /// Memory of malloc(3), which is sent as it is; the response owns it.
    case memory(UnsafeMutableRawBufferPointer)
    /// A piece of a file; the response owns the descriptor.
    case file(descriptor: Int32, offset: UInt64, count: UInt64)
  }

  package var status: UInt32
  package var headers: [(String, String)]
  package var body: Body
  /// The connection ends behind this.
  package var closes: Bool

  package init(status: UInt32, headers: [(String, String)] = [], body: Body = .none, closes: Bool = false) {
    (self.status, self.headers, self.body, self.closes) = (status, headers, body, closes)
  }

  /// A text in UTF-8.
  package init(status: UInt32, type: String, text: String, closes: Bool = false) {
    self.init(
      status: status, headers: [("Content-Type", type), ("Cache-Control", "no-store")], body: .bytes(Array(text.utf8)),
      closes: closes)
  }

  /// Gives back what a response owns that is not sent.
  func discard() {
    switch body {
    case .none, .bytes: break
    case .memory(let memory): free(memory.baseAddress)
    case .file(let descriptor, _, _): close(descriptor)
    }
  }
}

/// What is done with a request once its head is there.
package enum HTTPAction {
  case answer(HTTPResponse)
  case receive(any HTTPBodySink)
}

/// Takes the body of one request, on the thread of its connection. Of `finish` and `abandon` one is called, once.
package protocol HTTPBodySink: AnyObject {
  /// The next bytes, valid during the call. An answer refuses the rest, which is read and dropped, or cut off.
  func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse?
  /// The body is whole.
  func finish() -> HTTPResponse
  /// The connection broke, or the body was refused.
  func abandon()
}

/// Answers requests. Called on the connection's own thread, so it may wait.
package protocol HTTPHandler: Sendable {
  func begin(_ request: HTTPRequest) -> HTTPAction
  /// Whether a request may still be answered, asked several times a second while one is under way. If not, its connection
  /// is ended: what `begin` allowed may have been taken back.
  func mayGoOn(_ request: HTTPRequest) -> Bool
}

extension HTTPHandler {
  package func mayGoOn(_ request: HTTPRequest) -> Bool { true }
}
