import Changes

extension ConflictRules {
  /// The rule that resolves a conflict in a row or a column.
  ///
  ///     try ConflictRules.Rule("newest")   // .newest
  package enum Rule: Equatable, Sendable {
    /// The latest version. If two clocks are equal, the version of the node whose name sorts last.
    case newest
    case oldest
    /// The version of the node or trail that is listed first. All nodes that are not listed come last, and `newest`
    /// decides among them.
    case priority([String])
    /// The greatest value. NULL is less than all other values.
    case max
    case min
    /// The sum of all changes to the value since the versions' common ancestor. For numeric columns.
    case delta
    /// The mean of the values. For numeric columns.
    case average
    /// The three-way merge of a text, line by line.
    case mergeText
    /// All different values from the earliest to the latest, joined by the separator. For text columns.
    case combine(separator: String)
    /// The version of the node from which the applied trail comes.
    case source
    /// The version of the node whose apply resolves the conflict.
    case target
    /// The existing row, which incoming changes never change. Incoming rows that do not exist at this node are
    /// inserted.
    case insertOnly
    /// The value of an SQL expression over the values of both versions and of their common ancestor. For whole rows,
    /// the later version wins if the expression is true, otherwise the earlier one.
    case sql(String)
    /// The result of a PostgreSQL function, which the deciding node calls.
    case function(String)
    /// No version wins, and apply stops until the operator has repaired the row.
    case stop
    /// The latest version, until the operator has decided and has written the row.
    case ask

    package static func == (a: Rule, b: Rule) -> Bool { a.text == b.text }
  }
}

// Rules as the configuration spells them.
extension ConflictRules.Rule {
  /// The reason why a text is not a rule.
  package enum Fault: Error, Equatable, Sendable {
    case unknown(nearest: String)
    /// The rule needs a part after a colon, and this part is missing or invalid.
    case incomplete(example: String)
    /// The rule with this name takes no part after a colon.
    case tooMuch(String)
  }

  private static let plain = [
    ConflictRules.Rule.newest, .oldest, .max, .min, .delta, .average, .mergeText, .source, .target, .insertOnly, .stop,
    .ask,
  ].map { ($0.text, $0) }
  private static let withMore = [
    ("priority", "priority:hq,store-1"), ("combine", "combine: / "), ("sql", "sql:max(local, incoming)"),
    ("function", "function:public.settle"),
  ]

  /// One example of each rule, for tests and documents.
  package static var samples: [ConflictRules.Rule] { plain.map(\.1) + withMore.compactMap { try? Self($0.1) } }

  /// Reads a rule: `newest`, `priority:NODE,NODE`, `combine:SEPARATOR`, `sql:EXPRESSION` and so on.
  package init(_ text: String) throws(Fault) {
    let name = String(text.prefix { $0 != ":" })
    let more = text.dropFirst(name.count + 1)
    if let (_, rule) = Self.plain.first(where: { $0.0 == name }) {
      if text.count > name.count { throw .tooMuch(name) }
      self = rule
      return
    }
    guard let (_, example) = Self.withMore.first(where: { $0.0 == name }) else {
      throw .unknown(nearest: Self.nearest(to: name))
    }
    switch name {
    case "priority":
      let nodes = more.split(separator: ",", omittingEmptySubsequences: false).map { Self.trimmed($0) }
      guard !nodes.contains(""), Set(nodes).count == nodes.count else { throw .incomplete(example: example) }
      self = .priority(nodes)
    case "combine":
      guard !more.isEmpty else { throw .incomplete(example: example) }
      self = .combine(separator: String(more))
    case "function":
      let parts = more.split(separator: ".", omittingEmptySubsequences: false)
      guard parts.count == 2, parts.allSatisfy(Self.isIdentifier) else { throw .incomplete(example: example) }
      self = .function(String(more))
    default:
      guard more.contains(where: { !$0.isWhitespace }) else { throw .incomplete(example: example) }
      self = .sql(String(more))
    }
  }

  package var text: String {
    switch self {
    case .priority(let nodes): "priority:" + nodes.joined(separator: ",")
    case .combine(let separator): "combine:" + separator
    case .sql(let expression): "sql:" + expression
    case .function(let name): "function:" + name
    case .newest: "newest"
    case .oldest: "oldest"
    case .max: "max"
    case .min: "min"
    case .delta: "delta"
    case .average: "average"
    case .mergeText: "merge-text"
    case .source: "source"
    case .target: "target"
    case .insertOnly: "insert-only"
    case .stop: "stop"
    case .ask: "ask"
    }
  }

  /// The configured names of all rules, in the order in which the documents list them.
  package static var names: [String] { plain.map(\.0) + withMore.map { "\($0.0):" } }

  /// Returns whether PostgreSQL reads the identifier without quotes exactly as it is written.
  private static func isIdentifier(_ text: Substring) -> Bool {
    guard let first = text.first, first == "_" || ("a"..."z").contains(first) else { return false }
    return text.allSatisfy { $0 == "_" || ("a"..."z").contains($0) || ("0"..."9").contains($0) }
  }

  private static func trimmed(_ text: Substring) -> String {
    String(text.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }

  private static func nearest(to name: String) -> String {
    let names = plain.map(\.0) + withMore.map(\.0)
    let near = name.lowercased().nearest(in: names) ?? "newest"
    return withMore.first { $0.0 == near }?.1 ?? near
  }
}
