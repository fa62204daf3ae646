import Changes

/// The objects other than the table itself that the definition of a table may use at a target.
///
/// A definition may reference the tables that apply may write, their sequences, new sequences, and functions of the
/// target's server. Other names are left out and reported.
///
/// ```
/// let reach = TargetReach(TargetScope(["sales.*"]), closedSequences: ["\"hr\".\"badge_seq\""])
/// reach.includes("hr", "salaries", in: .postgres)   // false
/// reach.includes(sequence: ("hr", "badge_seq"))     // false
/// ```
package struct TargetReach: Sendable {
  private let scope: TargetScope
  private let closedSequences: Set<NameKey>
  private let lackingFunctions: Set<NameKey>
  private let extensions: Set<NameKey>
  /// Whether a definition may use every table, type and sequence that is not reserved.
  package var isOpen: Bool { scope.isOpen }

  /// Creates the set of usable objects of a target.
  ///
  /// - Parameters:
  ///   - closedSequences: The sequences that the setting `tables` of the apply excludes, each as `"schema"."name"`. A
  ///     table's own sequence is excluded with the table.
  ///   - lackingFunctions: The built-in functions of PostgreSQL that the target's server does not have.
  ///   - extensions: The extensions that the target has.
  package init(
    _ scope: TargetScope = TargetScope(), closedSequences: Set<NameKey> = [], lackingFunctions: Set<NameKey> = [],
    extensions: Set<NameKey> = []
  ) {
    (self.scope, self.closedSequences, self.lackingFunctions) = (scope, closedSequences, lackingFunctions)
    self.extensions = extensions
  }

  func lacks(_ function: String) -> Bool { lackingFunctions.contains(function) }

  func has(extension name: String) -> Bool { extensions.contains(name) }

  /// Returns whether a foreign key may reference a table.
  /// - Parameter namespace: The schema in PostgreSQL; empty in SQLite.
  package func includes(_ namespace: String, _ name: String, in engine: Engine) -> Bool {
    scope.verdict(namespace, name, in: engine) == .allowed
  }

  /// Returns whether the definition of a table may create types and sequences in a schema. Allowed are the table's own
  /// schema, and schemas with tables that apply may write.
  func includes(schema: String, of table: TableSchema) -> Bool {
    isOpen || schema.isEmpty || schema == table.namespace || scope.includes(schema: schema)
  }

  /// Returns whether a column's default may use a sequence.
  package func includes(sequence: (namespace: String, name: String)) -> Bool {
    if closedSequences.isEmpty { return true }
    return !closedSequences.contains("\(sequence.namespace.quotedName).\(sequence.name.quotedName)")
  }

  /// Returns the reason, for messages, why the target's table gets no foreign key to a table.
  static func why(_ table: String) -> String {
    "it references table \(table), which 'tables' of the apply does not include"
  }
}
