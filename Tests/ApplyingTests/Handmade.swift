import Applying
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// A trail that is written record by record, and targets that it is applied to.
final class Handmade {
  static let name = TrailName(origin: "far", name: "shop")

  let folder: TempFolder
  let trail: String
  let target: String
  let name: TrailName
  var options = SQLiteApply.Options()
  var clock = Clock.system
  private let writer: TrailWriter
  private var schemas: [NameKey: (schema: TableSchema, token: UInt64)] = [:]
  private var tokens: UInt64 = 0

  init(
    _ folder: TempFolder, trail: String = "trail", target: String = "target.db", name: TrailName = Handmade.name,
    segmentBytes: Int = TrailOptions().segmentBytes
  ) throws {
    self.folder = folder
    self.name = name
    self.trail = folder(trail)
    self.target = folder(target)
    var options = TrailOptions()
    options.segmentBytes = segmentBytes
    writer = try TrailWriter.open(
      folder: self.trail, name: name, options: options, now: Clock.system.microseconds)
  }

  /// Sets the table's schema from here on: the one that SQLite makes of a CREATE TABLE statement (and indexes).
  func shape(_ sql: String) throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    for table in try database.userTables() { shape(table.schema) }
  }

  /// The table's schema from here on; outside of `public` it is called `schema.name`.
  func shape(_ schema: TableSchema) {
    let name = ["", "public"].contains(schema.namespace) ? schema.name : "\(schema.namespace).\(schema.name)"
    tokens += 1
    var schema = schema
    schema.epoch = (schemas[name]?.schema.epoch ?? 0) + 1
    schemas[name] = (schema, tokens)
  }

  /// The table's schema as it is now.
  func latest(_ table: String) -> TableSchema? { schemas[table]?.schema }

  /// One transaction of the trail, synced.
  func transaction(isSynced: Bool = true, clock: UInt64? = nil, _ body: () throws -> Void) throws {
    try transaction(
      TransactionHeader(commitTime: Clock.system.microseconds(), clock: clock ?? 0), isSynced: isSynced, body)
  }

  func transaction(_ header: TransactionHeader, isSynced: Bool = true, _ body: () throws -> Void) throws {
    _ = try writer.begin(header)
    try body()
    try writer.commit()
    if isSynced { _ = try writer.sync() }
  }

  // MARK: Records, inside of a transaction

  private func id(_ table: String) throws -> UInt64 {
    let known = try #require(schemas[table])
    return try writer.schemaID(known.schema, token: known.token)
  }

  func change(_ operation: Operation, _ flags: ChangeFlags, _ table: String, _ images: [[Value?]]) throws {
    let id = try id(table)
    var record = ByteWriter()
    record.append(operation.rawValue)
    record.append(flags.rawValue)
    record.appendVarint(id)
    for image in images { record.appendImage(image) }
    try writer.append(kind: RecordKind.change, record.bytes)
  }

  func insert(_ table: String, _ row: [Value]) throws { try change(.insert, .after, table, [row]) }
  func delete(_ table: String, _ row: [Value?], isImplied: Bool = false) throws {
    try change(.delete, isImplied ? [.before, .implied] : .before, table, [row])
  }
  func update(_ table: String, _ before: [Value?], _ after: [Value?]) throws {
    try change(.update, [.before, .after], table, [before, after])
  }
  /// As PostgreSQL gives it where the key stays as it is.
  func update(_ table: String, to after: [Value?]) throws { try change(.update, .after, table, [after]) }
  func truncate(_ table: String) throws { try change(.truncate, [], table, []) }

  func refresh(_ table: String, _ event: Refresh.Event) throws {
    var record = ByteWriter()
    record.append(Refresh(schemaID: try id(table), event: event))
    try writer.append(kind: RecordKind.refresh, record.bytes)
  }

  func row(_ table: String, _ row: [Value?]) throws {
    var record = ByteWriter()
    record.appendVarint(try id(table))
    record.appendImage(row)
    try writer.append(kind: RecordKind.refreshRow, record.bytes)
  }

  func waiting(_ table: String, _ row: [Value?]) throws {
    var record = ByteWriter()
    record.appendWaitingRow(schema: try id(table), row, clock: 1, origin: "", number: 0)
    try writer.append(kind: RecordKind.waitingRow, record.bytes)
  }

  /// A first copy in one chunk.
  func copy(_ table: String, _ rows: [[Value]], _ method: Refresh.Method = .byKey, reason: Refresh.Reason = .firstCopy)
    throws
  {
    try refresh(table, .start(reason, method, estimatedRows: UInt64(rows.count)))
    try refresh(table, .chunk(method == .byKey ? .keys(after: nil, through: nil) : .unkeyed))
    for values in rows { try row(table, values) }
    try refresh(table, .end(rows: UInt64(rows.count)))
  }

  func create(_ table: String) throws { try ddl(.create, nil, id(table)) }
  func drop(_ table: String) throws { try ddl(.drop, id(table), nil) }

  /// The change from the table's shape to another one of PostgreSQL.
  func reshape(
    _ old: String, _ schema: TableSchema, as action: DDL.Action = .reshape, to new: String? = nil,
    isRefreshed: Bool = false
  ) throws {
    let before = try id(old)
    shape(schema)
    try ddl(action, before, id(new ?? old), isRefreshed: isRefreshed)
  }

  /// The change from the table's shape to the one that `sql` makes.
  func reshape(
    _ old: String, _ sql: String, as action: DDL.Action = .reshape, to new: String? = nil, isRefreshed: Bool = false
  ) throws {
    let before = try id(old)
    try shape(sql)
    try ddl(action, before, id(new ?? old), isRefreshed: isRefreshed)
  }

  private func ddl(_ action: DDL.Action, _ before: UInt64?, _ after: UInt64?, isRefreshed: Bool = false) throws {
    var record = ByteWriter()
    record.append(DDL(action: action, before: before ?? 0, after: after ?? 0, isRefreshed: isRefreshed))
    try writer.append(kind: RecordKind.ddl, record.bytes)
  }

  func raw(kind: UInt8, _ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { try writer.append(kind: kind, $0) } }

  // MARK: Applying

  func open(_ progress: ApplyProgress = .init()) throws -> SQLiteApply {
    try SQLiteApply(path: target, trail: trail, name: name, options: options, clock: clock, progress: progress)
  }

  /// Applies everything, as a new run does.
  func replay() throws { try open().drain() }

  /// A table made and copied in the trail, and applied.
  func begin(_ sql: String, _ table: String, _ rows: [[Value]], _ method: Refresh.Method = .byKey) throws {
    try shape(sql)
    try transaction {
      try create(table)
      try copy(table, rows, method)
    }
    try replay()
  }

  func rows(_ sql: String) throws -> [[Value]] { try Database(path: target).query(sql) }
  func run(_ sql: String) throws { try Database(path: target, mode: .create).executeScript(sql) }
}

extension SQLiteApply {
  /// Applies everything that is in the trail.
  func drain() throws {
    let drain = StopSignal()
    drain.set()
    try run(stop: StopSignal(), drain: drain)
  }
}

/// The error that `body` throws; nil when it throws none or another.
func failure(of body: () throws -> Void) -> CairnError? {
  do {
    try body()
    return nil
  } catch { return error as? CairnError }
}

extension Value: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(stringLiteral value: String) { self = .text(value) }
}
