import Changes
import Conflicts
import SQLiteKit
import Testing

@testable import Applying

/// Rows that wait for a unique value.
struct CandidateTests {
  private let database: Database
  private let candidates: SQLiteCandidates

  init() throws {
    database = try Database(path: ":memory:", mode: .create)
    candidates = SQLiteCandidates(database: database)
    try candidates.install()
    try database.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
  }

  private func add(_ table: String, _ id: Int64, _ name: String, clock: UInt64) throws {
    let schema = TableSchema(
      epoch: 0, engine: .sqlite, name: table, columns: [.init(name: "id", keyOrdinal: 1), .init(name: "name")])
    try candidates.add(
      Candidate(
        schema, key: [.integer(id)], row: [.integer(id), .text(name)],
        stamp: Stamp(clock: clock, origin: "n0.shop", number: clock)))
  }

  @Test("the latest comes back when the value is free, and no earlier")
  func latestFirst() throws {
    try database.execute("INSERT INTO item VALUES (9, 'tea')")
    try add("item", 1, "tea", clock: 5)
    try add("item", 2, "tea", clock: 7)
    try #expect(candidates.bringBack() == 0)
    try database.execute("DELETE FROM item")
    try #expect(candidates.bringBack() == 1)
    try #expect(database.integer("SELECT id FROM item") == 2)
    try #expect(!candidates.isEmpty())
  }

  @Test("one whose key is there by now, or whose table is gone, waits no longer")
  func gone() throws {
    try database.execute("INSERT INTO item VALUES (1, 'milk')")
    try add("item", 1, "tea", clock: 5)
    try add("dropped", 1, "tea", clock: 6)
    try #expect(candidates.bringBack() == 0)
    try #expect(candidates.isEmpty())
    try #expect(database.text("SELECT name FROM item") == "milk")
  }
}
