import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// Rows of `cairn_layout` and `cairn_control` that the writer of a captured file has forged.
@Suite(.timeLimit(.minutes(20))) struct HostileLayoutsTests {
  private func started(_ folder: TempFolder) throws -> Replica {
    let replica = Replica(folder)
    try execute(replica.source, "CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1, 'tea')")
    try replica.takeAndReplay()
    return replica
  }

  private static let schema = "(SELECT schema FROM cairn_layout WHERE id = 1)"

  /// The values `previous` and `action` of forged layouts. They change a table that was none before, or that is not
  /// known, make a table that has a predecessor, or end one.
  static let actions = [
    (previous: "NULL", action: DDL.Action.reshape), ("NULL", .rename), ("1", .create), ("2", .reshape), ("1", .drop),
  ]

  @Test(arguments: actions)
  func `a layout whose schema change no reader could read stops capture before the trail`(
    previous: String, action: DDL.Action
  ) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let before = try Trail.lastSourcePosition(folder: replica.trail)
    try execute(
      replica.source,
      """
      BEGIN; UPDATE cairn_layout SET ended = (SELECT max(seq) + 1 FROM cairn_journal);
      INSERT INTO cairn_layout SELECT 6, \(previous), ended, NULL, \(action.rawValue), NULL, schema FROM cairn_layout;
      INSERT INTO cairn_journal(code) VALUES (0); COMMIT
      """)
    #expect(code { try replica.take() } == .databaseDamaged)
    #expect(code { try replica.take() } == .databaseDamaged, "also at the next start")
    #expect(try Trail.lastSourcePosition(folder: replica.trail) == before)
  }

  /// Otherwise one large layout would be compared with each of very many small ones.
  @Test func `two layouts that follow the same one are refused`() throws {
    let replica = try started(TempFolder())
    try execute(
      replica.source,
      """
      BEGIN; INSERT INTO cairn_layout VALUES (5, 1, 1, 1, NULL, NULL, \(Self.schema)),
      (6, 1, 1, 1, NULL, NULL, \(Self.schema)); INSERT INTO cairn_journal(code) VALUES (0); COMMIT
      """)
    #expect(code { try replica.take() } == .databaseDamaged)
  }

  @Test func `more layouts than Cairn keeps end a capture at work`() throws {
    let replica = try started(TempFolder())
    try execute(
      replica.source,
      """
      BEGIN; WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i <= 100001)
      INSERT INTO cairn_layout SELECT i, NULL, 1, 1, NULL, NULL, \(Self.schema) FROM n;
      INSERT INTO cairn_journal(code) VALUES (0); COMMIT
      """)
    #expect(code { try replica.take() } == .databaseUnsafe)
  }

  @Test func `a list of tables that is larger than Cairn writes is not taken apart`() throws {
    let replica = try started(TempFolder())
    let database = try Database(path: replica.source)
    try database.execute("UPDATE cairn_control SET place = replace(hex(zeroblob(262144)), '00', 'a,b,') WHERE id = 1")
    _ = try Journal(database).patterns()
    try database.execute("UPDATE cairn_control SET place = place || 'c' WHERE id = 1")
    #expect(code { _ = try Journal(database).patterns() } == .databaseUnsafe)
  }
}
