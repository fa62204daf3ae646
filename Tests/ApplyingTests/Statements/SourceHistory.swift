import Changes
import SQLiteKit
import Testing

/// A source that executes statements, and writes them to a trail with the changes that they caused.
final class SourceHistory {
  struct Told {
    var statement: ExecutedStatement
    var changes: [(table: String, before: [Value]?, after: [Value]?)]
    var end: StatementEnd
  }

  /// The value of `{now}`: 2026-11-22 14:30:05.
  static let now: Int64 = 1_795_357_805_000_000
  static let shape = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER NOT NULL DEFAULT 0, weight REAL,
      price DECIMAL(10,2), sold BOOLEAN DEFAULT 0, at TEXT);
    CREATE TABLE sale(shop INTEGER NOT NULL, number INTEGER NOT NULL, item INTEGER, note TEXT,
      PRIMARY KEY (shop, number));
    """

  let database: Database
  let trail: Handmade
  private var transaction: [Told] = []
  private(set) var statementCount = 0

  init(_ trail: Handmade) throws {
    self.trail = trail
    database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(Self.shape)
    try makeLog()
    try trail.shape(Self.shape)
    try trail.transaction {
      for table in ["item", "sale"] {
        try trail.create(table)
        try trail.copy(table, [])
      }
    }
  }

  func rows(_ table: String) throws -> [[Value]] {
    try database.query("SELECT * FROM \(table) ORDER BY 1\(table == "sale" ? ", 2" : "")")
  }

  /// Executes a statement of one table within the transaction that is open. `{now}` is recorded as SQLite's own time.
  func execute(_ sql: String, _ parameters: [Value] = [], on table: String) throws {
    let executed = sql.replacing("{now}", with: "'2026-11-22 14:30:05'")
    let end = executed.firstRange(of: " RETURNING ")?.lowerBound ?? executed.endIndex
    // A row that gives way to another with its rowid counts as updated; triggers do not fire for it.
    let isReplacing = executed.hasPrefix("REPLACE")
    let before = isReplacing ? try byKey(table) : [:]
    let written = try database.query(executed[..<end] + " RETURNING *", parameters)
    var told = Told(
      statement: ExecutedStatement(
        dialect: .sqlite, text: sql.replacing("{now}", with: "datetime('now')"), parameters: parameters,
        rowsAffected: UInt64(written.count), now: sql.contains("{now}") ? Self.now : nil), changes: [],
      end: StatementEnd(changes: 0, digest: StatementDigest()))
    let log = try database.query("SELECT * FROM log ORDER BY place")
    try database.execute("DELETE FROM log")
    if isReplacing {
      let after = try byKey(table)
      for (key, row) in before where after[key] != row { told.changes.append((table, row, after[key])) }
      for (key, row) in after where before[key] == nil { told.changes.append((table, nil, row)) }
    } else {
      let count = Self.columns[table]?.count ?? 0
      for row in log {
        let (old, new) = (Array(row[2..<2 + count]), Array(row[9..<9 + count]))
        told.changes.append((table, row[1] == "insert" ? nil : old, row[1] == "delete" ? nil : new))
      }
    }
    var digest = StatementDigest()
    let hashed = StatementDigest.Table(name: table)
    for row in written.map(Self.withReals) { Self.hash(row, executed.contains("DELETE FROM"), hashed, &digest) }
    told.end = StatementEnd(changes: UInt64(told.changes.count), digest: digest)
    transaction.append(told)
  }

  /// RETURNING gives whole numbers of the one column of reals as integers.
  private static func withReals(_ row: [Value]) -> [Value] {
    guard row.count == 7, case .integer(let number) = row[3] else { return row }
    return Array(row[..<3]) + [.real(Double(number))] + Array(row[4...])
  }

  private func byKey(_ table: String) throws -> [Value: [Value]] {
    Dictionary(uniqueKeysWithValues: try rows(table).map { ($0[0], $0) })
  }

  private static let columns = [
    "item": ["id", "name", "stock", "weight", "price", "sold", "at"], "sale": ["shop", "number", "item", "note"],
  ]

  /// Triggers that log what changes, in its order.
  private func makeLog() throws {
    let fields = (1...7).map { "o\($0)" } + (1...7).map { "n\($0)" }
    try database.execute("CREATE TEMP TABLE log(place INTEGER PRIMARY KEY, what, \(fields.joined(separator: ", ")))")
    for (table, columns) in Self.columns {
      for what in ["insert", "update", "delete"] {
        func values(_ row: String, _ has: Bool) -> [String] {
          (0..<7).map { has && $0 < columns.count ? "\(row).\(columns[$0])" : "NULL" }
        }
        let list = values("old", what != "insert") + values("new", what != "delete")
        let isChange = columns.map { "old.\($0) IS NOT new.\($0)" }.joined(separator: " OR ")
        try database.executeScript(
          """
          CREATE TEMP TRIGGER \(table)_\(what) AFTER \(what) ON main.\(table) \(what == "update" ? "WHEN \(isChange)" : "")
          BEGIN INSERT INTO log VALUES (NULL, '\(what)', \(list.joined(separator: ", "))); END
          """)
      }
    }
  }

  static func hash(_ row: [Value], _ isGone: Bool, _ table: StatementDigest.Table, _ digest: inout StatementDigest) {
    var image = ByteWriter(capacity: 256)
    for value in row { image.append(value) }
    if isGone { digest.addGone(image.bytes, of: table) } else { digest.addWritten(image.bytes, of: table) }
  }

  /// Undoes all but the first so many statements of the transaction.
  func rollback(to savepoint: String, keeping count: Int) throws {
    try database.executeScript("ROLLBACK TO \(savepoint); RELEASE \(savepoint)")
    transaction.removeLast(transaction.count - count)
  }

  var openCount: Int { transaction.count }

  /// Writes the transaction to the trail; `alter` makes it say something else.
  func commit(_ alter: (inout Told) -> Void = { _ in }) throws {
    let told = transaction
    transaction = []
    guard !told.isEmpty else { return }
    statementCount += told.count
    try trail.transaction(isSynced: false) {
      for var one in told {
        alter(&one)
        var record = ByteWriter()
        record.append(one.statement)
        try trail.raw(kind: RecordKind.statement, record.bytes.map { $0 })
        for change in one.changes {
          switch (change.before, change.after) {
          case (let before?, let after?): try trail.update(change.table, before, after)
          case (let before?, nil): try trail.delete(change.table, before)
          case (nil, let after?): try trail.insert(change.table, after)
          case (nil, nil): break
          }
        }
        record.removeAll()
        record.append(one.end)
        try trail.raw(kind: RecordKind.statementEnd, record.bytes.map { $0 })
      }
    }
  }

  func sync() throws { try trail.transaction {} }
}
