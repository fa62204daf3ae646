import Applying
import Capturing
import Changes
import SQLiteKit
import Trails

/// A place in one trail for which a snapshot is true. All rows up to the place are in the file, and none after it.
///
///     try SnapshotPosition.read(from: database).first?.trail   // "hq.erp"
package struct SnapshotPosition: Equatable, Sendable {
  package enum Place: Equatable, Sendable {
    /// The last row of the journal in the source of the trail.
    case journal(Int64)
    /// The checkpoint of the trail in its target.
    case checkpoint(Checkpoint)
  }
  /// The trail; nil if the folder of a capture's trail cannot be read.
  package var trail: TrailName?
  package var id: TrailID
  /// The last transaction of the trail whose rows are all in the file; nil if unknown. After a journal row, the file may
  /// also have rows of later transactions.
  package var transaction: UInt64?
  package var place: Place

  package var text: String {
    switch place {
    case .journal(let row): "journal row \(row)"
    case .checkpoint(let checkpoint): "\(checkpoint.position)"
    }
  }

  /// Reads the positions of a copy of a database from the tables that capture and applies have in it.
  ///
  /// - Parameter info: The trail of the capture, as it was before the copy's moment.
  static func found(in copy: Database, _ info: TrailInfo?) throws -> [SnapshotPosition] {
    var positions: [SnapshotPosition] = []
    let journal = Journal(copy)
    if let owner = try journal.owner(), let last = try copy.lastJournalRow() {
      let own = info.flatMap { $0.id == owner.trail ? $0 : nil }
      positions.append(
        SnapshotPosition(
          trail: own?.name, id: owner.trail, transaction: own?.lastTransaction, place: .journal(last)))
    }
    for trail in try Self.applied(to: copy) {
      guard let stored = try Checkpoints(copy).checkpoint(of: trail) else { continue }
      positions.append(
        SnapshotPosition(
          trail: trail, id: stored.checkpoint.trail, transaction: stored.number, place: .checkpoint(stored.checkpoint)))
    }
    return positions
  }

  private static func applied(to copy: Database) throws -> [TrailName] {
    guard try Checkpoints(copy).isInstalled() else { return [] }
    return try copy.query("SELECT trail FROM cairn_checkpoint ORDER BY trail").compactMap { TrailName($0[0].string) }
  }

  package var json: JSONObject {
    var object = JSONObject([
      ("trail", trail.map { .text($0.description) } ?? .null), ("id", .text(id.description)),
      ("transaction", transaction.map { .integer(Int64(clamping: $0)) } ?? .null),
    ])
    switch place {
    case .journal(let row): object["journal_row"] = .integer(row)
    case .checkpoint(let checkpoint): object["position"] = .text(checkpoint.position.description)
    }
    return object
  }
}

/// The table `cairn_snapshot` of a snapshot: which database it is of, when it was made, and its positions.
///
///     try SnapshotNote.read(from: Ends.open(path, mode: .readOnly))?.tables   // ["item", "shop"]
package struct SnapshotNote: Equatable, Sendable {
  static let version: Int64 = 1
  static let table = """
    CREATE TABLE cairn_snapshot(id INTEGER PRIMARY KEY, version, made_at, tables, condition, trail, trail_id,
    transaction_number, journal_row, segment, content_offset, chain)
    """
  /// The time of the snapshot, µs since 1970 UTC.
  package var madeAt: Int64
  @ByBytes package var tables: [String]
  /// The condition of all rows in the file; nil if it has all rows of its tables.
  @ByBytes package var condition: String?
  package var positions: [SnapshotPosition]

  /// Writes the table. A snapshot without a position has one row without a trail.
  func write(to database: Database) throws {
    try database.execute(Self.table)
    let list = JSONObject.text(.list(tables.map { .text($0) }))
    let head: [Value] = [
      .integer(Self.version), .integer(madeAt), .text(list), condition.map { .text($0) } ?? .null,
    ]
    for values in positions.isEmpty ? [Array(repeating: Value.null, count: 7)] : positions.map(Self.values) {
      try database.run("INSERT INTO cairn_snapshot VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", head + values)
    }
  }

  private static func values(_ position: SnapshotPosition) -> [Value] {
    let head: [Value] = [
      position.trail.map { .text($0.description) } ?? .null, .blob(position.id.bytes),
      position.transaction.map { .integer(Int64(clamping: $0)) } ?? .null,
    ]
    switch position.place {
    case .journal(let row): return head + [.integer(row), .null, .null, .null]
    case .checkpoint(let place):
      return head + [
        .null, .integer(Int64(clamping: place.position.segment)), .integer(Int64(clamping: place.position.offset)),
        .blob(place.chain.bytes),
      ]
    }
  }

  /// Reads the table of a snapshot; nil if the database has none. The file may come from a peer.
  ///
  /// - Throws: `state-foreign` if Cairn did not write the table.
  package static func read(from database: Database) throws -> SnapshotNote? {
    guard
      try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_snapshot'") != nil
    else { return nil }
    var note: SnapshotNote?
    try database.forEachRow(
      """
      SELECT version, made_at, tables, condition, trail, trail_id, transaction_number, journal_row, segment,
        content_offset, chain FROM cairn_snapshot ORDER BY id
      """, rowsMax: 10_000
    ) { row in
      guard case .integer(let version) = row[0], case .integer(let madeAt) = row[1], NumberBounds.isTime(madeAt),
        case .list(let list)? = try? JSONReader.read(row[2].string)
      else { throw Self.foreign(database.path) }
      guard version == Self.version else {
        throw CairnError(
          .trailVersion, "the snapshot \(database.path) has format \(version), and this Cairn reads \(Self.version)",
          hint: "use the newer version of Cairn", remedy: .badInput)
      }
      let tables = list.compactMap { if case .text(let name) = $0 { name } else { nil } }
      let condition = row[3] == .null ? nil : row[3].string
      note = note ?? SnapshotNote(madeAt: madeAt, tables: tables, condition: condition, positions: [])
      guard row[5] != .null else { return }
      guard let position = Self.position(row) else { throw Self.foreign(database.path) }
      note?.positions.append(position)
    }
    return note
  }

  private static func position(_ row: [Value]) -> SnapshotPosition? {
    guard case .blob(let idBytes) = row[5], let id = TrailID(idBytes) else { return nil }
    let trail = row[4] == .null ? nil : TrailName(row[4].string)
    guard row[4] == .null || trail != nil else { return nil }
    var number: UInt64?
    if case .integer(let stored) = row[6] {
      number = NumberBounds.number(stored)
      if number == nil { return nil }
    }
    if case .integer(let place) = row[7], place >= 0 {
      return SnapshotPosition(trail: trail, id: id, transaction: number, place: .journal(place))
    }
    guard case .integer(let segment) = row[8], case .integer(let offset) = row[9],
      let position = Position(storedSegment: segment, offset: offset), case .blob(let chainBytes) = row[10],
      let chain = ChainHash(chainBytes)
    else { return nil }
    return SnapshotPosition(
      trail: trail, id: id, transaction: number,
      place: .checkpoint(Checkpoint(trail: id, position: position, chain: chain)))
  }

  private static func foreign(_ path: String) -> CairnError {
    CairnError(
      .stateForeign, "table cairn_snapshot of \(path) has a row that Cairn did not write",
      hint: "make or fetch the snapshot again", remedy: .badInput)
  }
}
