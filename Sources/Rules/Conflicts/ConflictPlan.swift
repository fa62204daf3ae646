import Changes

/// The configured conflict rules of an apply, by the names of tables and columns.
///
///     let plan = ConflictPlan(.init(rule: .newest), tables: [.init(from: "stock", .init(rule: .delta))])
///     plan.rules(forTarget: "stock", columns: ["id", "count"])
package struct ConflictPlan: Equatable, Sendable {
  /// The settings of the whole plan or of one table. A table inherits the settings that are nil.
  ///
  ///     ConflictPlan.Part(rule: .newest, columns: ["count": .delta])
  package struct Part: Equatable, Sendable {
    package var rule: ConflictRules.Rule?
    /// The rules of single columns, by lower-case name at the target.
    package var columns: [NameKey: ConflictRules.Rule]
    package var tracking: ConflictRules.Tracking?
    package var deletes: ConflictRules.DeleteRule?
    /// The node or trail that decides conflicts for all nodes; nil if each node resolves conflicts itself.
    @ByBytes package var decider: String? = nil

    package init(
      rule: ConflictRules.Rule? = nil, columns: [NameKey: ConflictRules.Rule] = [:],
      tracking: ConflictRules.Tracking? = nil, deletes: ConflictRules.DeleteRule? = nil, decider: String? = nil
    ) {
      (self.rule, self.tracking, self.deletes, self.decider) = (rule, tracking, deletes, decider)
      self.columns = Dictionary(columns.map { ($0.text.sqliteKey, $1) }) { first, _ in first }
    }
  }

  /// The settings for the source tables with one name or pattern.
  ///
  ///     ConflictPlan.Table(from: "stock", .init(rule: .delta))
  package struct Table: Equatable, Sendable {
    @ByBytes package var from: String
    /// The name of the table at the target; nil if unchanged.
    @ByBytes package var to: String? = nil
    package var part: Part

    package init(from: String, to: String? = nil, _ part: Part) { (self.from, self.to, self.part) = (from, to, part) }
  }

  package var whole: Part
  /// The settings of tables. For a table, an exact name has precedence over a pattern, and an earlier entry over a
  /// later one.
  package var tables: [Table]

  package init(_ whole: Part = Part(), tables: [Table] = []) { (self.whole, self.tables) = (whole, tables) }

  /// Returns the conflict rules for a table of the source.
  /// - Parameter columns: The names of the target's columns in their order. Rules of other columns are ignored.
  package func rules(for source: TableSchema, columns: [String]) -> ConflictRules {
    rules(part(for: source), columns)
  }

  /// Returns the conflict rules for a table of the target.
  /// - Parameter name: The name of the table, with its schema unless that is `public`.
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

  /// Returns the columns that have a rule of their own in the settings of a table and that the target's table lacks.
  package func unknownColumns(of source: TableSchema, columns: [String]) -> [String] {
    let there = Set(columns.map { $0.sqliteKey })
    return (part(for: source)?.columns.keys.filter { !there.contains($0) } ?? []).sorted().map(\.text)
  }

  private func part(for source: TableSchema) -> Part? {
    (tables.first { !TablePatterns.isPattern($0.from) && source.matches($0.from) }
      ?? tables.first { source.matches($0.from) })?.part
  }
}
