import Foundation
import NetKit
import Synchronization
import SystemKit

/// Answers in the ways that a listener can.
final class EchoHandler: HTTPHandler {
  final class Sink: HTTPBodySink {
    private var bytes: [UInt8] = []
    private let refuseAt: Int?
    private let handler: EchoHandler

    init(_ handler: EchoHandler, refuseAt: Int?) { (self.handler, self.refuseAt) = (handler, refuseAt) }

    func receive(_ piece: UnsafeRawBufferPointer) -> HTTPResponse? {
      bytes.append(contentsOf: piece)
      guard let refuseAt, bytes.count >= refuseAt else { return nil }
      return HTTPResponse(status: 409, type: "text/plain", text: "enough")
    }
    func finish() -> HTTPResponse {
      handler.finished.add(1, ordering: .relaxed)
      return HTTPResponse(status: 200, body: .bytes(bytes))
    }
    func abandon() { handler.abandoned.add(1, ordering: .relaxed) }
  }

  let finished = Atomic<Int>(0)
  let abandoned = Atomic<Int>(0)
  let waiting = Atomic<Int>(0)
  let ending = StopSignal()
  let file: String?

  init(file: String? = nil) { self.file = file }

  func begin(_ request: HTTPRequest) -> HTTPAction {
    switch (request.method, request.path) {
    case ("POST", "/echo"): return .receive(Sink(self, refuseAt: request.query["refuse"].flatMap { Int($0) }))
    case ("GET", "/wait"):
      waiting.add(1, ordering: .sequentiallyConsistent)
      let isEnding = ending.wait(milliseconds: Int32(request.query["ms"] ?? "") ?? 0)
      waiting.subtract(1, ordering: .sequentiallyConsistent)
      return .answer(HTTPResponse(status: isEnding ? 503 : 204))
    case ("GET", "/memory"):
      let count = Int(request.query["count"] ?? "") ?? 0
      guard let memory = malloc(max(1, count)) else { return .answer(HTTPResponse(status: 500)) }
      memset(memory, 0x61, count)
      return .answer(
        HTTPResponse(status: 200, body: .memory(UnsafeMutableRawBufferPointer(start: memory, count: count))))
    case ("GET", "/file"):
      guard let file, let opened = try? File(file, .read) else { return .answer(HTTPResponse(status: 500)) }
      let (offset, count) = (UInt64(request.query["from"] ?? "") ?? 0, UInt64(request.query["count"] ?? "") ?? 0)
      return .answer(
        HTTPResponse(
          status: 200, headers: [("ETag", "\"x\"")], body: .file(opened, offset: offset, count: count)))
    case ("GET", "/who"):
      let text = request.peer?.commonName ?? request.peerProblem.map { "? \($0)" } ?? "nobody"
      return .answer(
        HTTPResponse(status: 200, type: "text/plain", text: "\(text) \(request.header("cairn-NODE") ?? "-")"))
    default: return .answer(HTTPResponse(status: 404, type: "text/plain", text: request.path))
    }
  }
}
