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
      SELECT \(CheckpointColumns.readList(checkpoints.state)), name, code, message, hint, source, place, since, id
      FROM cairn.waiting WHERE trail = $1 ORDER BY source, id
      """, [trail.description])
    return try rows.map { row in
      guard let table = WaitingTable(row) else {
        throw CheckpointColumns.damaged("table cairn.waiting of \(connection.place) holds a row")
      }
      return Waiting(
        id: row[12], source: row[9] ?? "", place: row[10] ?? "", from: row[11].flatMap { Position($0) }, table: table)
    }
  }

  func reach(of trail: TrailName) throws -> TwoWay.Reach? {
    try checkpoints.reach(of: trail) { _ in
      try waiting(of: trail).map { one in
        (one.place.hasSameBytes(as: one.source) ? one.source.nameKey : nil, one.table)
      }
    }
  }

  /// Stores a suspended table in `cairn.waiting`, and returns the number of the entry.
  func add(_ waiting: Waiting, _ trail: TrailName) throws -> String? {
    try connection.first(
      """
      INSERT INTO cairn.waiting(\(CheckpointColumns.list(checkpoints.state)), name, code, message, hint, trail, source, place,
        since) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
      RETURNING id
      """,
      waiting.table.values.map(\.postgresInput)
        + [trail.description, waiting.source, waiting.place, waiting.from?.description ?? ""])
  }

  func tell(_ waiting: Waiting, _ error: CairnError) throws {
    try connection.run(
      "UPDATE cairn.waiting SET code = $2, message = $3, hint = $4 WHERE id = $1",
      [waiting.id, error.code.rawValue, error.message, error.hint])
  }

  func move(_ waiting: Waiting, to: (checkpoint: Checkpoint, number: UInt64, place: String, from: Position?)?) throws {
    let state = checkpoints.state
    let condition = "WHERE id = ? AND since = ? AND \(CheckpointColumns.isPlace(state))"
    let from =
      [.text(waiting.id ?? ""), .text(waiting.from?.description ?? "")]
      + CheckpointColumns.place(waiting.table.checkpoint)
    let moved: Int64
    if let to {
      moved = try state.execute(
        "UPDATE cairn.waiting SET \(CheckpointColumns.assignments(state)), place = ?, since = ? \(condition)",
        CheckpointColumns.values(to.checkpoint, to.number)
          + [.text(to.place), .text(to.from?.description ?? "")] + from)
    } else {
      moved = try state.execute("DELETE FROM cairn.waiting \(condition)", from)
    }
    guard moved == 1 else {
      throw CheckpointColumns.moved("the place where table \(waiting.source) waits in \(connection.place)")
    }
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
}
