extension ConflictRules.Rule {
  /// The guarantee that a rule gives for nodes that have applied the same transactions.
  package enum Promise: Equatable, Sendable {
    /// The nodes hold the same rows, in whatever order the transactions arrived.
    case converges
    /// The nodes hold the same rows if both directions between two nodes name the same winner.
    case convergesIfWaysAgree
    /// The nodes hold the same rows once the deciding node has written or sent the row again. Its row wins.
    case decidedAtOneNode
    /// The nodes hold the same rows as under `newest`, and then those that the operator decides on.
    case decidedByPerson
    /// Nothing is resolved: apply stops until the operator has repaired the row.
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

  /// Whether the rule can resolve whole rows. The other rules are for single columns.
  package var isForRows: Bool {
    switch self {
    case .newest, .oldest, .priority, .source, .target, .insertOnly, .sql, .function, .stop, .ask: true
    case .max, .min, .delta, .average, .mergeText, .combine: false
    }
  }

  /// Whether one node may decide for all others, because the result depends on the node that resolves it.
  package var isDecided: Bool {
    switch self {
    case .source, .target, .insertOnly, .sql, .function: true
    default: false
    }
  }

  /// Whether the rule can run at one node only.
  package var needsDecider: Bool { if case .function = self { true } else { false } }

  /// Returns the rule that applies until the deciding node has decided.
  /// - Parameter isHere: whether this node is the one at which the operator decides.
  func untilDecided(isHere: Bool) -> Self { isDecided || (self == .ask && !isHere) ? .newest : self }

  /// Whether the rule can resolve single columns.
  package var isForColumns: Bool { self != .insertOnly }

  /// The names of the rules for rows, as the configuration spells them.
  package static var rowNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForRows } }
  }
  package static var columnNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForColumns } }
  }

  private func isNamed(_ name: String) -> Bool { text.hasPrefix(name) }

  /// Whether the rule needs the previous value. PostgreSQL logs that only with REPLICA IDENTITY FULL.
  package var needsBefore: Bool { self == .delta || self == .mergeText }

  /// A description of the winner in one line without a full stop.
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
  /// A description in one line without a full stop.
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
