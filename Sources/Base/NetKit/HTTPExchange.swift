import CHTTP
import Glibc

/// The state of one request and its answer between the calls that libmicrohttpd makes for them. The answer is queued
/// after the whole body has arrived.
final class HTTPExchange {
  private enum Stage {
    case head
    case receiving(any HTTPBodySink)
    case refusing(HTTPResponse)
    case done
  }

  private let target: String
  private let server: HTTPServer.Core
  private let connection: HTTPConnection
  private var stage = Stage.head
  private var dropped: UInt64 = 0

  init(target: String, _ server: HTTPServer.Core, _ connection: HTTPConnection) {
    (self.target, self.server, self.connection) = (target, server, connection)
  }

  func end() {
    switch stage {
    case .receiving(let sink): sink.abandon()
    case .refusing(let response): response.discard()
    case .head, .done: break
    }
    stage = .done
    connection.underWay = nil
    connection.enter(.waiting(isFirst: false))
  }

  func step(
    _ handle: OpaquePointer, method: String, version: String, body: UnsafeMutableRawBufferPointer?
  ) -> MHD_Result {
    // After the connection was ended, bytes that the kernel still holds are not read.
    if connection.isEnded { return MHD_Result.NO }
    switch stage {
    case .head: return begin(handle, method: method, version: version)
    case .receiving(let sink):
      connection.enter(.handling)
      guard let body else {
        stage = .done
        return queue(sink.finish(), handle)
      }
      if let refusal = sink.receive(UnsafeRawBufferPointer(body)) {
        sink.abandon()
        connection.underWay = nil
        stage = .refusing(refusal)
        connection.enter(.dropping)
      } else {
        connection.enter(receiving)
      }
      return MHD_Result.YES
    case .refusing(let response):
      guard let body else {
        stage = .done
        return queue(response, handle)
      }
      dropped += UInt64(body.count)
      return dropped > server.limits.unwantedBytes ? MHD_Result.NO : MHD_Result.YES
    case .done: return MHD_Result.NO
    }
  }

  private var receiving: ConnectionPatience.Phase {
    server.tls != nil && connection.isStranger ? .receivingFromStranger : .moving
  }

  private func begin(_ handle: OpaquePointer, method: String, version: String) -> MHD_Result {
    connection.enter(.handling)
    let head = HTTPHead(handle, target: target, version: version, connection, server.limits)
    let action: HTTPAction =
      if let fault = head.fault { .answer(fault) } else {
        start(head.request(handle, method: method, connection, server))
      }
    switch action {
    case .answer(var response):
      if head.contentLength ?? .max > server.limits.unwantedBytes {
        // The body is too large to be read and dropped. An answer before its end closes the connection.
        response.closes = true
        stage = .done
        return queue(response, handle)
      }
      stage = .refusing(response)
      connection.enter(.dropping)
    case .receive(let sink):
      stage = .receiving(sink)
      connection.enter(receiving)
    }
    return MHD_Result.YES
  }

  private func start(_ request: HTTPRequest) -> HTTPAction {
    if let peer = request.peer, !server.connections.admit(connection, peer.commonName) {
      return .answer(HTTPHead.tooManyOfPeer)
    }
    connection.underWay = request
    let action = server.handler.begin(request)
    if case .answer(let response) = action, response.status >= 400 { connection.underWay = nil }
    return action
  }

  private func queue(_ response: HTTPResponse, _ handle: OpaquePointer) -> MHD_Result {
    connection.enter(.moving)
    var response = response
    // A client that has not proved its identity gets one answer, and cannot keep the connection.
    if server.tls != nil, connection.isStranger { response.closes = true }
    guard let made = response.make() else { return MHD_Result.NO }
    defer { MHD_destroy_response(made) }
    for (name, value) in response.headers { _ = MHD_add_response_header(made, name, value) }
    if response.closes { _ = MHD_add_response_header(made, "Connection", "close") }
    return MHD_queue_response(handle, response.status, made)
  }
}

extension HTTPResponse {
  // The response object of libmicrohttpd then owns the answer's memory or descriptor. Returns nil, and frees the
  // memory, if it cannot be created.
  fileprivate func make() -> OpaquePointer? {
    let made: OpaquePointer?
    switch body {
    case .none:
      made = MHD_create_response_from_buffer(0, nil, MHD_ResponseMemoryMode.RESPMEM_PERSISTENT)
    case .bytes(let bytes):
      made = bytes.withUnsafeBytes {
        MHD_create_response_from_buffer(
          $0.count, UnsafeMutableRawPointer(mutating: $0.baseAddress), MHD_ResponseMemoryMode.RESPMEM_MUST_COPY)
      }
    case .memory(let memory):
      made = MHD_create_response_from_buffer(
        memory.count, memory.baseAddress, MHD_ResponseMemoryMode.RESPMEM_MUST_FREE)
    case .file(let file, let offset, let count):
      let descriptor = file.release()
      made = MHD_create_response_from_fd_at_offset64(count, descriptor, offset)
      if made == nil { close(descriptor) }
    }
    if made == nil { discard() }
    return made
  }
}
