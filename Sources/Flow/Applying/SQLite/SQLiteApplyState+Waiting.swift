import Changes
import SQLiteKit

extension SQLiteApplyState {
  struct Waiting: Equatable {
    var table: WaitingTable
    /// The names that the table has had since its checkpoint. The first is its name at the target, the last its name at
    /// the source.
    @ByBytes var names: [String]
    /// The record at which the table is suspended. The table has all changes before this record. Nil if the table lacks
    /// the whole transaction.
    var from: Position?
    var isGone = false

    static let columns: [(name: String, declaration: String)] = [
      ("wait_trail", "BLOB"), ("wait_segment", "INTEGER"), ("wait_offset", "INTEGER"), ("wait_chain", "BLOB"),
      ("wait_number", "INTEGER"), ("wait_source", "TEXT"), ("wait_code", "TEXT"), ("wait_message", "TEXT"),
      ("wait_hint", "TEXT"), ("wait_names", "TEXT"), ("wait_from", "TEXT"), ("wait_gone", "INTEGER"),
    ]
    init(table: WaitingTable, names: [String], from: Position? = nil) {
      (self.table, self.names, self.from) = (table, names, from)
    }

    /// Reads the state of a suspended table; nil for a table that is not suspended.
    ///
    /// - Parameter row: The values of ``columns``.
    /// - Throws: `database-damaged` if the stored state is invalid.
    init?(_ name: String, _ row: [Value]) throws {
      if row[0] == .null { return nil }
      guard let table = WaitingTable(row.map(\.stateText)) else {
        throw CheckpointColumns.damaged("table cairn_table of the target holds a state of table \(name)")
      }
      self.table = table
      names = NameList.names(row[9].string)
      if names.isEmpty { names = [name] }
      from = row[10] == .null ? nil : Position(row[10].string)
      isGone = row[11] == .integer(1)
    }

    var values: [Value] {
      table.values + [
        .text(NameList.text(names)), from.map { .text($0.description) } ?? .null, .integer(isGone ? 1 : 0),
      ]
    }

    func holds(_ name: String) -> Bool { names.contains { $0.sqliteKey == name.sqliteKey } }
  }

  func checkWaiting(_ name: String, at expected: Checkpoint, _ from: Position?) throws {
    let columns = Waiting.columns.map(\.name).joined(separator: ", ")
    let row = try database.query(
      "SELECT \(columns) FROM cairn_table WHERE name = ? AND trail = ?", [.text(name), .text(trail?.description ?? "")]
    ).first
    guard let found = try row.flatMap({ try Waiting(name, $0) }), found.table.checkpoint == expected,
      found.from == from
    else { throw CheckpointColumns.moved("the place where table \(name) waits in \(database.path)") }
  }

  func reach(of trail: TrailName) throws -> TwoWay.Reach? {
    try checkpoints.reach(of: trail) { id in
      try SQLiteApplyState(database, of: trail).tables().compactMap { key, table in
        guard let waiting = table.waiting, waiting.table.checkpoint.trail == id else { return nil }
        let isRenamed = waiting.names.map(\.sqliteKey) != [key]
        return (isRenamed ? nil : key, waiting.table)
      }
    }
  }

  package func heldTables() throws -> [HeldTable] {
    guard try isInstalled() else { return [] }
    try upgrade()
    let tables = try tables()
    return tables.compactMap { key, table in
      guard let waiting = table.waiting, let place = waiting.names.first else { return nil }
      let isTaken = place.sqliteKey != key && tables[place.sqliteKey] != nil
      return HeldTable(
        name: waiting.table.name, place: place,
        isReplaceable: !isTaken && !waiting.isGone && table.claim?.isOfHistory != true,
        isRenamed: waiting.names.count > 1)
    }
  }

  /// Ends the suspension of tables. Apply then skips each table's changes until a refresh of the table begins.
  package func replace(_ held: [HeldTable]) throws {
    let tables = try tables()
    try database.transaction {
      for (key, table) in tables {
        guard let waiting = table.waiting, let place = waiting.names.first,
          held.contains(where: { $0.place.hasSameBytes(as: place) })
        else { continue }
        try forget(waiting.names.last ?? key.text)
        var known = table
        (known.waiting, known.refreshing, known.isAwaited) = (nil, .byKey, true)
        try save(place, known)
      }
    }
  }

  /// Ends the suspension of tables in a trail that no longer exists.
  func forgetWaiting(in trail: TrailID) throws {
    try upgrade()
    let columns = Waiting.columns.map { "\($0.name) = NULL" }.joined(separator: ", ")
    try database.run("UPDATE cairn_table SET \(columns) WHERE wait_trail = ?", [.blob(trail.bytes)])
  }
}
