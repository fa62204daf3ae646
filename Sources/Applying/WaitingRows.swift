import Changes
import PostgresKit
import SQLiteKit

/// The rows of a two-way database that wait for a unique value which another row has. Programs committed them, and they are
/// in no table: whoever drops what Cairn keeps in the database drops them.
package struct WaitingRows {
  package struct Row {
    /// With its schema in PostgreSQL.
    package let table: String
    /// As in `sku='4711'`.
    package let key: String
    /// The row as JSON.
    package let content: String

    init(_ candidate: Candidate) {
      table = candidate.row.fullName
      key = candidate.row.key.columns.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
      content = candidate.row.row.json
    }
  }

  package let rows: [Row]

  package init(_ database: Database) throws {
    let isThere = try database.integer("SELECT 1 FROM sqlite_schema WHERE name = 'cairn_candidate'") != nil
    rows = try isThere ? SQLiteCandidates(database: database).all().map(Row.init) : []
  }

  package init(_ connection: PostgresConnection) throws {
    let isThere = try connection.first("SELECT to_regclass('cairn.candidate')") != nil
    rows = try isThere ? PostgresCandidates(connection).all().map(Row.init) : []
  }

  /// Throws `constraint-failed` if a row waits.
  package func checkNone(at place: String, in table: String) throws {
    guard let first = rows.first else { return }
    let shown = rows.prefix(3).map { "table \($0.table), row \($0.key): \($0.content)" }.joined(separator: "; ")
    throw CairnError(
      .constraintFailed,
      "\(rows.count) \(rows.count == 1 ? "row" : "rows") of \(place) would be lost, which programs committed and which wait for a unique value: \(shown)",
      hint:
        "give the row that has the value another one and let the applies run, or insert the rows elsewhere and run: DELETE FROM \(table)",
      remedy: .badInput, context: ["table": first.table])
  }
}
