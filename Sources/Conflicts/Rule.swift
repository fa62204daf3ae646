import Changes

extension ConflictRules {
  /// Which of several versions, or of their values in one column, stands.
  package enum Rule: Equatable, Sendable {
    /// The latest one; of equal clocks that of the node whose name comes last.
    case newest
    /// The earliest one.
    case oldest
    /// That of the node that comes first here, or of the trail, where a node has several; those that are not named come
    /// last, and by `newest` among themselves.
    case priority([String])
    /// The greatest value; NULL is the least.
    case max
    case min
    /// The sum of what each one added. Columns of numbers.
    case delta
    /// The mean of the values. Columns of numbers.
    case average
    /// What each one made of the lines of a text. Columns of text.
    case mergeText
    /// All different values, from the earliest to the latest, with this between them. Columns of text.
    case combine(separator: String)
    /// That of the node where the trail comes from.
    case source
    /// That of the node whose apply it is.
    case target
    /// What is here is never changed by what comes, conflict or not; only rows that are not here come in.
    case insertOnly
    /// What an expression makes of two values, and of what was before them; of whole rows: that of the later version where
    /// it is true. It sees the other columns, too.
    case sql(String)
    /// What a function in PostgreSQL makes of the rows, at the node that decides.
    case function(String)
    /// None: apply stops.
    case stop
    /// The latest one, until a person has decided.
    case ask

    package static func == (a: Rule, b: Rule) -> Bool { a.text == b.text }
  }
}

// As people write them.
extension ConflictRules.Rule {
  /// Why a text is no rule.
  package enum Fault: Error, Equatable, Sendable {
    case unknown(nearest: String)
    /// Something must stand behind the colon, such as the example has it.
    case incomplete(example: String)
    /// Nothing may stand there.
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

  /// One of each.
  package static var samples: [ConflictRules.Rule] { plain.map(\.1) + withMore.compactMap { try? Self($0.1) } }

  /// `newest`, `priority:NODE,NODE`, `combine:SEPARATOR`, `sql:EXPRESSION` and so on.
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

  /// Every name of a rule, in the order of the documents.
  package static var names: [String] { plain.map(\.0) + withMore.map { "\($0.0):" } }

  /// One that PostgreSQL reads without quotes as it is written.
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
