import Changes

/// The checkpoint of each trail in a target, stored in `cairn_checkpoint` (SQLite) or `cairn.checkpoint` (PostgreSQL).
///
/// Apply moves a checkpoint in the transaction that writes the rows up to it. Not thread-safe.
///
/// ```
/// cairn_checkpoint(trail, trail_id, segment, offset, chain, number, applied_at, version)
/// cairn.checkpoint(trail, trail_id, segment, content_offset, chain, number, applied_at, version)
/// ```
///
///     let stored = try Checkpoints(try Database(path: "copy.db")).checkpoint(of: trail)
package struct Checkpoints {
  private static let name = "checkpoint"
  private static let version = 1
  let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  package func isInstalled() throws -> Bool { try state.hasTable(Self.name) }

  /// Returns the checkpoint of a trail in this target; nil if nothing of the trail was applied yet.
  package func checkpoint(of trail: TrailName) throws -> (checkpoint: Checkpoint, number: UInt64)? {
    guard try isInstalled() else { return nil }
    let rows = try state.rows(
      "SELECT \(CheckpointColumns.readList(state)), version FROM \(table) WHERE trail = ?", [trail.description])
    guard let row = rows.first else { return nil }
    guard let stored = CheckpointColumns.read(row), row[5].flatMap({ Int($0) }) == Self.version else {
      throw CheckpointColumns.damaged("table \(table) of \(state.place) holds a row")
    }
    return stored
  }

  /// Writes the first checkpoint of a trail, in the caller's transaction.
  ///
  /// - Throws: `checkpoint-moved` if the trail already has a checkpoint.
  func begin(_ trail: TrailName, at place: Checkpoint, number: UInt64, now: Int64) throws {
    let made = try state.execute(
      """
      INSERT INTO \(table)(\(CheckpointColumns.list(state)), applied_at, trail, version)
      VALUES (\(state.marks(5)), \(state.time), ?, \(Self.version)) ON CONFLICT DO NOTHING
      """, Self.values(trail, to: place, number: number, now: now))
    guard made == 1 else { throw moved(trail) }
  }

  /// Moves the checkpoint of a trail. Called in the transaction that writes the rows up to `to`.
  ///
  /// - Throws: `checkpoint-moved` if the stored checkpoint is not `from`.
  func move(_ trail: TrailName, from: Checkpoint, to: Checkpoint, number: UInt64, now: Int64) throws {
    let values = Self.values(trail, from: from, to: to, number: number, now: now)
    guard try state.execute(Self.moveText(state), values) == 1 else { throw moved(trail) }
  }

  /// Returns the statement that moves a checkpoint. It changes no row if the stored checkpoint is not the expected one.
  static func moveText(_ state: any StateDatabase) -> String {
    """
    UPDATE \(state.table(name)) SET \(CheckpointColumns.assignments(state)), applied_at = \(state.time)
    WHERE trail = ? AND \(CheckpointColumns.isPlace(state))
    """
  }

  /// Returns the parameters of ``moveText(_:)``.
  static func values(_ trail: TrailName, from: Checkpoint, to: Checkpoint, number: UInt64, now: Int64) -> [Value] {
    values(trail, to: to, number: number, now: now) + CheckpointColumns.place(from)
  }

  private static func values(_ trail: TrailName, to: Checkpoint, number: UInt64, now: Int64) -> [Value] {
    CheckpointColumns.values(to, number) + [.integer(now), .text(trail.description)]
  }

  /// Throws `checkpoint-moved` if the stored checkpoint of a trail is not the expected one.
  func check(_ trail: TrailName, at expected: Checkpoint?) throws {
    guard try checkpoint(of: trail)?.checkpoint == expected else { throw moved(trail) }
  }

  func moved(_ trail: TrailName) -> CairnError {
    CheckpointColumns.moved("the checkpoint of trail \(trail) in \(state.place)")
  }

  /// Returns the last transaction of a trail that is in the target, and up to which the target lacks nothing. Nil if
  /// nothing of the trail was applied.
  ///
  /// - Parameter suspended: Returns the trail's suspended tables, each with its name as in ``TwoWay/Reach``; nil if the
  ///   trail has renamed the table since.
  func reach(
    of trail: TrailName, _ suspended: (TrailID) throws -> [(name: NameKey?, table: WaitingTable)]
  ) throws -> TwoWay.Reach? {
    guard let stored = try checkpoint(of: trail) else { return nil }
    let id = stored.checkpoint.trail
    let log = QuarantineLog(state)
    let quarantine = Quarantine(try log.list(), of: trail, id)
    let suspended = try suspended(id)
    let held = suspended.map(\.table.number) + [quarantine.heldThrough].compactMap { $0 }
    let names = suspended.compactMap { one in one.name.map { ($0, one.table.number) } }
    return .init(
      id: id, number: stored.number, held: held.min(), suspended: Dictionary(names, uniquingKeysWith: max),
      aside: quarantine.numbers.union(try log.discarded(of: trail, id)))
  }

  func forget(_ trail: TrailName) throws {
    try state.run("DELETE FROM \(table) WHERE trail = ?", [trail.description])
  }
}

/// The columns in which a table of Cairn stores a checkpoint and the number of its last transaction.
enum CheckpointColumns {
  private static func names(_ state: any StateDatabase) -> [String] {
    ["trail_id", "segment", state.offsetColumn, "chain", "number"]
  }

  static func list(_ state: any StateDatabase) -> String { names(state).joined(separator: ", ") }

  static func readList(_ state: any StateDatabase) -> String {
    names(state).enumerated().map { $0 == 0 || $0 == 3 ? state.hex($1) : $1 }.joined(separator: ", ")
  }

  static func assignments(_ state: any StateDatabase) -> String {
    names(state).map { "\($0) = ?" }.joined(separator: ", ")
  }

  /// Returns the SQL condition that a row has the checkpoint of the next four parameters: see ``place(_:)``.
  static func isPlace(_ state: any StateDatabase) -> String {
    names(state).dropLast().map { "\($0) = ?" }.joined(separator: " AND ")
  }

  /// Reads a checkpoint from the first values of a row with ``readList(_:)``; nil if this version of Cairn did
  /// not write them.
  static func read(_ row: [String?]) -> (checkpoint: Checkpoint, number: UInt64)? {
    guard let id = row[0].flatMap({ TrailID(hex: $0) }), let chain = row[3].flatMap({ ChainHash(hex: $0) }),
      let segment = row[1].flatMap({ Int64($0) }), let offset = row[2].flatMap({ Int64($0) }),
      let position = Position(storedSegment: segment, offset: offset),
      let number = row[4].flatMap({ Int64($0) }).flatMap(NumberBounds.number)
    else { return nil }
    return (Checkpoint(trail: id, position: position, chain: chain), number)
  }

  static func place(_ checkpoint: Checkpoint) -> [Value] {
    [
      .blob(checkpoint.trail.bytes), .integer(Int64(bitPattern: checkpoint.position.segment)),
      .integer(Int64(bitPattern: checkpoint.position.offset)), .blob(checkpoint.chain.bytes),
    ]
  }

  static func values(_ checkpoint: Checkpoint, _ number: UInt64) -> [Value] {
    place(checkpoint) + [.integer(Int64(bitPattern: number))]
  }

  /// - Parameter what: The place of the row, such as `table cairn_table of the target holds a row`.
  static func damaged(_ what: String) -> CairnError {
    CairnError(
      .databaseDamaged, "\(what) that this version of Cairn did not write",
      hint: "use the version of Cairn that wrote it, or run 'cairn detach' on the target and replicate again")
  }

  static func moved(_ what: String) -> CairnError {
    CairnError(
      .checkpointMoved, "\(what) was moved by another apply",
      hint: "run only one apply of this trail to this target, then start again; nothing was applied twice")
  }
}
