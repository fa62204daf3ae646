import Changes
import NetKit
import SystemKit
import Trails

// Questions about the rows of sources (`docs/reference/protocol.md`, Questions about rows).
extension PumpHandler {
  /// Returns the action that receives and answers a peer's question about rows of a trail's source. Throws if the peer
  /// may not pull the trail.
  func questioning(_ visit: Visit) throws -> HTTPAction {
    try visit.require(.pull)
    guard visit.trail.origin != visit.peer else {
      throw Self.usage("peer '\(visit.peer)' asks about the rows of its own trail \(visit.trail)")
    }
    return .receive(
      BodySink(most: OpenQuestions.questionBytesMax, try bodies.permit(visit.peer)) { [self] bytes in
        Self.response(
          bytes: OpenQuestions.sealed {
            try options.hooks.answer(visit.peer, visit.trail, bytes) { stop.isSet || !visit.stillMay(.pull, options) }
          })
      })
  }

  /// Returns whether there is an open question about rows that this peer may answer.
  func hasQuestion(for peer: String) -> Bool { options.hooks.questions.hasQuestion(for: peer, mayAnswer(peer)) }

  private func mayAnswer(_ peer: String) -> (TrailName, _ isOld: Bool) -> Bool {
    let grants = options.grants()
    return { trail, isOld in (isOld || trail.origin == peer) && grants.allow(peer, .push, trail) }
  }

  /// Returns a response with the next question that the peer may answer; status 204 if none arrives within the
  /// request's wait time.
  func question(for peer: String, _ request: HTTPRequest) throws -> HTTPResponse {
    let deadline = Clock.monotonicMilliseconds + Int64(try waitSeconds(request)) * 1000
    while true {
      if request.method == "GET", let next = options.hooks.questions.take(for: peer, mayAnswer(peer)) {
        var response = Self.response(bytes: next.bytes)
        response.headers += [("Cairn-Trail", next.trail.description), ("Cairn-Question", next.id)]
        return response
      }
      if Clock.monotonicMilliseconds >= deadline {
        return HTTPResponse(status: 204, headers: [("Cairn-Node", options.node)])
      }
      if stop.wait(milliseconds: 30) { throw Self.ending }
    }
  }

  /// Returns the receiver of the peer's answer to a question.
  ///
  /// - Throws: `busy` if the peer already has too many request bodies in memory; another error if the peer has not
  ///   fetched the question.
  func answering(_ peer: String, _ id: String) throws -> any HTTPBodySink {
    guard options.hooks.questions.isAwaited(id, from: peer) else { throw Self.nothing }
    return BodySink(most: OpenQuestions.answerBytesMax, try bodies.permit(peer)) { [self] bytes in
      guard options.hooks.questions.answer(id, by: peer, bytes) else { throw Self.nothing }
      return Self.response(JSONObject([("taken", .bool(true))]))
    }
  }

  private static func response(bytes: [UInt8]) -> HTTPResponse {
    HTTPResponse(
      status: 200, headers: [("Content-Type", "application/octet-stream"), ("Cache-Control", "no-store")],
      body: .bytes(bytes))
  }
}

extension PumpHandler.Visit {
  fileprivate func stillMay(_ right: Grants.Right, _ options: PumpHandler.Options) -> Bool {
    options.grants().allow(peer, right, trail)
  }
}

/// Keeps a request body in memory up to a size limit, then computes the response.
private final class BodySink: HTTPBodySink {
  private let most: Int
  private let answer: ([UInt8]) throws -> HTTPResponse
  private var bytes: [UInt8] = []
  private let permit: BodyPermits.Permit

  init(most: Int, _ permit: BodyPermits.Permit, _ answer: @escaping ([UInt8]) throws -> HTTPResponse) {
    (self.most, self.permit, self.answer) = (most, permit, answer)
  }

  func receive(_ piece: UnsafeRawBufferPointer) -> HTTPResponse? {
    guard bytes.count + piece.count <= most else {
      return PumpHandler.response(PumpFault(PumpHandler.usage("the body is too large")).json, status: 413)
    }
    bytes.append(contentsOf: piece)
    return nil
  }

  func finish() -> HTTPResponse {
    do { return try answer(bytes) } catch { return PumpHandler.response(error) }
  }

  func abandon() {}
}
