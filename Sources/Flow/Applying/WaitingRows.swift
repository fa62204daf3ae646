import Changes

/// Rows of a two-way database that apply keeps outside their tables, because other rows hold their unique values. Only
/// Cairn's own tables have these rows, so dropping those tables would lose them.
///
///     let waiting = try WaitingRows(Database(path: "shop.db", mode: .readOnly))
///     for row in waiting.rows { print(row.table, row.key.shown, row.holders.map(\.values.shown)) }
package struct WaitingRows {
  package struct Row {
    /// The name of the table; in PostgreSQL with its schema (namespace).
    package let table: String
    package let key: ConflictRow
    package let row: ConflictRow
    /// The time at which the row began to wait, in µs since 1970 UTC; nil if an older version of Cairn stored the row.
    package let since: Int64?
    /// The rows that hold the unique values for which this row waits. Empty if the values are free again, or if the
    /// unique index is on an expression or has a WHERE clause.
    package let holders: [Holder]
  }

  /// A row that holds the unique value for which another row waits.
  package struct Holder {
    /// The columns of the unique index, with the shared unique values.
    package let values: ConflictRow
    /// The key of the row that holds the unique values.
    package let key: ConflictRow
  }

  package let rows: [Row]

  init(of store: some DisplacedRowStore) throws { rows = try Self.rows(store) }

  private static func rows(_ store: some DisplacedRowStore) throws -> [Row] {
    guard try store.state.hasTable(DisplacedRow.stored) else { return [] }
    var found: [ContestedRow] = []
    try store.forEach { found.append($0.row) }
    return try found.sorted { ($0.fullName, $0.key.json) < ($1.fullName, $1.key.json) }.map { row in
      Row(
        table: row.fullName, key: row.key, row: row.row, since: try store.since(row),
        holders: try store.hasTable(of: row) ? store.holders(of: row) : [])
    }
  }

  /// Throws `constraint-failed` if the database has a waiting row.
  ///
  /// - Parameter place: The name of the database in messages.
  /// - Parameter url: The address of the database, as the command line of `cairn` takes it.
  /// - Parameter table: The name of Cairn's own table that stores the waiting rows.
  package func checkNone(at place: String, _ url: String, in table: String) throws {
    guard let first = rows.first else { return }
    let shown = rows.prefix(3).map { "table \($0.table), row \($0.key.shown): \($0.row.json)" }.joined(separator: "; ")
    throw CairnError(
      .constraintFailed,
      "\(rows.count.counted("row")) of \(place), committed by applications and waiting for a unique value, would be lost: \(shown)",
      hint:
        "list them with 'cairn conflicts list --waiting --database \(url)'; change the unique value of the row that has it and let the applies run, or insert the waiting rows elsewhere and run: DELETE FROM \(table)",
      remedy: .badInput, context: ["table": first.table])
  }
}
