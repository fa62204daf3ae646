import Changes
import PostgresKit
import SystemKit

/// Creates and drops the triggers that refuse writes of applications (``PostgresGuards``), table by table.
///
/// A table that another session has locked waits for its triggers, and apply goes on with all tables. A table whose
/// triggers the server refuses is suspended (``GuardSchedule/check(_:_:of:)``).
///
/// ```
/// let continued = try GuardUpkeep(replay).make()
/// ```
struct GuardUpkeep {
  /// The longest wait for a table's lock, in ms. Meanwhile, other sessions that need the table wait for apply.
  private static let lockMilliseconds = 500

  private let replay: PostgresReplay
  private let guards: PostgresGuards

  /// - Parameter replay: The replay of all tables that are not suspended, between two groups.
  init(_ replay: PostgresReplay) { (self.replay, guards) = (replay, PostgresGuards(replay.connection)) }

  /// Adjusts the tables whose next attempt is due, until another session's lock makes one fail. Each table has a
  /// transaction of its own.
  ///
  /// - Returns: The names, in apply's state, of tables that may continue because their triggers are now made.
  func make() throws -> Set<NameKey> {
    let now = Clock.monotonicMilliseconds
    var schedule = replay.progress.snapshot.guards
    let isLookDue = schedule.isLookDue(now)
    guard isLookDue || !schedule.due(now).isEmpty else { return [] }
    try replay.sink.settle()
    if isLookDue {
      try look(&schedule, now)
      replay.progress.update { [schedule] in $0.guards = schedule }
    }
    var changed: Set<NameKey> = []
    for table in schedule.due(now) {
      let isSuspended = table.error != nil && !table.isLocked
      do {
        try inTransaction { try guards.adjust(table) }
        schedule.remove(table.quotedName)
        if isSuspended { changed.insert(NameKey(table.quotedName)) }
      } catch let error as PostgresError where !error.isServerGone && !error.isCancelled {
        let isLocked = error.isTransient
        let reason = try isLocked ? guards.inUse(table) : guards.failure(of: table, error, guards.currentRole())
        if table.error == nil || isLocked == isSuspended {
          replay.progress.note("\(reason.message); \(reason.hint)")
        }
        schedule.fail(table.quotedName, reason, isLocked: isLocked, now)
        if isSuspended == isLocked || table.error == nil { changed.insert(NameKey(table.quotedName)) }
        // The other tables wait for one lock at a time.
        if isLocked { break }
      }
    }
    replay.progress.update { [schedule] in $0.guards = schedule }
    guard !changed.isEmpty else { return [] }
    // The next record of a table shows whether the table may continue.
    replay.tables.forgetShapes()
    return Set(
      replay.tables.tables.filter { changed.contains("\($0.value.schema.quotedName).\($0.value.name.quotedName)") }.keys
    )
  }

  /// Stores which tables must have the triggers, and looks up which tables lack them. If another session has locked
  /// apply's state, the next attempt is later.
  private func look(_ schedule: inout GuardSchedule, _ now: Int64) throws {
    do {
      try inTransaction {
        for (source, table) in try replay.state.tables()
        where table.isGuarded != replay.options.isGuarded(table.schema, table.name) {
          var table = table
          table.isGuarded.toggle()
          try replay.state.save(source.text, table)
        }
        let found = try guards.tables(of: replay.name)
        if found.contains(where: \.isWanted) { try guards.makeFunction() }
        schedule.set(found)
      }
    } catch let error as PostgresError where error.isTransient { schedule.postponeLook(now) }
  }

  private func inTransaction(_ body: () throws -> Void) throws {
    try replay.connection.transaction {
      try replay.connection.execute("SET LOCAL lock_timeout = \(Self.lockMilliseconds)")
      try replay.state.lock()
      try body()
    }
  }
}
