import Changes
import PostgresKit

/// The schemas (namespaces) of a target whose owners could exchange a schema while apply writes: rename it, and give
/// its name to another schema.
///
///     let schemas = try ExchangeableSchemas(connection)
///     schemas.notice   // "role low owns schema app …"
package struct ExchangeableSchemas {
  package typealias Schema = (name: String, owner: String)

  package let all: [Schema]
  private let place: String

  package init(_ connection: PostgresConnection) throws {
    place = connection.place
    all = try connection.query(
      """
      SELECT n.nspname, r.rolname FROM pg_namespace n
        \(OwnSchema.databaseOwner)
        JOIN pg_roles r ON r.oid = coalesce(d.datdba, n.nspowner)
      WHERE NOT \(OwnSchema.isTrusted("r")) AND has_database_privilege(r.oid, current_database(), 'CREATE')
        AND has_schema_privilege(n.oid, 'USAGE') AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid
          AND c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE'))
      ORDER BY 1
      """
    ).map { ($0[0] ?? "", $0[1] ?? "") }
  }

  /// Returns the sentence that warns operators about a schema: its owner can exchange a table while apply writes.
  package static func fact(_ schema: Schema) -> String {
    "role \(schema.owner) owns schema \(schema.name) and may create others: it can exchange a table while apply writes"
  }

  package static func hint(_ schema: Schema) -> String {
    "as a superuser: ALTER SCHEMA \(schema.name.quotedName) OWNER TO CURRENT_USER"
  }

  /// The warning about the first exchangeable schema, with the number of further ones; nil if there is none.
  package var notice: String? {
    guard let first = all.first else { return nil }
    let more = all.count == 1 ? "" : " (and \(all.count - 1) more, which 'cairn check --security' lists)"
    return "\(place): \(Self.fact(first))\(more); \(Self.hint(first))"
  }
}
