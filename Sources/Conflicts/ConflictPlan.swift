import Changes

/// How an apply settles conflicts, by the names of tables and columns: what the conf says.
package struct ConflictPlan: Equatable, Sendable {
  /// A part of it; nil: as the whole has it.
  package struct Part: Equatable, Sendable {
    package var rule: ConflictRules.Rule?
    /// By the names of the target's columns, matched without regard to case.
    package var columns: [NameKey: ConflictRules.Rule]
    package var tracking: ConflictRules.Tracking?
    package var deletes: ConflictRules.DeleteRule?
    /// The node, or its trail, that decides for all others.
    @ByBytes package var decider: String? = nil

    package init(
      rule: ConflictRules.Rule? = nil, columns: [NameKey: ConflictRules.Rule] = [:],
      tracking: ConflictRules.Tracking? = nil, deletes: ConflictRules.DeleteRule? = nil, decider: String? = nil
    ) {
      (self.rule, self.tracking, self.deletes, self.decider) = (rule, tracking, deletes, decider)
      self.columns = Dictionary(columns.map { ($0.text.sqliteKey, $1) }) { first, _ in first }
    }
  }

  /// Of one table at the source, or of all that match a pattern.
  package struct Table: Equatable, Sendable {
    @ByBytes package var from: String
    /// Its name at the target, where the conf gives it another one.
    @ByBytes package var to: String? = nil
    package var part: Part

    package init(from: String, to: String? = nil, _ part: Part) { (self.from, self.to, self.part) = (from, to, part) }
  }

  package var whole: Part
  /// Each table goes by one of them, and in what that leaves out by the whole.
  package var tables: [Table]

  package init(_ whole: Part = Part(), tables: [Table] = []) { (self.whole, self.tables) = (whole, tables) }

  /// For a table of the source. `columns`: the names that they have at the target, in their order there; what is said of
  /// other columns has no effect.
  package func rules(for source: TableSchema, columns: [String]) -> ConflictRules {
    rules(part(for: source), columns)
  }

  /// For a table by its name at the target, without the schema where that is `public`.
  package func rules(forTarget name: String, columns: [String]) -> ConflictRules {
    rules(TablePatterns.first(of: tables, forTarget: name) { $0.to ?? $0.from }?.part, columns)
  }

  private func rules(_ part: Part?, _ columns: [String]) -> ConflictRules {
    var rules = ConflictRules(
      tracking: part?.tracking ?? whole.tracking ?? .row, rule: part?.rule ?? whole.rule ?? .newest,
      deletes: part?.deletes ?? whole.deletes ?? .newest, decider: part?.decider ?? whole.decider)
    for (index, column) in columns.enumerated() {
      rules.columns[index] = part?.columns[column.sqliteKey] ?? whole.columns[column.sqliteKey]
    }
    return rules
  }

  /// The columns that have rules of their own in a table, and that it does not have at the target: for people.
  package func unknownColumns(of source: TableSchema, columns: [String]) -> [String] {
    let there = Set(columns.map { $0.sqliteKey })
    return (part(for: source)?.columns.keys.filter { !there.contains($0) } ?? []).sorted().map(\.text)
  }

  private func part(for source: TableSchema) -> Part? {
    (tables.first { !TablePatterns.isPattern($0.from) && source.matches($0.from) }
      ?? tables.first { source.matches($0.from) })?.part
  }
}
