import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import PostgresKit
import SQLiteKit
import ServiceKit
import SystemKit
import Trails

/// The worker that observes how full the slot or journal of one source is. It also writes small messages to the log of
/// an idle PostgreSQL source.
final class HeartbeatWorker: Worker {
  let name: WorkerName
  private let capture: Configuration.Capture
  private let database: Configuration.Database
  private let context: ServiceContext
  // Nil while the capture does not run.
  private let taken: @Sendable () -> Taken?
  private let givesUp: @Sendable (NodeStatus.Source) -> Bool
  private static let lookMilliseconds: Int64 = 10_000

  /// The progress of a running capture: the number of transactions written to the trail, and the last row read from an
  /// SQLite journal.
  struct Taken: Equatable, Sendable {
    var transactions: UInt64
    var journal: Int64
  }

  init(
    _ name: WorkerName, _ capture: Configuration.Capture, _ database: Configuration.Database,
    _ context: ServiceContext, taken: @escaping @Sendable () -> Taken?,
    givesUp: @escaping @Sendable (NodeStatus.Source) -> Bool
  ) {
    (self.name, self.capture, self.database, self.context, self.taken) = (name, capture, database, context, taken)
    self.givesUp = givesUp
  }

  private var folder: String { "\(context.statePath)/\(context.node).\(capture.name)" }

  func run(stop: StopSignal) throws {
    // Before capture has begun, there is no slot or journal to watch.
    while !Trail.exists(folder: folder) { if stop.rest(.milliseconds(500)) { return } }
    switch try database.location().canonical {
    case .sqlite(let path): try watchJournal(path, stop)
    case .postgres(let uri): try watchSlot(uri, stop)
    }
  }

  func describe(_ status: inout NodeStatus.Worker) {
    status.trail = "\(context.node).\(capture.name)"
    status.place = (try? database.location().place) ?? ""
    status.isCaughtUp = true
  }

  // MARK: SQLite

  private func watchJournal(_ path: String, _ stop: StopSignal) throws {
    var forecast = FillForecast()
    var alarm = JournalAlarm()
    defer { context.forget(capture: capture.name) }
    while !stop.isSet {
      // The file is opened again for each check. It may have been replaced, and no application's checkpoint must wait
      // for Cairn.
      guard Folder.exists(path) else {
        throw CairnError(
          .databaseMissing, "there is no database \(path)", hint: "put it back: capture then continues by itself")
      }
      let source = try OwnTables.openChecked(
        path, isReader: true, mode: .readOnly, busyTimeoutMilliseconds: 1000, sizes: Self.tablesRead)
      let journal = Journal(source)
      var facts = NodeStatus.Source(capture: capture.name)
      facts.database = database.name
      if let fill = try journal.fill(taken: taken()?.journal ?? 0) {
        let cap = fill.cap > 0 ? fill.cap : Int64(capture.journalRows)
        (facts.journalRows, facts.journalCapRows) = (fill.rows, cap)
        facts.isJournalFull = fill.hasDropped
        forecast.note(used: fill.rows, now: Clock.monotonicMilliseconds)
        if !facts.isJournalFull { facts.secondsUntilFull = forecast.secondsUntil(cap) }
        facts.unhooked = try journal.unhooked()
        if let news = alarm.note(rows: fill.rows, cap: cap, isFull: facts.isJournalFull) { tell(news, fill.rows, cap) }
      }
      context.note(facts)
      if stop.rest(.milliseconds(Self.lookMilliseconds)) { return }
    }
  }

  private static let tablesRead: Set<NameKey> = ["cairn_control", "cairn_unhooked"]

  private func tell(_ level: JournalAlarm.Level, _ rows: Int64, _ cap: Int64) {
    let worker = WorkerName(.capture, capture.name)
    let text =
      level == .full
      ? "the journal of \(database.name) has dropped rows beyond its limit of \(cap.counted("row")): all tables are copied again when the capture continues"
      : "\(rows.counted("row waits", "rows wait")) in the journal of \(database.name); beyond \(cap.counted("row")) all tables must be copied again"
    context.log.write(
      LogEntry(
        .warning, text, worker: worker.description,
        hint: "see in 'cairn status' why \(worker) does not read them, or raise journal_rows"))
  }

  // MARK: PostgreSQL

  private func watchSlot(_ uri: String, _ stop: StopSignal) throws {
    let connection = try PostgresConnection(uri, application: "cairn heartbeat")
    connection.interrupt = stop.descriptor
    defer { context.forget(capture: capture.name) }
    var forecast = FillForecast()
    var lookedAt: Int64?
    var beatAt = Clock.monotonicMilliseconds
    var seen = taken()
    var canBeat = true
    while !stop.isSet {
      let now = Clock.monotonicMilliseconds
      if now - (lookedAt ?? now - Self.lookMilliseconds) >= Self.lookMilliseconds {
        lookedAt = now
        // The trail, and with it the slot, may have been replaced by a new one.
        if Trail.exists(folder: folder) { try look(connection, &forecast, now) }
      }
      if capture.heartbeat > .zero, now - beatAt >= capture.heartbeat.milliseconds {
        if taken() == seen {
          // Capture answers the message with a progress record in the trail, and with that the slot moves.
          canBeat = try canBeat && beat(connection)
        }
        (beatAt, seen) = (now, taken())
      }
      if stop.rest(.milliseconds(500)) { return }
    }
  }

  // Returns false, after a warning, if the role may not write messages to PostgreSQL's log.
  private func beat(_ connection: PostgresConnection) throws -> Bool {
    do { try MessageKey.emit(PostgresCapture.progressPrefix, [], connection) } catch let error as CairnError
      where error.code == .privilegeMissing
    {
      let worker = WorkerName(.capture, capture.name)
      context.log.write(LogEntry(.warning, error.message, worker: worker.description, hint: error.hint))
      return false
    }
    return true
  }

  private func look(
    _ connection: PostgresConnection, _ forecast: inout FillForecast, _ now: Int64
  ) throws {
    let trail = try Trail.info(folder: folder)
    let slot = PostgresSource.name(of: trail.id)
    var facts = NodeStatus.Source(capture: capture.name)
    facts.database = database.name
    let row = try connection.query(
      """
      SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, safe_wal_size, wal_status
      FROM pg_replication_slots WHERE slot_name = $1
      """, [slot]
    ).first
    if let row, row.count == 3 {
      facts.slotBytes = row[0].flatMap { Int64($0) }
      facts.slotSafeBytes = row[1].flatMap { Int64($0) }
      facts.slotStatus = row[2] ?? "lost"
      if let used = facts.slotBytes {
        forecast.note(used: used, now: now)
        if let safe = facts.slotSafeBytes { facts.secondsUntilFull = forecast.secondsUntil(used.addingBounded(safe)) }
      }
      if givesUp(facts) { try giveUp(connection, slot, facts) }
    } else if trail.lastTransaction > 0 {
      // Before the first transaction, the slot is still to be created.
      facts.slotStatus = "missing"
    }
    context.note(facts)
  }

  private func giveUp(_ connection: PostgresConnection, _ slot: String, _ facts: NodeStatus.Source) throws {
    try connection.query("SELECT pg_drop_replication_slot($1)", [slot])
    let kept = Size.text(bytes: facts.slotBytes ?? 0)
    let left =
      facts.slotSafeBytes.map { ", with \(Size.text(bytes: $0)) left until the server drops it" }
      ?? ", more than [limits] disk"
    context.log.write(
      LogEntry(
        .error,
        "slot \(slot) of \(connection.place) is dropped, as [limits] give_up_slot allows: it kept \(kept) of log\(left), and capture cannot move it on, as the trails have no room",
        worker: WorkerName(.capture, capture.name).description, code: .slotLost,
        hint:
          "see in 'cairn status' which apply or peer holds the trails, or raise [limits] disk and reload; then run 'cairn copy APPLY' for each apply of trail \(context.node).\(capture.name)"
      ))
  }
}
