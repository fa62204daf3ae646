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
      ("wait_number", "INTEGER"), ("wait_names", "TEXT"), ("wait_from", "TEXT"), ("wait_source", "TEXT"),
      ("wait_code", "TEXT"), ("wait_message", "TEXT"), ("wait_hint", "TEXT"),
      ("wait_gone", "INTEGER"),
    ]
    init(table: WaitingTable, names: [String], from: Position? = nil) {
      (self.table, self.names, self.from) = (table, names, from)
    }

    /// Reads the state of a suspended table; nil for a table that is not suspended.
    ///
    /// - Throws: `database-damaged` if the stored state is invalid.
    init?(_ name: String, _ row: [Value]) throws {
      if row[0] == .null { return nil }
      guard case .blob(let id) = row[0], let trail = TrailID(id), case .integer(let segment) = row[1],
        case .integer(let offset) = row[2], case .blob(let bytes) = row[3], let chain = ChainHash(bytes),
        case .integer(let stored) = row[4], let number = NumberBounds.number(stored),
        let position = Position(storedSegment: segment, offset: offset)
      else {
        throw CairnError(
          .databaseDamaged,
          "table cairn_table of the target holds a state of table \(name) that this version of Cairn did not write",
          hint: "use the version of Cairn that wrote it, or run 'cairn detach' on the target and replicate again")
      }
      table = WaitingTable(
        name: row[7].string, checkpoint: Checkpoint(trail: trail, position: position, chain: chain),
        number: number, code: ErrorCode(rawValue: row[8].string) ?? .schemaStopped,
        message: row[9].string, hint: row[10].string)
      names = NameList.names(row[5].string)
      if names.isEmpty { names = [name] }
      from = row[6] == .null ? nil : Position(row[6].string)
      isGone = row[11] == .integer(1)
    }

    var values: [Value] {
      let checkpoint = table.checkpoint
      return [
        .blob(checkpoint.trail.bytes), .integer(Int64(bitPattern: checkpoint.position.segment)),
        .integer(Int64(bitPattern: checkpoint.position.offset)), .blob(checkpoint.chain.bytes),
        .integer(Int64(bitPattern: table.number)), .text(NameList.text(names)),
        from.map { .text($0.description) } ?? .null, .text(table.name), .text(table.code.rawValue),
        .text(table.message), .text(table.hint), .integer(isGone ? 1 : 0),
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
    else { throw moved("the place where table \(name) waits in \(database.path)") }
  }

  func check(_ trail: TrailName, at expected: Checkpoint?) throws {
    guard try checkpoint(of: trail)?.checkpoint == expected else {
      throw moved("the checkpoint of trail \(trail) in \(database.path)")
    }
  }

  func moved(_ what: String) -> CairnError {
    CairnError(
      .checkpointMoved, "\(what) was moved by another apply",
      hint: "run only one apply of this trail to this target, then start again; nothing was applied twice")
  }

  func reach(of trail: TrailName) throws -> TwoWay.Reach? {
    guard let stored = try checkpoint(of: trail) else { return nil }
    let waiting = try SQLiteApplyState(database, of: trail).tables().values.compactMap(\.waiting?.table)
      .filter { $0.checkpoint.trail == stored.checkpoint.trail }
    let aside = Quarantine(try QuarantineLog(database).list(), of: trail, stored.checkpoint.trail)
    return .init(
      id: stored.checkpoint.trail, number: stored.number,
      held: (waiting.map(\.number) + [aside.heldThrough].compactMap { $0 }).min())
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
