import Changes
import Foundation
import Testing

@testable import SQLiteKit

/// The errors of SQLite, as people read them.
@Suite struct ErrorTests {
  private let folder: String

  init() throws {
    folder = FileManager.default.temporaryDirectory.path + "/cairn-sqlite-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  private func cleanly<T>(_ body: () throws -> T) rethrows -> T {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    return try body()
  }

  private func error(_ body: () throws -> Void) -> SQLiteError? {
    do {
      try body()
      return nil
    } catch { return error as? SQLiteError }
  }

  @Test(
    arguments: [
      (5, .databaseBusy), (6, .databaseBusy), (261, .databaseBusy), (26, .databaseNotADatabase), (8, .databaseReadOnly),
      (1032, .databaseReadOnly),
      (3, .databaseReadOnly), (23, .databaseReadOnly), (14, .databaseMissing), (13, .databaseFull),
      (11, .databaseDamaged), (267, .databaseDamaged),
      (10, .ioFailed), (266, .ioFailed), (19, .constraintFailed), (2067, .constraintFailed), (1, .databaseFailed),
      (18, .databaseFailed),
    ] as [(Int32, ErrorCode)])
  func `each result code has its error code, and names the file`(code: Int32, expected: ErrorCode) {
    let error = SQLiteError(code: code, message: "the words of SQLite", sql: "SELECT 1", path: "/srv/shop.db")
      .asCairnError
    #expect(error.code == expected)
    #expect(error.message.contains("/srv/shop.db") && !error.hint.isEmpty)
  }

  @Test func `errors of real files are distinguished`() throws {
    try cleanly {
      let path = folder + "/a.db"
      #expect(error { _ = try Database(path: folder + "/none.db") }?.asCairnError.code == .databaseMissing)
      #expect(
        error { _ = try Database(path: folder + "/no/such/folder.db", mode: .create) }?.asCairnError.code
          == .databaseMissing)
      try Data(repeating: 0x41, count: 4096).write(to: URL(fileURLWithPath: path))
      #expect(
        error { _ = try Database(path: path).integer("SELECT count(*) FROM sqlite_master") }?.asCairnError.code
          == .databaseNotADatabase)
      try FileManager.default.removeItem(atPath: path)
      let one = try Database(path: path, mode: .create)
      try one.executeScript(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL, CHECK (a < 9)); INSERT INTO t VALUES (1,1,1)")
      #expect(
        error { try Database(path: path, mode: .readOnly).execute("DELETE FROM t") }?.asCairnError.code
          == .databaseReadOnly)
      try one.execute("BEGIN IMMEDIATE")
      let busy = error { try Database(path: path, busyTimeoutMilliseconds: 1).execute("BEGIN IMMEDIATE") }
      #expect(busy?.isBusy == true && busy?.asCairnError.remedy == .retry)
      try one.executeScript("ROLLBACK; PRAGMA max_page_count = 3")
      #expect(
        error { try one.execute("INSERT INTO t VALUES (5,5,zeroblob(100000))") }?.asCairnError.code == .databaseFull)
    }
  }

  @Test(arguments: [
    ("INSERT INTO t VALUES (1,5,1)", true), ("INSERT INTO t VALUES (5,1,1)", true), ("INSERT INTO w VALUES (1)", true),
    ("INSERT INTO t VALUES (5,5,NULL)", false), ("INSERT INTO t VALUES (5,50,1)", false),
  ])
  func `uniqueness differs from other constraints, and values are not shown`(sql: String, isUnique: Bool) throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL, CHECK (a < 9)); INSERT INTO t VALUES (1,1,1); CREATE TABLE w(k PRIMARY KEY) WITHOUT ROWID; INSERT INTO w VALUES (1)"
    )
    let found = try #require(error { try database.executeScript(sql) })
    #expect(found.isConstraint && found.isUniqueness == isUnique)
    let bound = try #require(error { try database.run("INSERT INTO w VALUES (abs(?))", [.integer(-1)]) })
    #expect(!bound.description.contains("-1") && bound.sql.contains("abs(?)"))
  }

  @Test func `a transaction that throws is rolled back, also when SQLite did that already`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript("CREATE TABLE t(a UNIQUE ON CONFLICT ROLLBACK); INSERT INTO t VALUES (1)")
    for sql in ["INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (3); SELECT * FROM none"] {
      #expect(error { try database.transaction { try database.executeScript(sql) } } != nil)
      #expect(!database.isInTransaction)
    }
    #expect(try database.query("SELECT a FROM t") == [[.integer(1)]])
  }

  @Test func `values keep their storage class and bytes through a statement`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    let values: [Value] = [
      .null, .integer(.min), .integer(.max), .real(-0.0), .real(.infinity), .real(.leastNonzeroMagnitude), .text(""),
      .text([0x61, 0, 0x62]), .text([0xff, 0xc3]),
      .blob([]), .blob([0, 1, 2]), .text(String(repeating: "x", count: 100_000)),
    ]
    for value in values {
      let found = try #require(try database.first("SELECT ?1", [value]))
      #expect(found == value)
      if case .real(let a) = value, case .real(let b) = found { #expect(a.bitPattern == b.bitPattern) }
    }
    #expect(
      try database.query("SELECT typeof(?1), typeof(?2), typeof(?3)", [.text(""), .blob([]), .null]) == [
        [.text("text"), .text("blob"), .text("null")]
      ])
  }
}
