import Changes
import PostgresKit

/// The tables of untrusted roles that a target had when a trail was first applied to it, in `cairn.tables_found`.
///
/// A table of such a role that comes later under the name of a new table would get the table's rows. Its owner could
/// read and change them. A table that was there at the first start is the operator's choice.
///
/// ```
/// cairn.tables_found(trail, relations)
/// ```
extension PostgresApplyState {
  /// The condition that apply may write into a table of a role. `role` is the id of the role.
  static func isTrusted(_ role: String) -> String { "\(role) IN (\(OwnSchema.trustedRoles))" }

  /// Stores the tables that are there, unless that was done for the trail before.
  func noteTablesFound() throws {
    if try connection.first("SELECT to_regclass('cairn.tables_found')") == nil {
      try connection.execute(
        "CREATE TABLE IF NOT EXISTS cairn.tables_found(trail text PRIMARY KEY, relations oid[] NOT NULL)")
    }
    guard let trail else { return }
    let name = trail.description
    guard try connection.first("SELECT 1 FROM cairn.tables_found WHERE trail = $1", [name]) == nil else { return }
    try connection.run(
      """
      INSERT INTO cairn.tables_found(trail, relations) SELECT $1, coalesce(array_agg(c.oid), '{}') FROM pg_class AS c
      WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT \(Self.isTrusted("c.relowner"))
      ON CONFLICT DO NOTHING
      """, [name])
  }

  /// Returns the untrusted role that owns a table; nil if a trusted role owns it. Also nil if the table was there when
  /// the trail was first applied.
  func stranger(owning table: Table) throws -> String? {
    try connection.first(
      """
      SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c
      WHERE c.oid = to_regclass($1) AND NOT \(Self.isTrusted("c.relowner"))
        AND NOT EXISTS (SELECT FROM cairn.tables_found AS f WHERE f.trail = $2 AND c.oid = ANY (f.relations))
      """, ["\(table.schema.quotedName).\(table.name.quotedName)", trail?.description])
  }
}
