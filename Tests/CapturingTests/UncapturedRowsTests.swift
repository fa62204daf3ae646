import Changes
import SQLiteKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// Rows that programs wrote to a captured file and that the trail does not hold yet.
@Suite struct UncapturedRowsTests {
  /// The source position of the trail's last progress record.
  private func position(_ replica: Replica) throws -> [UInt8] {
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    while try reader.next() != nil {}
    return try #require(reader.lastSourcePosition)
  }

  private func rows(_ database: Database, _ position: [UInt8]) throws -> [String]? {
    var rows: [String] = []
    let isShown = try UncapturedRows.read(database, behind: position) { schema, values in
      rows.append("\(schema.name) " + values.map(\.shown).joined(separator: ","))
    }
    return isShown ? rows : nil
  }

  @Test func `each row is shown as it was and as it is, in its own shape, from inside of another transaction`() throws {
    let replica = Replica(try TempFolder())
    try execute(replica.source, "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE f(x, y)")
    let database = try Database(path: replica.source)
    #expect(try rows(database, []) == nil)
    try replica.take()
    try execute(replica.source, "INSERT INTO t VALUES (1, 'one'); INSERT INTO f VALUES (1, 2)")
    try replica.take()
    let position = try position(replica)
    #expect(try rows(database, position) == [])
    replica.close()
    try execute(
      replica.source,
      "UPDATE t SET id = 2; DELETE FROM f; ALTER TABLE t ADD COLUMN b; INSERT INTO t VALUES (3, x'00', 4)"
    )
    try replica.take()
    try execute(replica.source, "INSERT INTO t VALUES (4, NULL, 5)")
    try hooks(replica).ask(.init(table: "t", keys: [[.integer(2)]]))
    try database.execute("BEGIN IMMEDIATE")
    try JournalNotes(database).write(AppliedNote(trail: "b.x", number: 1, clock: 1, position: .start))
    #expect(
      try rows(database, position)
        == ["t 1,'one'", "t 2,'one'", "f 1,2", "t 3,x'00'", "t 4,NULL,5"])
    #expect(try UncapturedRows.count(database, behind: position) == 6)
    try database.execute("COMMIT")
  }

  @Test func `rows that the journal does not show are not taken for nothing`() throws {
    let replica = Replica(try TempFolder())
    try execute(replica.source, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
    try replica.take()
    let position = try position(replica)
    replica.close()
    let database = try Database(path: replica.source)
    try execute(
      replica.source,
      "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 10000) INSERT INTO t SELECT i FROM s")
    #expect(try rows(database, position)?.count == 10_000)
    try execute(replica.source, "INSERT INTO t VALUES (0)")
    #expect(try rows(database, position) == nil)
    #expect(try UncapturedRows.count(database, behind: position) == 10_001)
    // Past the cap, the oldest are gone.
    try execute(replica.source, "DELETE FROM cairn_journal WHERE seq < 100")
    #expect(try rows(database, position) == nil)
  }
}
