import Changes
import PostgresKit
import SystemKit

/// Creates the foreign keys that apply could not create before, because other sessions had locked their tables.
///
/// ```
/// try LateForeignKeys(replay).make()
/// ```
struct LateForeignKeys {
  private let replay: PostgresReplay

  /// - Parameter replay: The replay of all tables that are not suspended, between two groups.
  init(_ replay: PostgresReplay) { self.replay = replay }

  /// Creates the foreign keys in `cairn.pending` whose tables have their rows, if the next attempt is due. Uses its own
  /// transaction.
  func make() throws {
    let (progress, now) = (replay.progress, Clock.monotonicMilliseconds)
    guard var schedule = progress.snapshot.lateKeys, schedule.isDue(now) else { return }
    schedule.postpone(now)
    progress.update { [schedule] in $0.lateKeys = schedule }
    try replay.sink.settle()
    guard try !replay.state.pending(.foreignKey).isEmpty else { return progress.update { $0.lateKeys = nil } }
    // By this message, capture recognizes the transaction as one of ours.
    let note = AppliedNote(trail: replay.name.description, number: 0, clock: 0, position: replay.position)
    let areMade = try replay.connection.transaction(replay.session.own.begin.sql) {
      try replay.connection.query(replay.session.own.message.sql, [note.text])
      return try replay.tables.shape.makeForeignKeys(replay.sink, of: Array(replay.tables.tables.values))
    }
    if areMade { progress.update { $0.lateKeys = nil } }
    // Apply reads the tables' references again.
    replay.desk?.shared.noteShapes()
    replay.tables.forgetShapes()
  }
}
