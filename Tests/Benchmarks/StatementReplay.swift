import Applying
import Changes
import Conflicts
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// W14: one UPDATE of 1,000,000 rows, in the trail as a statement and as rows, applied with `replay = "auto"`, where no
/// other program may write. It is compared with the same UPDATE run directly at a copy of the target, and with one read
/// of the table there.
struct StatementReplay {
  let stage: Stage
  let pairs: [Pair]

  private static let name = TrailName(origin: "till", name: "sales")
  private static let update = "UPDATE sale SET till = till + 1, price = price * 2"
  private static let copies = ["auto", "rows", "hand"]

  func run() throws -> [Report] {
    var reports: [Report] = []
    for pair in pairs where pair.from == .sqlite {
      var report = Report(.statements, pair.name)
      report.changes = stage.options.scaled(1_000_000)
      for round in 0..<stage.options.rounds {
        stage.note("W14, \(pair.name), round \(round + 1) of \(stage.options.rounds)")
        try measure(pair.to, report.changes, &report)
      }
      reports.append(report)
    }
    return reports
  }

  private func measure(_ engine: Engine, _ rows: Int, _ report: inout Report) throws {
    let folder = try stage.freshFolder("statements")
    let trail = try ReplayedTrail(folder: folder + "/trail", name: Self.name)
    try trail.copy(rows: rows)
    let first = try target("auto", engine, folder)
    _ = try apply(first, folder + "/trail", .rows)
    let others = try Self.copies.dropFirst().map { try copy(of: first, as: $0, engine, folder) }
    stage.settle()
    // Opening the trail reads its last segment, which is the copy here.
    let idle = try apply(first, folder + "/trail", .rows)
    try trail.update(Self.update, rows: rows)
    stage.settle()
    let hand = try byHand(others[1])
    stage.settle()
    let seconds = try apply(first, folder + "/trail", .auto) - idle
    stage.settle()
    let rowSeconds = try apply(others[0], folder + "/trail", .rows) - idle
    report.add(.cairn, Double(rows) / seconds)
    report.add(ceiling: "rows", Double(rows) / rowSeconds)
    report.add(ceiling: "update_and_read", Double(rows) / (hand.update + hand.read))
    report.add(fact: "update_seconds", hand.update)
    report.add(fact: "read_seconds", hand.read)
    report.add(fact: "idle_seconds", idle)
    report.add(fact: "to_hand", seconds / (hand.update + hand.read))
    stage.note("\(seconds) s; by hand \(hand.update) s and \(hand.read) s to read; as rows \(rowSeconds) s")
    let columns = ["id", "till", "price", "item", "sold_at"]
    let digests = try ([first] + others).map { try Ends.digest($0, "sale", columns) }
    guard digests[0] == digests[1], digests[0] == digests[2] else {
      throw TestFailure("sale has \(digests[0]) by auto, \(digests[1]) by rows, \(digests[2]) by hand")
    }
  }

  // MARK: Targets

  private func target(_ name: String, _ engine: Engine, _ folder: String) throws -> String {
    switch engine {
    case .sqlite: return "sqlite://\(folder)/\(name).db"
    case .postgres:
      // Templates may have no connections, so that databases of an earlier round go first.
      let server = try stage.server(.target)
      for old in Self.copies { try server.psql("DROP DATABASE IF EXISTS w14_\(old)") }
      return try server.createDatabase("w14_\(name)")
    }
  }

  private func copy(of first: String, as name: String, _ engine: Engine, _ folder: String) throws -> String {
    switch engine {
    case .sqlite:
      try Database(ofProgram: Ends.path(first)).execute("VACUUM INTO '\(folder)/\(name).db'")
      let database = try Database(path: "\(folder)/\(name).db")
      try database.execute("PRAGMA journal_mode = WAL")
      return "sqlite://\(folder)/\(name).db"
    case .postgres:
      let server = try stage.server(.target)
      try server.psql("CREATE DATABASE w14_\(name) TEMPLATE w14_auto")
      return server.url("w14_\(name)")
    }
  }

  /// Applies the content of the trail. Returns the time in seconds.
  private func apply(_ url: String, _ trail: String, _ policy: ReplayPolicy) throws -> Double {
    var options = ApplyOptions()
    options.replay = policy
    // An UPDATE is executed only where no other program may write.
    if policy == .auto { options.localWrites = LocalWritesPlan(.refuse) }
    let progress = ApplyProgress()
    let drain = StopSignal()
    drain.set()
    let begun = Stopwatch()
    if url.hasPrefix("sqlite:") {
      try SQLiteApply(path: Ends.path(url), trail: trail, name: Self.name, options: options, progress: progress)
        .run(stop: StopSignal(), drain: drain)
    } else {
      try PostgresApply(uri: url, trail: trail, name: Self.name, options: options, progress: progress)
        .run(stop: StopSignal(), drain: drain)
    }
    let counts = progress.snapshot.statements
    guard policy == .rows || counts.replayed == 1 else {
      throw TestFailure("the statement went as rows: \(counts.summary ?? "")")
    }
    return begun.seconds
  }

  private func byHand(_ url: String) throws -> (update: Double, read: Double) {
    if url.hasPrefix("sqlite:") {
      let database = try Database(path: Ends.path(url))
      try database.executeScript(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000")
      let update = Stopwatch()
      try database.executeScript(Self.update)
      let updateSeconds = update.seconds
      let read = Stopwatch()
      let statement = try database.prepare("SELECT * FROM sale")
      var bytes = 0
      while try statement.step() {
        for column in 0..<statement.columnCount {
          if case .text(let text) = statement.view(column) { bytes += text.count }
        }
      }
      return (updateSeconds, read.seconds)
    }
    let connection = try PostgresConnection(url, application: "cairn-bench")
    let update = Stopwatch()
    try connection.executeScript("SET search_path = public; \(Self.update)")
    let updateSeconds = update.seconds
    let read = Stopwatch()
    var bytes = 0
    try connection.copyOut("COPY (SELECT * FROM sale) TO STDOUT") { bytes += $0.count }
    return (updateSeconds, read.seconds)
  }
}

/// A trail of sales that are copied, and then changed by one statement.
private final class ReplayedTrail {
  private let writer: TrailWriter
  private var record = ByteWriter()
  private var image = ByteWriter()
  private let schema = TableSchema(
    epoch: 1, engine: .sqlite, name: "sale",
    columns: [
      .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
      .init(name: "till", declaredType: "INTEGER"), .init(name: "price", declaredType: "REAL"),
      .init(name: "item", declaredType: "TEXT"), .init(name: "sold_at", declaredType: "TEXT"),
    ], createText: Sale.schema(.sqlite))

  init(folder: String, name: TrailName) throws {
    writer = try TrailWriter.open(folder: folder, name: name, now: { Clock.system.microseconds() })
  }

  func copy(rows: Int) throws {
    _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
    let id = try writer.schemaID(schema, token: 1)
    try append(RecordKind.ddl) { $0.append(DDL(action: .create, before: 0, after: id)) }
    try refresh(id, .start(.firstCopy, .byKey, estimatedRows: UInt64(rows)))
    try refresh(id, .chunk(.keys(after: nil, through: nil)))
    for number in 1...rows {
      encode(number, isChanged: false)
      record.removeAll()
      record.appendVarint(id)
      record.appendCounted(image.bytes)
      try writer.append(kind: RecordKind.refreshRow, record.bytes)
    }
    try refresh(id, .end(rows: UInt64(rows)))
    try writer.commit()
    try writer.sync()
  }

  func update(_ sql: String, rows: Int) throws {
    _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
    try append(RecordKind.statement) {
      $0.append(ExecutedStatement(dialect: .sqlite, text: sql, rowsAffected: UInt64(rows)))
    }
    let id = try writer.schemaID(schema, token: 1)
    var digest = StatementDigest()
    let table = StatementDigest.Table(name: schema.name)
    for number in 1...rows {
      record.removeAll()
      record.append(Operation.update.rawValue)
      record.append(ChangeFlags([.before, .after]).rawValue)
      record.appendVarint(id)
      encode(number, isChanged: false)
      record.appendCounted(image.bytes)
      encode(number, isChanged: true)
      record.appendCounted(image.bytes)
      digest.addWritten(image.bytes, of: table)
      try writer.append(kind: RecordKind.change, record.bytes)
    }
    try append(RecordKind.statementEnd) { $0.append(StatementEnd(changes: UInt64(rows), digest: digest)) }
    try writer.commit()
    try writer.sync()
  }

  private func encode(_ number: Int, isChanged: Bool) {
    let sale = Sale(id: number)
    image.removeAll()
    image.appendInteger(Int64(sale.id))
    image.appendInteger(Int64(sale.till + (isChanged ? 1 : 0)))
    image.appendReal(sale.price * (isChanged ? 2 : 1))
    sale.item.withUnsafeBytes { image.appendText($0) }
    var time: [UInt8] = []
    sale.appendTime(to: &time)
    time.withUnsafeBytes { image.appendText($0) }
  }

  private func refresh(_ id: UInt64, _ event: Refresh.Event) throws {
    try append(RecordKind.refresh) { $0.append(Refresh(schemaID: id, event: event)) }
  }

  private func append(_ kind: UInt8, _ body: (inout ByteWriter) -> Void) throws {
    record.removeAll()
    body(&record)
    try writer.append(kind: kind, record.bytes)
  }
}
