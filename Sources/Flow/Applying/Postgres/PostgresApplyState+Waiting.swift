import Changes
import PostgresKit

/// The suspended tables of a PostgreSQL target, which are stored in the table `cairn.waiting`.
///
/// ```
/// cairn.waiting(id, trail, source, place, since, name, trail_id, segment, content_offset, chain, number, code,
///   message, hint)
/// ```
extension PostgresApplyState {
  struct Waiting: Equatable {
    /// The number of the entry in `cairn.waiting`; nil before it is saved.
    @ByBytes var id: String? = nil
    /// The table's name in `cairn.table_state`, which is its name in the trail at the trail's checkpoint.
    @ByBytes var source: String
    /// The table's name in the trail at the table's own checkpoint.
    @ByBytes var place: String
    /// The position of the first record that was not applied to the table. Nil: the first record after the table's
    /// checkpoint.
    var from: Position?
    var table: WaitingTable
  }

  static let waitingTable = """
    CREATE TABLE IF NOT EXISTS cairn.waiting(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      trail text NOT NULL, source text NOT NULL, place text NOT NULL,
      since text NOT NULL, name text NOT NULL, trail_id bytea NOT NULL, segment bigint NOT NULL,
      content_offset bigint NOT NULL, chain bytea NOT NULL, number bigint NOT NULL, code text NOT NULL,
      message text NOT NULL, hint text NOT NULL);
    """

  /// Returns whether `cairn.waiting` exists. Old versions of Cairn did not create it.
  func hasWaiting() throws -> Bool { try connection.first("SELECT to_regclass('cairn.waiting') IS NOT NULL") == "t" }

  func waiting(of trail: TrailName) throws -> [Waiting] {
    let rows = try connection.query(
      """
      SELECT source, place, since, name, encode(trail_id, 'hex'), segment, content_offset, encode(chain, 'hex'), number,
        code, message, hint, id FROM cairn.waiting WHERE trail = $1 ORDER BY source, id
      """, [trail.description])
    return try rows.map { $0.map { $0 ?? "" } }.map { row in
      guard let checkpoint = Self.checkpoint(row[4], row[5], row[6], row[7]),
        let number = Int64(row[8]).flatMap(NumberBounds.number)
      else {
        throw CairnError(
          .databaseDamaged,
          "table cairn.waiting of \(connection.place) holds a row that this version of Cairn did not write",
          hint: "use the version of Cairn that wrote it, or run 'cairn detach' on the target and replicate again")
      }
      return Waiting(
        id: row[12], source: row[0], place: row[1], from: Position(row[2]),
        table: WaitingTable(
          name: row[3], checkpoint: checkpoint, number: number,
          code: ErrorCode(rawValue: row[9]) ?? .schemaStopped, message: row[10], hint: row[11]))
    }
  }

  func reach(of trail: TrailName) throws -> TwoWay.Reach? {
    guard let stored = try checkpoint(of: trail) else { return nil }
    let waiting = try waiting(of: trail)
    let aside = Quarantine(try QuarantineLog(connection).list(), of: trail, stored.checkpoint.trail)
    return .init(
      id: stored.checkpoint.trail, number: stored.number,
      held: (waiting.map(\.table.number) + [aside.heldThrough].compactMap { $0 }).min())
  }

  /// Stores a suspended table in `cairn.waiting`, and returns the number of the entry.
  func add(_ waiting: Waiting, _ trail: TrailName) throws -> String? {
    let table = waiting.table
    return try connection.first(
      """
      INSERT INTO cairn.waiting(trail, source, place, since, name, trail_id, segment, content_offset, chain, number, code,
        message, hint) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
      RETURNING id
      """,
      [trail.description, waiting.source, waiting.place, waiting.from?.description ?? "", table.name]
        + Self.fields(table.checkpoint)
        + [String(Int64(bitPattern: table.number)), table.code.rawValue, table.message, table.hint])
  }

  func tell(_ waiting: Waiting, _ error: CairnError) throws {
    try connection.run(
      "UPDATE cairn.waiting SET code = $2, message = $3, hint = $4 WHERE id = $1",
      [waiting.id, error.code.rawValue, error.message, error.hint])
  }

  func move(_ waiting: Waiting, to: (checkpoint: Checkpoint, number: UInt64, place: String, from: Position?)?) throws {
    let from = Self.fields(waiting.table.checkpoint) + [waiting.from?.description ?? ""]
    let condition = "id = $1 AND trail_id = $2 AND segment = $3 AND content_offset = $4 AND chain = $5 AND since = $6"
    let moved: Int64
    if let to {
      moved = try connection.run(
        """
        UPDATE cairn.waiting SET trail_id = $7, segment = $8, content_offset = $9, chain = $10, number = $11, place = $12,
          since = $13 WHERE \(condition)
        """,
        [waiting.id] + from + Self.fields(to.checkpoint)
          + [String(Int64(bitPattern: to.number)), to.place, to.from?.description ?? ""])
    } else {
      moved = try connection.run("DELETE FROM cairn.waiting WHERE \(condition)", [waiting.id] + from)
    }
    guard moved == 1 else { throw self.moved("the place where table \(waiting.source) waits in \(connection.place)") }
  }

  package func heldTables() throws -> [HeldTable] {
    guard let trail, try hasWaiting() else { return [] }
    try upgrade()
    let tables = try tables()
    return try waiting(of: trail).map { waiting in
      let isTaken = waiting.place != waiting.source && tables[waiting.place] != nil
      return HeldTable(
        name: waiting.table.name, place: waiting.place,
        isReplaceable: !isTaken && tables[waiting.source].map { $0.claim?.isOfHistory != true } ?? false,
        isRenamed: waiting.place != waiting.source)
    }
  }

  /// Ends the suspension of tables. Apply then skips each table's changes until a refresh of the table begins.
  package func replace(_ held: [HeldTable]) throws {
    guard let trail else { return }
    let all = try waiting(of: trail)
    try connection.transaction {
      for waiting in all where held.contains(where: { $0.place.hasSameBytes(as: waiting.place) }) {
        try connection.run(
          """
          UPDATE cairn.table_state SET source = $1, refreshing = \(Refresh.awaited), emptied = false
          WHERE source = $2 AND trail IN ($3, '')
          """, [waiting.place, waiting.source, trail.description])
        try connection.run("DELETE FROM cairn.waiting WHERE id = $1", [waiting.id])
      }
    }
  }

  /// Stores a new name that the source gave a suspended table. The target's table is renamed when the table continues.
  func rename(_ waiting: Waiting, to new: String, name: String) throws {
    try connection.run("UPDATE cairn.waiting SET source = $2, name = $3 WHERE id = $1", [waiting.id, new, name])
    try connection.run(
      "UPDATE cairn.table_state SET source = $2 WHERE source = $1 AND trail IN ($3, '')",
      [waiting.source, new, trail?.description ?? ""])
  }

  func moved(_ what: String) -> CairnError {
    CairnError(
      .checkpointMoved, "\(what) was moved by another apply",
      hint: "run only one apply of this trail to this target, then start again; nothing was applied twice")
  }
}
