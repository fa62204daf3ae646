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
    /// The table belongs to Cairn or to the engine, so that apply refuses the transaction.
    case reserved
  }

  private let patterns: TablePatterns
  /// Whether the setting `tables` includes every table that is not reserved.
  package let isOpen: Bool

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

  /// Returns whether the setting `tables` includes a table.
  private func includes(_ namespace: String, _ name: String, in engine: Engine) -> Bool {
    guard engine == .postgres else { return patterns.includes(name) }
    if namespace.utf8.contains(UInt8(ascii: ".")) { return false }
    return patterns.admits(namespace: namespace, name: name)
  }

  /// Returns whether a name is reserved for Cairn or an engine, or is no valid name. Case does not matter.
  package static func isReserved(_ namespace: String, _ name: String, in engine: Engine) -> Bool {
    let (space, table) = (namespace.asciiLowercased, name.asciiLowercased)
    if table.isEmpty || table.utf8.contains(0) || space.utf8.contains(0) { return true }
    if engine == .postgres, max(table.utf8.count, space.utf8.count) > NamePolicy.postgresNameBytesMax { return true }
    return ["cairn", "information_schema"].contains { space.utf8.elementsEqual($0.utf8) }
      || ["cairn_", "pg_"].contains { space.utf8.starts(with: $0.utf8) }
      || ["cairn_", "sqlite_"].contains { table.utf8.starts(with: $0.utf8) }
  }

  /// Returns the error for a change of a reserved table in a trail.
  package static func refusal(_ table: String, by trail: String, at position: String) -> CairnError {
    CairnError(
      .tableForbidden,
      "trail \(trail) would write table \(table) at \(position), which belongs to Cairn or to the database engine",
      hint:
        "no capture writes such a record: run 'cairn trail show \(trail)' and ask the operator of its node; on_error = \"quarantine\" puts a transaction of rows into quarantine",
      remedy: .badInput, context: ["table": table])
  }
}
