import CHTTP

/// The head of a request. The initializer checks its size, its form, and the number of connections.
struct HTTPHead {
  private let target: HTTPTarget?
  private let headers: [(String, String)]
  let contentLength: UInt64?
  /// The error answer if the head is malformed or too large, or if there are too many connections; nil otherwise.
  let fault: HTTPResponse?

  init(
    _ handle: OpaquePointer, target: String, version: String, _ connection: HTTPConnection, _ limits: HTTPLimits
  ) {
    let headers = Self.headers(handle)
    self.headers = headers
    self.target = HTTPTarget(target)
    let lengths = headers.filter { $0.0.asciiLowercased == "content-length" }
    let encodings = headers.filter { $0.0.asciiLowercased == "transfer-encoding" }
    contentLength = encodings.isEmpty ? lengths.isEmpty ? 0 : UInt64(lengths[0].1) : nil
    // Source: RFC 9112, section 6.3: such heads smuggle requests past a proxy.
    let isAmbiguous =
      lengths.count > 1 || encodings.count > 1 || !lengths.isEmpty && !encodings.isEmpty
      || !encodings.isEmpty && encodings[0].1.asciiLowercased != "chunked"
    fault =
      switch connection.excess {
      case .total: Self.fault(503, "busy", "there are too many connections", "try again")
      case .address: Self.fault(429, "busy", "there are too many connections from \(connection.remote)", "try again")
      case .none:
        if cairn_http_header_bytes(handle) > limits.headerBytes {
          Self.fault(431, "usage", "the head of the request is too large", "send fewer and shorter headers")
        } else if version != "HTTP/1.1", version != "HTTP/1.0" {
          Self.fault(505, "usage", "this version of HTTP is not supported", "use HTTP/1.1")
        } else if isAmbiguous {
          Self.fault(
            400, "usage", "the length of the body is given more than once, or in two ways", "send Content-Length once")
        } else if self.target == nil {
          Self.fault(400, "usage", "the path or query is malformed", "see docs/reference/protocol.md")
        } else {
          nil
        }
      }
  }

  func request(
    _ handle: OpaquePointer, method: String, _ connection: HTTPConnection, _ server: HTTPServer.Core
  ) -> HTTPRequest {
    let verdict = server.verdict(handle, connection)
    return HTTPRequest(
      method: method, path: target?.path ?? "/", query: target?.query ?? [:], remote: connection.remote,
      isTLS: server.tls != nil, peer: verdict.peer, peerProblem: verdict.problem, contentLength: contentLength,
      headers: headers)
  }

  static var tooManyOfPeer: HTTPResponse {
    fault(429, "busy", "there are too many connections of this peer", "end some, or try later")
  }

  private static func headers(_ handle: OpaquePointer) -> [(String, String)] {
    var headers: [(String, String)] = []
    withUnsafeMutablePointer(to: &headers) { headers in
      _ = MHD_get_connection_values(
        handle, MHD_ValueKind.HEADER_KIND,
        { context, _, name, value in
          guard let context, let name else { return MHD_Result.YES }
          context.assumingMemoryBound(to: [(String, String)].self).pointee.append(
            (String(cString: name), value.map { String(cString: $0) } ?? ""))
          return MHD_Result.YES
        }, headers)
    }
    return headers
  }

  private static func fault(_ status: UInt32, _ code: String, _ message: String, _ hint: String) -> HTTPResponse {
    HTTPResponse(
      status: status, type: "application/json",
      text: "{\"code\":\"\(code)\",\"message\":\"\(message)\",\"hint\":\"\(hint)\"}\n", closes: true)
  }
}
