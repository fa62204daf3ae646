/// The number of the source's statements that apply executed at the target, and the reasons why it wrote the rows of
/// the other statements instead.
package struct StatementCounts: Equatable, Sendable {
  private static let reasonsMax = 50
  private static let otherReasons = "other reasons"

  package private(set) var replayed: UInt64 = 0
  package private(set) var asRows: UInt64 = 0
  package private(set) var reasons: [String: UInt64] = [:]

  package init() {}

  package mutating func addReplayed() { replayed += 1 }

  package mutating func addRows(_ reason: String) {
    asRows += 1
    let isKnown = reasons[reason] != nil || reasons.count < Self.reasonsMax
    reasons[isKnown ? reason : Self.otherReasons, default: 0] += 1
  }

  package mutating func add(_ other: StatementCounts) {
    replayed += other.replayed
    asRows += other.asRows
    for (reason, count) in other.reasons {
      let isKnown = reasons[reason] != nil || reasons.count < Self.reasonsMax
      reasons[isKnown ? reason : Self.otherReasons, default: 0] += count
    }
  }

  /// The counts as one line for operators; nil if there were no statements.
  package var summary: String? {
    guard replayed + asRows > 0 else { return nil }
    let head = "\(replayed) of \(replayed + asRows) statements were executed as such"
    guard asRows > 0 else { return head }
    return
      "\(head); for the rest the rows were applied: \(ordered.map { "\($0.reason) (\($0.count))" }.joined(separator: ", "))"
  }

  /// The reasons why apply wrote rows instead of executing statements, the most frequent first.
  package var ordered: [(reason: String, count: UInt64)] {
    reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { (reason: $0.key, count: $0.value) }
  }
}
