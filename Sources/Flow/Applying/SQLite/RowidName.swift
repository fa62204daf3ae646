import Changes
import SQLiteKit

/// A name by which SQL reads the rowid of a table.
///
///     try RowidName(of: "orders", in: database).text  // "rowid", or "_rowid_" if a column is called rowid
struct RowidName {
  let text: String

  /// - Throws: `table-refused` if columns of the table hide all three names.
  init(of table: String, in database: Database) throws {
    let rows = try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(table)])
    let columns = Set(rows.map { $0[0].string.sqliteKey })
    guard let name = ["rowid", "_rowid_", "oid"].first(where: { !columns.contains($0.nameKey) }) else {
      throw CairnError(
        .tableRefused,
        "table \(table) of \(database.path) has rows without a key, and its columns hide rowid, _rowid_ and oid: one of several equal rows cannot be named",
        hint: "give the table a key without NULLs, or leave it out: 'tables' (--tables)", context: ["table": table])
    }
    text = name
  }
}
