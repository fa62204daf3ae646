import Changes
import PostgresKit

/// The rights that apply's role lacks on a table of the target.
///
/// A statement that the server refuses ends its transaction. So two-way apply reads its rights before it locks rows, or
/// defers a row to the end of its transaction.
///
///     try TableRights.missing(["SELECT", "UPDATE"], on: ("sales", "orders"), connection)   // ["UPDATE"]
enum TableRights {
  /// The rights that conflict resolution may need.
  static let ofRows = ["SELECT", "INSERT", "UPDATE", "DELETE"]
  /// The rights to lock rows.
  static let ofLocks = ["SELECT", "UPDATE"]

  /// Returns the rights among `wanted` that apply's role lacks. Includes `USAGE` for the schema, and `BYPASSRLS` if
  /// policies apply to the role. Empty for a table that does not exist.
  static func missing(
    _ wanted: [String], on table: (schema: String, name: String), _ connection: PostgresConnection
  ) throws -> [String] {
    let columns = wanted.map { right in
      ["DELETE", "TRUNCATE"].contains(right)
        ? "has_table_privilege(c.oid, '\(right)')" : "has_any_column_privilege(c.oid, '\(right)')"
    }
    let row = try connection.query(
      """
      SELECT has_schema_privilege(n.oid, 'USAGE'), NOT row_security_active(c.oid), \(columns.joined(separator: ", "))
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
      """, [table.schema, table.name]
    ).first
    guard let row else { return [] }
    return zip(["USAGE", "BYPASSRLS"] + wanted, row).filter { $0.1 == "f" }.map(\.0)
  }

  /// Throws `privilege-missing` if apply's role lacks a right that conflict resolution may need.
  ///
  /// - Parameter name: The table's name at the source.
  static func check(_ table: PostgresTargetTable, named name: String, _ connection: PostgresConnection) throws {
    let missing = try missing(ofRows, on: (table.schema, table.name), connection)
    guard !missing.isEmpty else { return }
    throw unentitled(
      "apply's role lacks \(missing.joined(separator: ", "))", name, at: table.qualifiedName, connection.place)
  }

  /// Returns the error for a table that the role of apply may not read or write.
  static func unentitled(_ message: String, _ source: String, at name: String, _ place: String) -> CairnError {
    CairnError(
      .privilegeMissing, "table \(name) of \(place): \(message)",
      hint:
        "grant the right to apply's role, which needs BYPASSRLS for a table with policies; apply continues by itself",
      context: ["table": source])
  }
}

/// The checks of tables that hold for one group of apply. Tables are named by their quoted names.
struct GroupChecks {
  /// Whether waiting rows may be written to a table. Tables that were not checked yet are missing.
  var judgeable: [NameKey: Bool] = [:]
  /// The tables with a deferred row, on which apply's role has all rights that conflict resolution may need.
  var entitled: Set<NameKey> = []
}
