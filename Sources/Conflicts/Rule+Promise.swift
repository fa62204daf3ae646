extension ConflictRules.Rule {
  /// What is promised of nodes that have seen the same.
  package enum Promise: Equatable, Sendable {
    /// They hold the same, whatever order it came in.
    case converges
    /// So they do as long as both ways between two nodes name the same one as the winner.
    case convergesIfWaysAgree
    /// So they do once the one node that has the rule has written the row again, or sent it: what it decides is what it has.
    case decidedAtOneNode
    /// So they do as `newest` has it, and then as the person who decides has it.
    case decidedByPerson
    /// Nothing is settled: the way stands until a person has mended the row.
    case stops
  }

  package var promise: Promise {
    switch self {
    case .newest, .oldest, .priority, .max, .min, .delta, .average, .mergeText, .combine, .sql: .converges
    case .source, .target: .convergesIfWaysAgree
    case .insertOnly, .function: .decidedAtOneNode
    case .ask: .decidedByPerson
    case .stop: .stops
    }
  }

  /// Whether whole rows can be settled by it; the others are of single columns.
  package var isForRows: Bool {
    switch self {
    case .newest, .oldest, .priority, .source, .target, .insertOnly, .sql, .function, .stop, .ask: true
    case .max, .min, .delta, .average, .mergeText, .combine: false
    }
  }

  /// Whether one node may decide it for all others, as it hangs on who settles it.
  package var isDecided: Bool {
    switch self {
    case .source, .target, .insertOnly, .sql, .function: true
    default: false
    }
  }

  /// Whether it can be kept at one node alone.
  package var needsDecider: Bool { if case .function = self { true } else { false } }

  /// What holds at all nodes until the one has decided. `isHere`: it is this one, where a person is asked.
  func untilDecided(isHere: Bool) -> Self { isDecided || (self == .ask && !isHere) ? .newest : self }

  /// Whether single columns can be settled by it.
  package var isForColumns: Bool { self != .insertOnly }

  /// The names of those that are for rows, as people write them.
  package static var rowNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForRows } }
  }
  package static var columnNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForColumns } }
  }

  private func isNamed(_ name: String) -> Bool { text.hasPrefix(name) }

  /// Whether it needs to know what a value was before: PostgreSQL logs that only under REPLICA IDENTITY FULL.
  package var needsBefore: Bool { self == .delta || self == .mergeText }

  /// What wins, in one line without a full stop.
  package var explanation: String {
    switch self {
    case .newest: "the latest version; of two at the same time that of the node whose name comes last"
    case .oldest: "the earliest version"
    case .priority(let nodes): "the version of \(nodes.joined(separator: ", then of ")); then the latest"
    case .max: "the greatest value; NULL is the least"
    case .min: "the least value; NULL is the least"
    case .delta: "the sum of what each node added"
    case .average: "the mean of the values"
    case .mergeText: "the lines that each node added, changed or took out; of the same lines those of both"
    case .combine(let separator): "all different values, from the earliest on, with '\(separator)' between them"
    case .source: "the version of the node where the trail comes from"
    case .target: "the version of the node that applies"
    case .insertOnly: "what is there; only rows that are not there come in"
    case .sql(let expression): "what \(expression) makes of them"
    case .function(let name): "what the function \(name) makes of them"
    case .stop: "nothing: the apply stops"
    case .ask: "the latest version, until a person has decided"
    }
  }
}

extension ConflictRules.Rule.Promise {
  /// In one line without a full stop.
  package var explanation: String {
    switch self {
    case .converges: "all nodes come to the same row, in whatever order they hear of it"
    case .convergesIfWaysAgree: "all nodes come to the same row where every way between them names the same node"
    case .decidedAtOneNode: "one node decides; the others come to its row with its next change there, or a copy"
    case .decidedByPerson: "all nodes come to the same row; what a person decides replicates as a change"
    case .stops: "nothing is settled; the way waits for a person"
    }
  }
}
