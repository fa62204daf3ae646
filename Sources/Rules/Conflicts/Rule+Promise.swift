extension ConflictRules.Rule {
  /// The guarantee of a rule: whether nodes that have applied the same transactions have the same rows.
  package enum Promise: Equatable, Sendable {
    /// The nodes have the same rows, in whatever order the transactions arrived.
    case converges
    /// The nodes have the same rows if the rules of both directions between two nodes select the same node's version.
    case convergesIfWaysAgree
    /// The nodes have the same rows after the deciding node's row has reached all other nodes, as a change or by a
    /// refresh.
    case decidedAtOneNode
    /// The nodes have the row that `newest` selects, until the operator's decision reaches them as a change.
    case decidedByPerson
    /// Apply stops until the operator has repaired the row.
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

  /// Whether the rule can resolve whole rows, not only single columns.
  package var isForRows: Bool {
    switch self {
    case .newest, .oldest, .priority, .source, .target, .insertOnly, .sql, .function, .stop, .ask: true
    case .max, .min, .delta, .average, .mergeText, .combine: false
    }
  }

  /// Whether the rule's result depends on the node that resolves the row. Such a rule can have a decider.
  package var isDecided: Bool {
    switch self {
    case .source, .target, .insertOnly, .sql, .function: true
    default: false
    }
  }

  /// Whether only one node can evaluate the rule. Such a rule needs a decider.
  package var needsDecider: Bool { if case .function = self { true } else { false } }

  /// Returns the rule that applies until a conflict is decided. It is `newest` for a rule that the decider evaluates,
  /// and for `ask` if the operator decides at another node. It is the rule itself in all other cases.
  /// - Parameter isHere: Whether the operator decides at this node.
  func untilDecided(isHere: Bool) -> Self { isDecided || (self == .ask && !isHere) ? .newest : self }

  /// Whether the rule can resolve single columns, not only whole rows.
  package var isForColumns: Bool { self != .insertOnly }

  /// The configured names of the rules that can resolve whole rows.
  package static var rowNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForRows } }
  }
  package static var columnNames: [String] {
    names.filter { name in samples.contains { $0.isNamed(name) && $0.isForColumns } }
  }

  private func isNamed(_ name: String) -> Bool { text.hasPrefix(name) }

  /// Whether the rule needs the row before the change. PostgreSQL logs this row only with REPLICA IDENTITY FULL.
  package var needsBefore: Bool { self == .delta || self == .mergeText }

  /// A description of the version that the rule selects, in one line without a full stop.
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
  /// A description of the guarantee in one line without a full stop.
  package var explanation: String {
    switch self {
    case .converges: "all nodes end with the same row, in whatever order the changes arrive"
    case .convergesIfWaysAgree: "all nodes end with the same row if every way between them names the same node"
    case .decidedAtOneNode: "one node decides; the others get its row with its next change of that row, or with a copy"
    case .decidedByPerson: "all nodes end with the same row; a decision of the operator replicates as a change"
    case .stops: "nothing is decided; the apply stops and waits for the operator"
    }
  }
}
