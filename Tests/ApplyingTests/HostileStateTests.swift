import Changes
import Mapping
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Applying

/// Rows that a program writes into the tables of Cairn in a target.
@Suite struct HostileStateTests {
  @Test(arguments: ["cairn_table", "cairn_checkpoint"])
  func `a target with more rows than Cairn writes is refused`(table: String) throws {
    let folder = try TempFolder()
    let name = TrailName(origin: "a", name: "b")
    let writer = try TrailWriter.open(folder: folder("trail"), name: name, now: { 0 })
    try writer.close()
    func open() throws {
      _ = try SQLiteApply(path: folder("copy.db"), trail: folder("trail"), name: name, options: .init())
    }
    try open()
    let program = try Database(path: folder("copy.db"))
    let columns = try program.query("SELECT name FROM pragma_table_info(?)", [.text(table)]).map { $0[0].string }
    let values = columns.map { _ in "i" }.joined(separator: ", ")
    func add(_ count: Int) throws {
      try program.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) INSERT INTO \(table) SELECT \(values) FROM n"
      )
    }
    try add(100_001)
    let error = #expect(throws: CairnError.self) { try open() }
    #expect(error?.code == .databaseUnsafe && error?.message.contains(table) == true)
    try program.execute("DELETE FROM \(table)")
    try open()
  }

  @Test func `decisions that no statement of Cairn finds again are passed over`() throws {
    let folder = try TempFolder()
    let database = try Database(path: folder("copy.db"), mode: .create)
    let decisions = Decisions(database)
    try decisions.install()
    let key = ConflictRow(["id"], [.integer(1)])
    for number in 0..<1200 {
      // An ordinary decision has an empty schema name.
      try database.run(
        "INSERT INTO cairn_decision(schema_name, table_name, key) VALUES (?, ?, ?)",
        [number % 2 == 0 ? .null : .text(""), .text("t\(number)"), .text(key.json)])
    }
    _ = try decisions.make(within: TargetScope())
    #expect(try database.integer("SELECT count(*) FROM cairn_decision WHERE schema_name IS NOT NULL") == 0)
    #expect(try database.integer("SELECT count(*) FROM cairn_decision") == 600)
  }
}
