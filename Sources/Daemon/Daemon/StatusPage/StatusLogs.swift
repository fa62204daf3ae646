import Applying
import Changes
import Configuring
import Deploying
import Endpoints
import ServiceKit
import Synchronization
import SystemKit

/// The latest conflicts in the database of an apply, and the apply's quarantine, for the status page.
///
/// The answers have no rows, but messages may name the key of a row. An answer is kept for 5 s, and one thread at a time reads a database, so that
/// clients cannot load the target.
final class StatusLogs: Sendable {
  /// The most entries of each log in an answer.
  static let entriesMax = 50
  /// A longer quarantine is not read, as its rows would fill the memory.
  static let quarantinedMax = 10_000
  private static let keptMilliseconds: Int64 = 5_000
  // Names come from the conf: their number is bounded.
  private struct State {
    var answers: [NameKey: (at: Int64, body: String)] = [:]
    var isReading = false
  }

  private let state = Mutex(State())

  /// Returns the answer for an apply as JSON; nil while another thread reads.
  ///
  /// - Parameter quarantined: The number of transactions in the quarantine of the apply.
  /// - Throws: `usage` if there is no such apply; the error of its database if that cannot be read.
  func answer(_ name: String, _ configuration: Configuration, quarantined: Int) throws -> String? {
    guard let apply = configuration.applies.first(where: { $0.name.hasSameBytes(as: name) }),
      let database = configuration.database(apply.database)
    else { throw CairnError(.usage, "there is no such apply", hint: "see /status.json", remedy: .badInput) }
    let now = Clock.monotonicMilliseconds
    let (known, mayRead) = state.withLock { state -> (String?, Bool) in
      if let known = state.answers[NameKey(name)], now - known.at < Self.keptMilliseconds { return (known.body, false) }
      defer { state.isReading = true }
      return (nil, !state.isReading)
    }
    guard mayRead else { return known }
    defer { state.withLock { $0.isReading = false } }
    let url = try database.location().canonical
    let conflicts = try ConflictLogs.open(url).list(before: nil, limit: Self.entriesMax + 1)
    let isShort = quarantined <= Self.quarantinedMax
    let all = isShort ? try QuarantineLogs.open(url).list() : []
    let quarantine = all.filter { $0.trail.description.hasSameBytes(as: apply.trail) }
    let body = Self.json(conflicts, quarantine, hasMore: !isShort)
    state.withLock { $0.answers[NameKey(name)] = (Clock.monotonicMilliseconds, body) }
    return body
  }

  static func json(
    _ conflicts: [ConflictRecord], _ quarantine: [QuarantinedTransaction], hasMore: Bool
  ) -> String {
    let more = hasMore || conflicts.count > entriesMax || quarantine.count > entriesMax
    return JSONObject([
      ("conflicts", .list(conflicts.prefix(entriesMax).map { .object($0.facts) })),
      ("quarantine", .list(quarantine.prefix(entriesMax).map { .object($0.facts) })), ("more", .bool(more)),
    ]).line
  }
}

extension ConflictRecord {
  fileprivate var facts: JSONObject {
    JSONObject([
      ("number", .integer(id)), ("at", .text(UTCTime(at).description)), ("kind", .text(kind.rawValue)),
      ("table", .text(fullName.cutMessage)), ("trail", .text(trail.description)), ("rule", .text(rule.cutMessage)),
      (
        "outcome",
        .text(
          overturnedAt != nil
            ? "overturned" : winner == .merged ? "both are merged" : "the \(winner.rawValue) version won")
      ),
    ])
  }
}

extension QuarantinedTransaction {
  fileprivate var facts: JSONObject {
    JSONObject([
      ("number", .integer(id)), ("transaction", .integer(Int64(clamping: number))), ("code", .text(code.cutMessage)),
      ("message", .text(message.cutMessage)), ("hint", .text(hint.cutMessage)),
      ("position", .text(position.description)), ("held_by", heldBy.map { .integer($0) } ?? .null),
    ])
  }
}
