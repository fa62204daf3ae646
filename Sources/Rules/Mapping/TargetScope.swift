import Changes

/// The tables of a target that one apply may write.
///
/// The operator lists the tables (`tables` in `[apply.NAME]`). Tables of Cairn and of the engine are reserved.
///
/// ```
/// let scope = TargetScope(["sales.*", "!sales.secret"])
/// scope.verdict("sales", "orders", in: .postgres)   // .allowed
/// scope.verdict("hr", "salaries", in: .postgres)    // .leftOut
/// scope.verdict("cairn", "pending", in: .postgres)  // .reserved
/// ```
package struct TargetScope: Equatable, Sendable {
  package enum Verdict: Equatable, Sendable {
    case allowed
    /// The apply's setting `tables` does not include the table, so that apply skips the table's records.
    case leftOut
    /// The table has a name of Cairn or of the engine. Apply skips its records, whatever the setting `tables` says.
    case reserved
  }

  private let patterns: TablePatterns
  /// Whether the setting `tables` includes every table that is not reserved.
  package let isOpen: Bool
  /// The operator's list of tables of the source; nil for none. A table that it names without a pattern may belong to
  /// any role at a PostgreSQL target.
  package var listed: TablePatterns?

  package init(_ tables: [String] = ["*"]) {
    patterns = TablePatterns(tables)
    isOpen = patterns == TablePatterns()
  }

  /// Returns what apply may do to a table of the target.
  /// - Parameter namespace: The schema in PostgreSQL; empty in SQLite.
  package func verdict(_ namespace: String, _ name: String, in engine: Engine) -> Verdict {
    if Self.isReserved(namespace, name, in: engine) { return .reserved }
    return isOpen || includes(namespace, name, in: engine) ? .allowed : .leftOut
  }

  /// Returns whether the setting `tables` can include a table of a schema of PostgreSQL.
  ///
  ///     TargetScope(["sales.*", "item"]).includes(schema: "public")  // true: item is public.item
  package func includes(schema: String) -> Bool {
    isOpen || patterns.includesTables(of: schema) || (schema == "public" && patterns.includesPlainTables)
  }

  /// Returns whether the setting `tables` has the name of a PostgreSQL table itself, and not only a pattern for it.
  package func names(_ namespace: String, _ name: String) -> Bool {
    patterns.names(anyOf: TableSchema.names(namespace, name))
  }

  /// Returns whether the setting `tables` includes a table.
  private func includes(_ namespace: String, _ name: String, in engine: Engine) -> Bool {
    guard engine == .postgres else { return patterns.includes(name) }
    if namespace.utf8.contains(UInt8(ascii: ".")) { return false }
    return patterns.admits(namespace: namespace, name: name)
  }

  /// Returns whether a name is reserved for Cairn or an engine, or is no valid name. Case does not matter.
  package static func isReserved(_ namespace: String, _ name: String, in engine: Engine) -> Bool {
    if engine == .postgres, max(name.utf8.count, namespace.utf8.count) > NamePolicy.postgresNameBytesMax { return true }
    return ReservedName.isReserved(namespace, name)
  }
}

extension TableSchema {
  /// The names by which a list can mean a table itself. A name without a schema is one of schema `public`.
  package static func names(_ namespace: String, _ name: String) -> [String] {
    let isPublic = namespace.isEmpty || namespace.hasSameBytes(as: "public")
    return isPublic ? [name, "public.\(name)"] : ["\(namespace).\(name)"]
  }
}
