/// The name of a table in statements about its rows. Rows of tables that inherit from it may be of another owner, so it
/// says `ONLY`, unless the table is partitioned.
///
///     try RowsName("\"sales\".\"order\"", connection).text   // ONLY "sales"."order"
package struct RowsName {
  package let text: String

  /// - Parameter table: The quoted name of a table that is there.
  /// - Throws: ``PostgresError``.
  package init(_ table: String, _ connection: PostgresConnection) throws {
    let kind = try connection.first("SELECT relkind FROM pg_class WHERE oid = to_regclass($1)", [table])
    text = (kind == "p" ? "" : "ONLY ") + table
  }
}
