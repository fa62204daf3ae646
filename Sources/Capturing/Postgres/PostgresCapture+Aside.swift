import Changes
import Glibc
import PostgresKit
import SystemKit

// Beside an apply that writes a lot to the same database.
extension PostgresCapture {
  private static let lookMilliseconds: Int32 = 100
  /// So long nothing comes of an apply that has no more to write.
  private static let idleMilliseconds: Int64 = 500
  /// So long somebody else's transaction may run.
  private static let openMilliseconds: Int64 = 1000
  /// Of log that is decoded again when the stream begins anew, and how long the server may take to get nearer.
  private static let restartBytesMax: UInt64 = 16 << 20
  private static let restartMilliseconds: Int64 = 20_000
  private static let noteMilliseconds = 500

  /// Whether nothing but the stream is under way.
  var canStandAside: Bool {
    goal == nil && chunk == nil && incoming == nil && !isTrailOpen && !hasCopies && look.isDone
  }

  /// Ends the stream while applies alone write: before PostgreSQL 16 the server decodes all that they do and sends it, row by row,
  /// to be thrown away here, which takes it longer than apply. That nobody else writes is proven by the numbers of
  /// transactions; what applies note is taken from them, and the slot is moved on.
  ///
  /// Returns when somebody else writes, or waits for a message, or applies have no more to write, or `stop` is set. The
  /// stream is to begin again then, behind all that has been proven. `mark`: the message that was met last.
  func standAside(since mark: LocalWatch.Mark, _ stop: StopSignal) throws {
    guard let watch = options.watch else { return }
    var isCalled = true
    defer {
      watch.aside.end(isCalled: isCalled)
      source.connection.interrupt = stop.descriptor
    }
    isCaughtUp = true
    progress.update { $0.isCaughtUp = true }
    try stream?.end()
    stream = nil
    var proof = AsideProof(passed: mark.moment, message: mark.transaction)
    var (openSince, isLast) = (Int64?.none, false)
    var busyAt = Clock.monotonicMilliseconds
    // Beside which transactions the server was to note what runs, and whether it has.
    var (askedBeside, isNoted) = (Set<UInt64>?.none, false)
    while !isLast {
      isLast = stop.isSet || watch.aside.bell.isSet
      // The last look takes a moment only, and is worth it where the stream is to end as well.
      if isLast { source.connection.interrupt = -1 }
      let found = try lookAside(&proof, watch.aside)
      let now = Clock.monotonicMilliseconds
      switch found.finding {
      case .alone: openSince = nil
      case .open: openSince = openSince ?? now
      case .others: isLast = true
      }
      if found.isBusy { busyAt = now }
      if let openSince, now - openSince > Self.openMilliseconds { break }
      try appendProgressInTime(isDue: isNoted)
      if isLast { break }
      try moveSlot()
      isNoted = false
      if openSince == nil {
        let isFar = try restartBytes() > Self.restartBytesMax
        if now - busyAt > (isFar ? Self.restartMilliseconds : Self.idleMilliseconds) {
          isCalled = false
          break
        }
        if isFar, askedBeside != found.running {
          askedBeside = found.running
          isNoted = try noteRunning()
        }
      }
      wait(stop, watch.aside.bell)
    }
    try appendProgressInTime(isDue: true)
    try moveSlot()
  }

  private struct Found {
    var finding = AsideProof.Finding.others
    /// An apply is at work.
    var isBusy = false
    var running: Set<UInt64> = []
  }

  /// What has been committed since, and by whom.
  private func lookAside(_ proof: inout AsideProof, _ aside: Aside) throws -> Found {
    // In this order: what stands in the log up to there is of transactions that the snapshot tells of.
    let end = try source.connection.first("SELECT pg_current_wal_flush_lsn()").flatMap { LSN($0) }
    let sessions = "{\(aside.sessions.map(String.init).joined(separator: ","))}"
    let row = try source.connection.query(
      """
      SELECT pg_current_snapshot(), ARRAY(
        SELECT backend_xid::text FROM pg_stat_activity WHERE pid = ANY($1::int[]) AND backend_xid IS NOT NULL)
      """, [sessions]
    ).first
    guard let end, let moment = row?[0].flatMap({ ServerMoment($0) }) else { return Found() }
    let running = Set((row?[1] ?? "").split { "{},".contains($0) }.compactMap { UInt32($0) })
    let applied = aside.applied
    var found = Found(isBusy: !running.isEmpty || !applied.isEmpty, running: moment.running)
    found.finding = proof.look(
      at: moment, applied: { applied[$0].map { leavesOut($0.trail) } ?? false }, running: running)
    guard case .alone(let ended) = found.finding else { return found }
    guard let committed = try committed(ended) else { return Found() }
    for note in committed.compactMap({ applied[$0] }) where note.number > 0 && note.trail != trail.name.description {
      position.knowledge.note(note)
    }
    aside.forget(ended)
    received = max(received, end)
    return found
  }

  /// Those of transactions that were not rolled back; nil where the server does not know that of all.
  private func committed(_ transactions: [UInt64]) throws -> [UInt64]? {
    guard !transactions.isEmpty else { return [] }
    let rows = try source.connection.query(
      "SELECT x, pg_xact_status(x::xid8) FROM unnest($1::text[]) AS x",
      ["{\(transactions.map(String.init).joined(separator: ","))}"])
    guard rows.allSatisfy({ ["committed", "aborted"].contains($0[1]) }) else { return nil }
    return rows.filter { $0[1] == "committed" }.compactMap { $0[0].flatMap { UInt64($0) } }.sorted()
  }

  /// Up to what is durable in the trail. What is passed over is not decoded.
  private func moveSlot() throws {
    guard confirmed > moved else { return }
    try source.connection.query(
      "SELECT pg_replication_slot_advance($1, $2::pg_lsn)", [slotName, confirmed.description])
    moved = confirmed
  }

  /// How much log would be decoded again.
  private func restartBytes() throws -> UInt64 {
    let text = try source.connection.first(
      "SELECT confirmed_flush_lsn - restart_lsn FROM pg_replication_slots WHERE slot_name = $1", [slotName])
    return text.flatMap { UInt64($0) } ?? 0
  }

  /// A stream begins where the server last noted which transactions run, which it does every 15 s. It does so as well when it
  /// makes a slot, which then waits for those to end. False where that takes long, or there is no room for a slot.
  private func noteRunning() throws -> Bool {
    let (connection, name) = (source.connection, "\(slotName)_note")
    try connection.execute("SET statement_timeout = \(Self.noteMilliseconds)")
    defer { _ = try? connection.execute("SET statement_timeout = 0") }
    do {
      // A temporary one: an error, or the end of the session, takes it away.
      try connection.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)", [name])
      try connection.query("SELECT pg_drop_replication_slot($1)", [name])
      return true
    } catch let error as PostgresError where !error.isServerGone { return false }
  }

  private func wait(_ stop: StopSignal, _ bell: StopSignal) {
    var entries = [
      pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: bell.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    _ = poll(&entries, 2, Self.lookMilliseconds)
    Pulse.beat()
  }
}
