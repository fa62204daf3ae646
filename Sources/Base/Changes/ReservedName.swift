/// Names of tables and sequences that belong to Cairn or to a database engine. Capture leaves out such tables, and apply
/// never writes them.
///
///     ReservedName.isReserved("public", "cairn_pending")  // true
package enum ReservedName {
  /// Returns whether a name is reserved, or is no valid name. Case does not matter.
  /// - Parameter namespace: The schema in PostgreSQL; empty in SQLite.
  package static func isReserved(_ namespace: String, _ name: String) -> Bool {
    let (space, table) = (namespace.asciiLowercased, name.asciiLowercased)
    if table.isEmpty || table.utf8.contains(0) || space.utf8.contains(0) { return true }
    return ["cairn", "information_schema"].contains { space.utf8.elementsEqual($0.utf8) }
      || ["cairn_", "pg_"].contains { space.utf8.starts(with: $0.utf8) }
      || ["cairn_", "sqlite_"].contains { table.utf8.starts(with: $0.utf8) }
  }
}
