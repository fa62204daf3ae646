import Changes
import Synchronization
import SystemKit
import Trails

/// The unanswered questions about rows of sources at other nodes (`docs/reference/protocol.md`, Questions about rows).
/// The asking thread waits until a pump or a peer returns the answer.
///
///     let answer = try book.ask(trail, question, of: "apply.pos") { stop.isSet }
package final class OpenQuestions: Sendable {
  package struct Question: Sendable {
    package let id: String
    package let trail: TrailName
    package let bytes: [UInt8]
  }

  /// The maximum size of a question, in bytes.
  static let questionBytesMax = 1 << 20
  static let answerBytesMax = 4 << 20
  /// The maximum number of open questions of one asker.
  private static let ofAskerMax = 8
  private static let entriesMax = 256
  private let takenMilliseconds: Int64
  private let answeredMilliseconds: Int64

  private struct Entry {
    let question: Question
    let asker: String
    let answered = StopSignal()
    let askedAt = Clock.monotonicMilliseconds
    var taker: String?
    var answer: [UInt8]?
  }

  private let entries = Mutex<[Entry]>([])
  /// The name of each dialled node, by its address.
  private let names = Mutex<[NameKey: String]>([:])

  package init(takenMilliseconds: Int64 = 15_000, answeredMilliseconds: Int64 = 45_000) {
    (self.takenMilliseconds, self.answeredMilliseconds) = (takenMilliseconds, answeredMilliseconds)
  }

  // MARK: Asking

  /// Asks a question, and waits for the answer.
  ///
  /// - Parameters:
  ///   - asker: The apply or the peer that asks. A question does not go back to the asking peer.
  ///   - isOver: Returns whether the asker has stopped waiting.
  /// - Throws: `busy` if too many questions are open; `peer-unreachable` if no answer arrives; the error that the
  ///   trail's node answers.
  package func ask(
    _ trail: TrailName, _ bytes: [UInt8], of asker: String, isOver: () -> Bool
  ) throws -> [UInt8] {
    guard bytes.count <= Self.questionBytesMax else { throw PumpHandler.usage("a question is too large") }
    let id = UInt64.random(in: 0 ... .max).hex(16)
    let entry = Entry(question: Question(id: id, trail: trail, bytes: bytes), asker: asker)
    let isTaken = entries.withLock { entries in
      guard entries.count < Self.entriesMax, entries.count(where: { $0.asker == asker }) < Self.ofAskerMax else {
        return false
      }
      entries.append(entry)
      return true
    }
    guard isTaken else {
      throw CairnError(
        .busy, "too many questions about rows wait for their answers", hint: "Cairn asks again by itself",
        remedy: .retry)
    }
    defer { entries.withLock { entries in entries.removeAll { $0.question.id == id } } }
    let begun = Clock.monotonicMilliseconds
    while !entry.answered.wait(milliseconds: 100) {
      let isTaken = entries.withLock { entries in entries.contains { $0.question.id == id && $0.taker != nil } }
      let waited = Clock.monotonicMilliseconds - begun
      if isOver() { throw PumpHandler.ending }
      guard waited < (isTaken ? answeredMilliseconds : takenMilliseconds) else {
        throw CairnError(
          .peerUnreachable,
          isTaken
            ? "node \(trail.origin) does not answer a question about the rows of \(trail)"
            : "node \(trail.origin), which has the rows of \(trail), cannot be reached",
          hint:
            "run 'cairn status': the pump or peer that brings the trail must be connected, and no node on the way may have an older version",
          remedy: .retry, context: ["trail": trail.description])
      }
    }
    let answer = entries.withLock { entries in entries.first { $0.question.id == id }?.answer }
    return try Self.opened(answer ?? [])
  }

  // MARK: Handing on

  /// The time, in milliseconds, during which only the node that writes a trail may fetch a new question about its rows.
  private static let originFirstMilliseconds: Int64 = 3_000

  /// Stores the name of the node at the dialled address `asker`.
  func note(_ name: String, at asker: String) { names.withLock { $0[asker] = name } }

  /// Returns the name that the node at a dialled address gives itself; nil if it has not answered yet.
  package func name(at address: String) -> String? { names.withLock { $0[address] } }

  private func mayTake(_ entry: Entry, _ taker: String, _ mayTake: (TrailName, _ isOld: Bool) -> Bool) -> Bool {
    let isOld = Clock.monotonicMilliseconds - entry.askedAt > Self.originFirstMilliseconds
    let isAsker = entry.asker == taker || names.withLock { $0[entry.asker] }?.hasSameBytes(as: taker) == true
    return entry.taker == nil && !isAsker && mayTake(entry.question.trail, isOld)
  }

  /// Returns whether there is an open question that this peer may answer or forward.
  package func hasQuestion(for taker: String, _ mayTake: (TrailName, _ isOld: Bool) -> Bool) -> Bool {
    entries.withLock { $0.contains { self.mayTake($0, taker, mayTake) } }
  }

  /// Returns the oldest open question that this peer may answer or forward; nil if there is none. Afterwards, the
  /// question is reserved for this peer.
  package func take(for taker: String, _ mayTake: (TrailName, _ isOld: Bool) -> Bool) -> Question? {
    entries.withLock { entries in
      guard let index = entries.firstIndex(where: { self.mayTake($0, taker, mayTake) }) else { return nil }
      entries[index].taker = taker
      return entries[index].question
    }
  }

  /// Returns whether this peer has fetched a question that is still open.
  func isAwaited(_ id: String, from taker: String) -> Bool {
    entries.withLock { $0.contains { $0.question.id == id && $0.taker == taker && $0.answer == nil } }
  }

  /// Stores the answer of the peer that fetched the question. Returns false if the asker no longer waits, if another
  /// peer fetched the question, or if the question was answered before.
  @discardableResult package func answer(_ id: String, by taker: String, _ sealed: [UInt8]) -> Bool {
    entries.withLock { entries in
      let index = entries.firstIndex { $0.question.id == id && $0.taker == taker && $0.answer == nil }
      guard let index else { return false }
      entries[index].answer = sealed
      entries[index].answered.set()
      return true
    }
  }

  // MARK: Answers on their way

  private static let toldCodes: [ErrorCode] = [
    .usage, .busy, .tableMissing, .unsupported, .peerUnreachable, .peerRefused, .trailMissing,
  ]

  /// Encodes the result of `answer`, or the error that it throws, for the network.
  static func sealed(_ answer: () throws -> [UInt8]) -> [UInt8] {
    do {
      let bytes = try answer()
      guard bytes.count < answerBytesMax else { throw PumpHandler.usage("an answer is too large") }
      return [0] + bytes
    } catch {
      let known = (error as? CairnError) ?? (error as? PumpFault)?.error
      // Other errors may reveal the state or the location of the database, so only the database's own node shows them.
      let error =
        known.flatMap { toldCodes.contains($0.code) ? $0 : nil }
        ?? CairnError(
          known?.code ?? .ioFailed, "the node of the source cannot read it now", hint: "see the log of that node",
          remedy: .retry)
      return [1] + Array(PumpFault(error).json.line.utf8)
    }
  }

  static func opened(_ sealed: [UInt8]) throws -> [UInt8] {
    switch sealed.first {
    case 0: return Array(sealed.dropFirst())
    case 1:
      guard case .object(let told)? = try? JSONReader.read(Array(sealed.dropFirst())) else { fallthrough }
      throw CairnError(
        told.text("code").flatMap { ErrorCode(rawValue: $0) } ?? .peerUnreachable, told.told("message") ?? "",
        hint: told.told("hint") ?? "", remedy: .retry)
    default:
      throw CairnError(
        .peerUnreachable, "a question about rows got an answer that is not of Cairn",
        hint: "bring both nodes to the same version of Cairn", remedy: .retry)
    }
  }
}
