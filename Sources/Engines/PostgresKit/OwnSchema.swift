import Changes

/// The check that all objects in a schema of Cairn belong to a superuser or the session's role. Code of any other owner
/// would run with Cairn's rights.
package enum OwnSchema {
  /// Returns an SQL condition that is true for a role that may own objects of Cairn. `role` is a row of `pg_roles`.
  ///
  /// Such roles are superusers, the session's role, and its members, who can act as that role in any case.
  package static func isTrusted(_ role: String) -> String { "pg_has_role(\(role).oid, current_user, 'MEMBER')" }

  /// The query for the ids of all roles that ``isTrusted(_:)`` accepts.
  package static let trustedRoles = "SELECT r.oid FROM pg_roles AS r WHERE \(isTrusted("r"))"

  /// The SQL that joins `d`, this database, to a schema `n` of `pg_namespace` that belongs to the owner of the database.
  /// The owner of the schema is then `coalesce(d.datdba, n.nspowner)`.
  package static let databaseOwner =
    "LEFT JOIN pg_database d ON d.datname = current_database() AND pg_get_userbyid(n.nspowner) = 'pg_database_owner'"

  /// Throws `privilege-missing` if the schema or an object in it belongs to an untrusted role.
  package static func check(_ schema: String, _ connection: PostgresConnection) throws {
    guard let found = try foreign(schema, connection) else { return }
    throw CairnError(
      .privilegeMissing,
      "\(connection.place): \(found.what) belongs to role \(found.owner), which could make Cairn's role \(found.role) run code",
      hint: """
        connect as role \(found.owner) if Cairn uses that role; if the schema is not needed: DROP SCHEMA \(schema) CASCADE; \
        else check everything in it, and run as a superuser: ALTER SCHEMA \(schema) OWNER TO \(found.role.quotedName), \
        and the same for each table and function
        """,
      context: ["role": found.owner])
  }

  /// Returns the schema, or one object in it, if an untrusted role owns it; nil if there is none. `owner` is that role,
  /// and `role` is the session's.
  package static func foreign(
    _ schema: String, _ connection: PostgresConnection
  ) throws -> (what: String, owner: String, role: String)? {
    let row = try connection.query(
      """
      WITH own AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = $1::text), item(place, what, owner) AS (
        SELECT 0, 'schema ' || $1::text, nspowner FROM own
        UNION ALL SELECT 1, 'table ' || $1::text || '.' || relname, relowner FROM pg_class JOIN own ON own.oid = relnamespace
        UNION ALL SELECT 2, 'function ' || $1::text || '.' || proname, proowner FROM pg_proc JOIN own ON own.oid = pronamespace
        UNION ALL SELECT 3, 'type ' || $1::text || '.' || typname, typowner FROM pg_type JOIN own ON own.oid = typnamespace
        UNION ALL SELECT 4, 'operator ' || $1::text || '.' || oprname, oprowner FROM pg_operator
          JOIN own ON own.oid = oprnamespace)
      SELECT item.what, r.rolname, current_user FROM item JOIN pg_roles AS r ON r.oid = item.owner
      WHERE NOT \(isTrusted("r")) ORDER BY item.place, item.what LIMIT 1
      """, [schema]
    ).first
    guard let row, row.count == 3 else { return nil }
    return (row[0] ?? schema, row[1] ?? "?", row[2] ?? "?")
  }
}
