import Changes
import Foundation
import Mapping
import SQLiteKit
import Synchronization
import TestServers
import Testing
import Trails

@testable import Applying

/// A row that the target lacks is no error if a refresh follows. A peer may send many such rows in one transaction.
@Suite struct RefreshesAheadTests {
  private static let rowsMax = 2_000

  @Test func `a trail is read once for all rows that a refresh excuses`() throws {
    let made = try Handmade(TempFolder())
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY)")
    try made.transaction {
      for table in ["t", "u"] { try made.create(table) }
      for id in 0..<Self.rowsMax { try made.delete("t", [.integer(Int64(id))]) }
      try made.copy("t", [[1]], reason: .lostChanges)
      try made.delete("t", [1])
    }
    let ahead = try RefreshesAhead(in: made.trail, from: nil, through: .max, rules: [], to: .sqlite)
    let reader = try ApplyReader.open(
      folder: made.trail, at: nil, rules: [], to: .sqlite, isForShapes: false)
    var (excused, refused) = (0, 0)
    while let record = try reader.next() {
      guard case .change(let change) = record, change.operation == .delete,
        let table = reader.schema(change.schemaID)
      else { continue }
      if try ahead.copies(table, behind: reader.position) { excused += 1 } else { refused += 1 }
    }
    #expect(excused == Self.rowsMax && refused == 1)
    #expect(ahead.recordsRead <= Self.rowsMax + 20, "\(ahead.recordsRead) records")
  }

  @Test func `a refresh of another table or after the last transaction excuses nothing`() throws {
    let made = try Handmade(TempFolder())
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY)")
    try made.transaction { for table in ["t", "u"] { try made.create(table) } }
    try made.transaction { try made.copy("u", [[1]], reason: .lostChanges) }
    try made.transaction { try made.copy("t", [[1]], reason: .lostChanges) }
    let schema = try #require(try Self.schema("t", made))
    for (last, isFound) in [(2, false), (3, true)] as [(UInt64, Bool)] {
      let ahead = try RefreshesAhead(in: made.trail, from: nil, through: last, rules: [], to: .sqlite)
      #expect(try ahead.copies(schema, behind: .start) == isFound, "through \(last)")
      #expect(try ahead.copies(schema, behind: .start) == isFound, "again, through \(last)")
    }
  }

  /// PostgreSQL does not report that a partition was detached, and capture refreshes the table some seconds later.
  @Test(arguments: [true, false])
  func `programs write while apply waits for the refresh of a partitioned table`(comes: Bool) throws {
    let made = try Handmade(TempFolder())
    made.shape(
      TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "t", flags: .partitioned,
        columns: [.init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1)], createText: "CREATE …"))
    try made.transaction {
      try made.create("t")
      try made.copy("t", [])
    }
    try made.replay()
    try made.transaction { try made.delete("t", [.exact("1")]) }
    let apply = Mutex<CairnError?>(nil)
    let ended = DispatchSemaphore(value: 0)
    nonisolated(unsafe) let trail = made
    Thread.detachNewThread {
      let error = failure { try trail.replay() }
      apply.withLock { $0 = error }
      ended.signal()
    }
    // Apply has found that the row is missing.
    #expect(ended.wait(timeout: .now() + 2) == .timedOut)
    let program = try Database(path: made.target, mode: .readWrite, busyTimeoutMilliseconds: 0)
    try program.executeScript("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS mine(id); COMMIT")
    if comes { try made.transaction { try made.copy("t", [[.exact("2")]], reason: .lostChanges) } }
    ended.wait()
    #expect(apply.withLock { $0?.code } == (comes ? nil : .rowMissing))
    #expect(try made.rows("SELECT id FROM t") == (comes ? [[2]] : []))
  }

  private static func schema(_ name: String, _ made: Handmade) throws -> TableSchema? {
    let reader = try ApplyReader.open(folder: made.trail, at: nil, rules: [], to: .sqlite, isForShapes: true)
    while let record = try reader.next() {
      if case .ddl(let ddl) = record, let schema = reader.schema(ddl.after), schema.name == name { return schema }
    }
    return nil
  }
}
