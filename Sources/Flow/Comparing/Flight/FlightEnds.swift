import Applying
import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import Trails

/// The source and the target of a comparison. Each read of rows also gets the database's position, in the same
/// snapshot.
struct FlightEnds {
  let source: any RowReader
  let target: any RowReader
  let trail: TrailName

  var isAfar: Bool { source is OriginRowReader }

  // MARK: The source

  /// Runs `body` in one snapshot of the source, and returns its result with the source's position.
  func atSource<T>(_ body: () throws -> T) throws -> (moment: SourceMoment, result: T) {
    if let reader = source as? OriginRowReader { return try reader.atOneMoment(body) }
    if let reader = source as? SQLiteRowReader {
      return try reader.database.transaction("BEGIN") {
        let last = try reader.database.integer(
          "SELECT max(coalesce((SELECT max(seq) FROM cairn_journal), 0), taken) FROM cairn_control WHERE id = 0")
        return (.journal(last ?? 0), try body())
      }
    }
    let connection = try Self.connection(source)
    return try connection.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") {
      let (snapshot, end) = try PostgresSnapshot.current(connection)
      return (.log(snapshot, end: end), try body())
    }
  }

  /// Makes capture of a PostgreSQL source write its progress into the trail.
  func askForProgress() throws {
    if let reader = source as? OriginRowReader, reader.engine == .postgres {
      return try reader.origin.ask(.progress) { _ in }
    }
    guard source is PostgresRowReader else { return }
    try MessageKey.emit(PostgresCapture.progressPrefix, [], Self.connection(source))
  }

  /// Returns the last journal row that is durable in the trail, as stored in the SQLite source. Nil for PostgreSQL, and
  /// for a source at another node.
  func takenAtSource() throws -> SourceReach? {
    guard let reader = source as? SQLiteRowReader else { return nil }
    return try reader.database.integer("SELECT taken FROM cairn_control WHERE id = 0").map(SourceReach.journal)
  }

  /// Returns whether the trail in `folder` has every commit that was visible at `moment`. Always false for PostgreSQL,
  /// which does not record how far capture has read.
  func isTaken(_ moment: SourceMoment, in folder: String) throws -> Bool {
    guard let reader = source as? OriginRowReader else {
      return try takenAtSource().map(moment.isBehind) ?? false
    }
    guard reader.engine == .sqlite else { return false }
    // The note is about the origin's trail: the local copy must include the same transaction.
    let standing = try reader.origin.standing()
    guard let taken = standing.taken, moment.isBehind(taken) else { return false }
    return try Trail.info(folder: folder).lastTransaction >= standing.transaction
  }

  /// Returns whether the SQLite source is captured. For PostgreSQL and for a source at another node, returns true
  /// without a check.
  func isCaptured() throws -> Bool {
    guard let reader = source as? SQLiteRowReader else { return true }
    return try reader.database.integer(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_control'") != nil
  }

  // MARK: The target

  func checkpoint() throws -> Checkpoint? {
    if let reader = target as? SQLiteRowReader {
      return try Checkpoints(reader.database).checkpoint(of: trail)?.checkpoint
    }
    return try Checkpoints(Self.connection(target)).checkpoint(of: trail)?.checkpoint
  }

  /// Runs `body` in one snapshot of the target, and returns its result with the target's checkpoint in that snapshot.
  func atTarget<T>(_ body: () throws -> T) throws -> (checkpoint: Checkpoint?, result: T) {
    if let reader = target as? SQLiteRowReader {
      return try reader.database.transaction("BEGIN") { (try checkpoint(), try body()) }
    }
    return try Self.connection(target).transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") {
      (try checkpoint(), try body())
    }
  }

  /// Returns whether a refresh of the table to the target is in progress.
  func isCopied(_ table: ComparedTable) throws -> Bool {
    let schema = table.target.schema
    if let reader = target as? SQLiteRowReader {
      return try reader.database.first(
        "SELECT 1 FROM cairn_table WHERE name = ? AND refreshing > 0", [.text(schema.name)]) != nil
    }
    return try Self.connection(target).first(
      "SELECT 1 FROM cairn.table_state WHERE schema_name = $1 AND table_name = $2 AND refreshing > 0",
      [schema.namespace, schema.name]) != nil
  }

  /// Returns whether the table is suspended at the target, so that it may lack changes from before the checkpoint.
  func isWaiting(_ table: ComparedTable) throws -> Bool {
    let schema = table.target.schema
    if let reader = target as? SQLiteRowReader {
      let database = reader.database
      guard try database.integer("SELECT 1 FROM pragma_table_info('cairn_table') WHERE name = 'wait_trail'") != nil
      else { return false }
      return try database.first(
        "SELECT 1 FROM cairn_table WHERE name = ? AND wait_trail IS NOT NULL", [.text(schema.name)]) != nil
    }
    let connection = try Self.connection(target)
    guard try connection.first("SELECT to_regclass('cairn.waiting')") != nil else { return false }
    let source = table.source.schema
    let known = source.engine == .sqlite ? source.name.asciiLowercased : source.fullName
    return try connection.first("SELECT 1 FROM cairn.waiting WHERE source = $1", [known]) != nil
  }

  static func connection(_ reader: any RowReader) throws -> PostgresConnection {
    guard let reader = reader as? PostgresRowReader else {
      throw CairnError(.bug, "an end of unknown kind", hint: "please report this", remedy: .bug)
    }
    return reader.connection
  }
}
