import CairnCapture
import Glibc
import SQLiteKit
import SystemKit

/// W13: the cost of the embedded API for a program. It inserts 500,000 rows, 100 per transaction, with WAL and
/// synchronous=NORMAL. Runs alternate between the API with capture, the API without it, and plain calls of SQLite.
struct EmbeddedCost {
  let folder: String
  let rows: Int
  let rounds: Int

  private static let table =
    "CREATE TABLE sale(id INTEGER PRIMARY KEY, till INTEGER, price REAL, item TEXT, sold_at TEXT)"
  private static let insert = "INSERT INTO sale(till, price, item, sold_at) VALUES (?, ?, ?, ?)"
  private static let perTransaction = 100
  private let item = String(repeating: "x", count: 100)
  private let time = "2026-01-01 00:00:00"

  init(folder: String, rows: Int, rounds: Int) {
    (self.folder, self.rows, self.rounds) = (folder, rows, rounds)
  }

  func run() throws -> Report {
    var report = Report(.embedded, "sqlite")
    report.changes = rows
    for round in 0..<rounds {
      report.add(ceiling: "calls", try measured("calls\(round).db", insertByCalls))
      report.add(ceiling: "uncaptured", try measured("off\(round).db") { try insertByAPI($0, capture: false) })
      report.add(fact: "rows_only", try measured("rows\(round).db") { try insertByAPI($0, statements: false) })
      report.add(.cairn, try measured("on\(round).db") { try insertByAPI($0) })
    }
    return report
  }

  /// Returns the rows per second. `body` returns the time of the inserts, in µs.
  private func measured(_ name: String, _ body: (String) throws -> Int64) throws -> Double {
    let path = folder + "/" + name
    defer { for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) } }
    return Double(rows) * 1e6 / Double(try body(path))
  }

  private func insertByAPI(_ path: String, capture: Bool = true, statements: Bool = true) throws -> Int64 {
    var options = CapturedDatabase.Options()
    (options.capture, options.statements) = (capture, statements)
    let database = try CapturedDatabase(path: path, node: "bench", options: options)
    try database.execute("PRAGMA synchronous = NORMAL")
    try database.execute(Self.table)
    let begun = Clock.monotonicMicroseconds
    for start in stride(from: 0, to: rows, by: Self.perTransaction) {
      try database.transaction { db in
        for row in start..<min(start + Self.perTransaction, rows) {
          try db.execute(Self.insert, row, Double(row) / 2, item, time)
        }
      }
    }
    defer { try? database.close() }
    return Clock.monotonicMicroseconds - begun
  }

  private func insertByCalls(_ path: String) throws -> Int64 {
    let database = try Database(path: path, mode: .create)
    try database.executeScript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \(Self.table)")
    let insert = try database.prepare(Self.insert)
    let (begin, commit) = (try database.prepare("BEGIN IMMEDIATE"), try database.prepare("COMMIT"))
    let (item, time) = (Array(item.utf8), Array(time.utf8))
    let begun = Clock.monotonicMicroseconds
    for start in stride(from: 0, to: rows, by: Self.perTransaction) {
      while try begin.step() {}
      for row in start..<min(start + Self.perTransaction, rows) {
        try insert.bind(Int64(row), at: 1)
        try insert.bind(.real(Double(row) / 2), at: 2)
        try item.withUnsafeBytes { try insert.bind(.text($0), at: 3, copies: true) }
        try time.withUnsafeBytes { try insert.bind(.text($0), at: 4, copies: true) }
        while try insert.step() {}
      }
      while try commit.step() {}
    }
    return Clock.monotonicMicroseconds - begun
  }
}
