import Changes
import Mapping
import PostgresKit
import SystemKit
import Trails

/// Applies a trail over one connection, from the checkpoint that the target has when it begins.
///
/// Rows are sent many at a time; where one of them is not taken, the whole group of transactions is rolled back, and
/// another replay does it again *carefully*: one transaction at a time, one statement at a time, so that a row which has
/// to wait for another can wait, and one that is wrong is named.
final class PostgresReplay {
  let connection: PostgresConnection
  let name: TrailName
  let options: PostgresApply.Options
  let clock: Clock
  let progress: ApplyProgress
  let state: PostgresTargetState
  let reader: TrailReader
  let sink: PostgresSink
  let isCareful: Bool

  private var checkpoint: Checkpoint?
  /// The last transaction that was begun.
  private(set) var number: UInt64
  var tables: [String: PostgresTargetState.Table]
  private var segment: UInt64 = 0
  private var bySchema: [UInt64: MappedTable] = [:]
  private var byKey: [String: MappedTable] = [:]
  private var tableCount = 0

  var before = RowText()
  var after = RowText()
  var early = EarlyUpdates()
  var held = PostgresHeldRows()
  var unchecked = UncheckedRows()
  var sequences = SequenceUpkeep()
  /// The table into which refresh rows go, how many came, and of how many.
  var copying: MappedTable?
  var copied: UInt64 = 0
  var estimated: UInt64 = 0
  var tablesCopied = 0
  var misfitsNulled: UInt64 = 0
  /// Refresh rows that were sent by COPY and not yet answered, to be sent again one by one.
  var piece = ByteWriter(capacity: 1 << 16)
  var pieceTable: MappedTable?

  /// Errors: ``PostgresError``; `checkpoint-foreign` when the target was fed from another trail, or needs what the trail
  /// no longer has.
  init(
    _ connection: PostgresConnection, trail folder: String, name: TrailName, options: PostgresApply.Options,
    clock: Clock, progress: ApplyProgress, isCareful: Bool
  ) throws {
    (self.connection, self.name, self.options) = (connection, name, options)
    (self.clock, self.progress, self.isCareful) = (clock, progress, isCareful)
    state = PostgresTargetState(connection)
    sink = PostgresSink(connection)
    let stored = try state.checkpoint(of: name)
    checkpoint = stored?.checkpoint
    number = stored?.number ?? 0
    reader = try TrailReader.open(folder: folder, at: checkpoint)
    tables = try state.tables()
  }

  // MARK: Groups

  /// Applies what is there as one commit; false when nothing is. After an error the replay is of no use: see
  /// ``abandon()``.
  func applyAvailable(_ stop: StopSignal) throws -> Bool {
    guard var record = try reader.next() else { return false }
    let begun = Clock.monotonicMilliseconds
    var rows = 0
    var count = 0
    var last = TransactionHeader(commitTime: 0)
    while true {
      switch record {
      case .begin(let header):
        if last.number == 0 { try begin(header) }
        (last, number) = (header, header.number)
      case .commit(_, let changes):
        rows += Int(changes)
        try endTransaction()
        let isDue =
          isCareful || rows >= options.commitRows
          || Clock.monotonicMilliseconds - begun > options.commitMilliseconds
        if !isDue, let following = try reader.next() {
          record = following
          continue
        }
        try commit(last, rows: rows)
        return true
      default: try apply(record)
      }
      count += 1
      if count % 256 == 0, stop.isSet { throw PostgresApply.Stopped() }
      guard let following = try reader.next() else {
        throw CairnError(
          .trailDamaged, "trail \(name) ends inside of transaction \(last.number)",
          hint: "run 'cairn trail verify \(name)'", remedy: .bug)
      }
      record = following
    }
  }

  /// Capture on the target's database knows our transactions by this message, which therefore comes first.
  private func begin(_ header: TransactionHeader) throws {
    let text = "1 \(name) \(header.number) \(header.clock) \(reader.position)"
    try sink.queue("BEGIN", [])
    try sink.queue("SELECT pg_logical_emit_message(true, 'cairn', $1::text)", [text])
  }

  private func endTransaction() throws {
    try early.checkEmpty()
    try putBackHeldRows()
  }

  private func commit(_ last: TransactionHeader, rows: Int) throws {
    try endPiece()
    try checkUncheckedRows()
    try sink.settle()
    try sequences.carry(sink, progress)
    let reached = reader.checkpoint
    try state.move(name, from: checkpoint, to: reached, number: number, now: clock.microseconds())
    try connection.execute("COMMIT")
    checkpoint = reached
    progress.update {
      $0.rows += UInt64(rows)
      $0.transactions = number
      $0.lastCommitTime = last.commitTime
      $0.lagMicroseconds = clock.microseconds() - last.commitTime
      $0.position = reached.position
      $0.copying = copying.map { ($0.source.name, copied, estimated) }
      $0.tablesCopied += tablesCopied
      $0.misfitsNulled += misfitsNulled
      $0.isCaughtUp = false
      $0.isWaitingForLock = false
    }
    (tablesCopied, misfitsNulled) = (0, 0)
  }

  /// Where the target stands, durably.
  var position: Position { checkpoint?.position ?? .start }

  /// At the trail's end, and when apply ends.
  func keepUpIdentities(isLast: Bool) throws { try sequences.keepUp(connection, isLast: isLast) }

  func abandon() { sink.abandon() }

  // MARK: Records

  private func apply(_ record: Record) throws {
    switch record {
    case .change(let change):
      try endPiece()
      try again { try self.apply(change) }
    case .refreshRow(let id, let image): try again { try self.apply(row: image, of: try self.table(id)) }
    case .refresh(let refresh):
      try endPiece()
      try apply(refresh)
    case .ddl(let ddl):
      try endPiece()
      try sink.settle()
      try apply(ddl)
    case .schema(let id, _): if reader.position.segment == segment { bySchema[id] = nil }
    case .sequence(let sequence): sequences.note(sequence)
    case .begin, .commit, .progress, .marker: break
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(reader.position) of trail \(name) cannot be applied by this version",
        hint: "use a newer cairn")
    }
  }

  /// A column was made text in the middle of a row: from its beginning, then.
  private func again(_ body: () throws -> Void) throws {
    while true {
      do { return try body() } catch let widening as Widening {
        guard let table = byKey[widening.table] else { throw widening }
        try widen(widening.index, table)
      }
    }
  }

  // MARK: Tables

  func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(reader.position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }

  /// The table for a schema id, which counts within a segment.
  func table(_ id: UInt64) throws -> MappedTable {
    if reader.position.segment != segment {
      segment = reader.position.segment
      bySchema.removeAll(keepingCapacity: true)
    }
    if let table = bySchema[id] { return table }
    let table = try table(for: try schema(id))
    bySchema[id] = table
    return table
  }

  private func table(for schema: TableSchema) throws -> MappedTable {
    let key = schema.sourceKey
    if let table = byKey[key], table.source == schema { return table }
    try sink.settle()
    let mapped = try TableMapping(schema, to: .postgres, names: options.names).target
    let known = try tables[key] ?? register(schema, mapped, .init(schema: mapped.namespace, name: mapped.name))
    let shape = PostgresShape(connection: connection, state: state, progress: progress)
    let target = try shape.checked(schema, mapped, known)
    tableCount += 1
    let table = MappedTable(source: schema, mapped: mapped, target: target, state: known, number: tableCount)
    byKey[key] = table
    sequences.note(table)
    return table
  }

  /// Two tables of the source must not become one.
  func register(
    _ schema: TableSchema, _ mapped: TableSchema, _ known: PostgresTargetState.Table, isSaved: Bool = true
  ) throws -> PostgresTargetState.Table {
    let key = schema.sourceKey
    if let other = tables.first(where: {
      $0.key != key && $0.value.schema == known.schema && $0.value.name == known.name
    }) {
      throw CairnError(
        .nameCollision,
        "tables \(other.key) and \(schema.fullName) of the source would both be \(known.schema).\(known.name) at the target",
        hint: "rename one of them, or leave one out with --tables", context: ["table": schema.fullName])
    }
    if isSaved { try save(key, known) }
    return known
  }

  func save(_ key: String, _ table: PostgresTargetState.Table) throws {
    try sink.settle()
    try state.save(key, table)
    tables[key] = table
    byKey[key]?.state = table
  }

  func forget(_ key: String) throws {
    try sink.settle()
    try state.forget(key)
    tables[key] = nil
    forgetShape(key)
  }

  /// The table is looked at again before it is written to.
  func forgetShape(_ key: String) {
    byKey[key] = nil
    bySchema.removeAll(keepingCapacity: true)
  }
}
