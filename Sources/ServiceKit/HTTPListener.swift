import CHTTP
import Changes
import Glibc

/// Answers GET requests on one address, on a thread of its own. For facts about a service; nothing can be changed by it.
///
/// At most 32 peers at a time, each of which has ten seconds; requests are small. Source: libmicrohttpd(3).
package final class HTTPListener {
  package struct Response: Sendable {
    package var status: UInt32
    package var contentType: String
    package var body: String
    package init(status: UInt32 = 200, contentType: String = "text/plain; charset=utf-8", body: String) {
      (self.status, self.contentType, self.body) = (status, contentType, body)
    }
  }
  /// Is given the path; nil: there is no such page. Called on the listener's thread.
  package typealias Answer = @Sendable (_ path: String) -> Response?

  private static let connectionsMax: UInt32 = 32
  private static let secondsMax: UInt32 = 10

  private final class Context {
    let answer: Answer
    init(_ answer: @escaping Answer) { self.answer = answer }
  }

  private let daemon: OpaquePointer
  private let context: Context

  /// Errors: `io-failed` when the address cannot be bound, `usage` when it is none.
  package init(host: String, port: UInt16, answer: @escaping Answer) throws {
    let context = Context(answer)
    self.context = context
    let address = try Self.address(host, port)
    defer { freeaddrinfo(address) }
    let started = cairn_http_start(
      address.pointee.ai_addr,
      { context, connection, url, method, _, _, uploadBytes, _ in
        guard let context, let connection, let url, let method else { return MHD_Result.NO }
        // Nothing is taken from a peer.
        uploadBytes?.pointee = 0
        let answer = Unmanaged<Context>.fromOpaque(context).takeUnretainedValue().answer
        return HTTPListener.respond(connection, String(cString: method), String(cString: url), answer)
      }, Unmanaged.passUnretained(context).toOpaque(), Self.connectionsMax, Self.secondsMax)
    guard let started else {
      throw CairnError(
        .ioFailed, "cannot listen on \(host):\(port): \(String(cString: strerror(errno)))",
        hint: "see who has the port ('ss -ltnp'), or choose another one in [metrics] listen", remedy: .retry)
    }
    daemon = started
  }

  deinit { MHD_stop_daemon(daemon) }

  private static func address(_ host: String, _ port: UInt16) throws -> UnsafeMutablePointer<addrinfo> {
    var hints = addrinfo()
    hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &found)
    guard code == 0, let found else {
      throw CairnError(
        .usage, "'\(host)' is no address to listen on: \(String(cString: gai_strerror(code)))",
        hint: "write an address of this machine, such as 127.0.0.1:7421", remedy: .badInput)
    }
    return found
  }

  private static func respond(
    _ connection: OpaquePointer, _ method: String, _ path: String, _ answer: Answer
  ) -> MHD_Result {
    var reply = Response(status: 405, body: "only GET is answered\n")
    if method == "GET" || method == "HEAD" {
      reply = answer(path) ?? Response(status: 404, body: "there is no such page\n")
    }
    let bytes = Array(reply.body.utf8)
    let made = bytes.withUnsafeBytes {
      MHD_create_response_from_buffer(
        $0.count, UnsafeMutableRawPointer(mutating: $0.baseAddress), MHD_ResponseMemoryMode.RESPMEM_MUST_COPY)
    }
    guard let made else { return MHD_Result.NO }
    defer { MHD_destroy_response(made) }
    _ = MHD_add_response_header(made, "Content-Type", reply.contentType)
    _ = MHD_add_response_header(made, "Cache-Control", "no-store")
    return MHD_queue_response(connection, reply.status, made)
  }
}
