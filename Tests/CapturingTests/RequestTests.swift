import Capturing
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Rows that are asked for by their keys.
@Suite struct RequestTests {
  private func started(_ tables: String) throws -> Replica {
    let replica = Replica(try TempFolder())
    try execute(replica.source, "PRAGMA journal_mode = WAL; " + tables)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    return replica
  }

  private func events(_ replica: Replica) throws -> [Refresh.Event] {
    try records(replica).compactMap { if case .refresh(let refresh) = $0 { refresh.event } else { nil } }
  }

  @Test func `missing, extra and different rows are as the source has them afterwards`() throws {
    let replica = try started(
      """
      CREATE TABLE k(id INTEGER PRIMARY KEY, a, u UNIQUE);
      INSERT INTO k VALUES (1,'one',10),(2,'two',20),(3,'three',30),(4,'four',40);
      CREATE TABLE w(a TEXT COLLATE NOCASE, b, c, PRIMARY KEY(a, b)) WITHOUT ROWID;
      INSERT INTO w VALUES ('x',1,'r'),('y',x'00',NULL)
      """)
    try execute(
      replica.target,
      """
      DELETE FROM k WHERE id = 1; UPDATE k SET a = 'zwei', u = 99 WHERE id = 2; UPDATE k SET u = -1 WHERE id = 4;
      INSERT INTO k VALUES (9,'extra',40); DELETE FROM w WHERE a = 'x'; UPDATE w SET c = '' WHERE a = 'y'
      """)
    let journal = try hooks(replica)
    try journal.ask(.init(table: "K", keys: [1, 2, 4, 9, 77].map { [.integer($0)] }))
    try journal.ask(.init(table: "w", keys: [[.text("X"), .integer(1)], [.text("y"), .blob([0])]]))
    try execute(replica.source, "UPDATE k SET a = 'after' WHERE id = 1; DELETE FROM k WHERE id = 3")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    let sent = try events(replica)
    #expect(sent.filter { if case .chunk(.row) = $0 { true } else { false } }.count == 7)
    #expect(sent.contains(.start(.repair, .rows, estimatedRows: 1)))
    #expect(sent.last == .end(rows: 2))
  }

  @Test func `a request goes with its table through a new name, and is dropped with a word when the table goes`() throws
  {
    let replica = try started(
      "CREATE TABLE a(id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1,1); CREATE TABLE b(id INTEGER PRIMARY KEY); INSERT INTO b VALUES (1)"
    )
    try execute(replica.target, "DELETE FROM a; DELETE FROM b")
    let journal = try hooks(replica)
    try journal.ask(.init(table: "a", keys: [[.integer(1)]]))
    try journal.ask(.init(table: "b", keys: [[.integer(1)]]))
    try execute(replica.source, "ALTER TABLE a RENAME TO aa; DROP TABLE b")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    #expect(replica.notices == ["rows of table b were requested, but it is no longer captured: they are not sent"])
  }

  @Test func `a table without key, and one asked for by NULL, is copied whole`() throws {
    let replica = try started(
      "CREATE TABLE f(a); INSERT INTO f VALUES (1),(1),(2); CREATE TABLE n(x TEXT PRIMARY KEY, y); INSERT INTO n VALUES (NULL,1),('a',2)"
    )
    try execute(replica.target, "DELETE FROM f WHERE a = 1; INSERT INTO f VALUES (3); DELETE FROM n")
    let journal = try hooks(replica)
    try journal.ask(.init(table: "f", keys: [[.integer(1)]]))
    try journal.ask(.init(table: "n", keys: [[.text("a")], [.null]]))
    // The copy brings it.
    try journal.ask(.init(table: "n", keys: [[.text("a")]]))
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    #expect(try events(replica).allSatisfy { if case .chunk(.row) = $0 { false } else { true } })
  }

  @Test func `a request that cannot be met is refused`() throws {
    let replica = try started("CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)")
    let journal = try hooks(replica)
    #expect(code { try journal.ask(.init(table: "gone", keys: [[.integer(1)]])) } == .tableMissing)
    #expect(code { try journal.ask(.init(table: "a", keys: [[.integer(1), .integer(2)]])) } == .usage)
    _ = try journal.unhook("u")
    #expect(code { try journal.askForCopy(of: "u") } == .tableMissing)
    let other = try TempFolder()
    try execute(other("x.db"), "CREATE TABLE a(id INTEGER PRIMARY KEY)")
    #expect(
      code { try Journal(Database(path: other("x.db"))).ask(.init(table: "a", keys: [[.integer(1)]])) }
        == .tableMissing)
  }

  @Test func `a journal of an older cairn goes on, is brought up, and a newer one is refused`() throws {
    let replica = try started("CREATE TABLE a(id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1,1)")
    replica.close()
    try execute(replica.source, "UPDATE cairn_control SET version = 1 WHERE id = 0; UPDATE a SET v = 2")
    #expect(code { try hooks(replica).ask(.init(table: "a", keys: [[.integer(1)]])) } == .trailVersion)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    try hooks(replica).ask(.init(table: "a", keys: [[.integer(1)]]))
    replica.close()
    try execute(replica.source, "UPDATE cairn_control SET version = 6 WHERE id = 0")
    #expect(code { try replica.take() } == .trailVersion)
  }

  @Test(arguments: RestartTests.Loss.allCases)
  func `a request that was committed is carried out whenever capture ends`(loss: RestartTests.Loss) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE k(id INTEGER PRIMARY KEY, a); WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 500) INSERT INTO k SELECT i, i FROM s"
    )
    try replica.takeAndReplay()
    replica.close()
    let moments = Moments()
    replica.clock = moments.clock
    for round in 0..<12 {
      try execute(replica.target, "DELETE FROM k WHERE id % 7 = \(round % 7); UPDATE k SET a = 'x' WHERE id % 11 = 3")
      let keys = try Database(path: replica.source).query("SELECT id FROM k WHERE id % 7 = \(round % 7) OR id % 11 = 3")
      try hooks(replica).ask(.init(table: "k", keys: keys))
      let image = folder("image.db")
      let stop = StopSignal()
      let source = replica.source
      moments.at { moment in
        switch moment {
        case .snapshotTaken:
          try execute(source, "UPDATE k SET a = a + 1 WHERE id % 5 = \(round % 5); DELETE FROM k WHERE id = \(round)")
        case .everythingRead:
          if loss == .power { _ = try FileImage(source, as: image) }
          stop.set()
        }
      }
      try replica.take(until: stop)
      replica.close()
      if loss == .power { try FileImage(replica.source, existing: image).restore() }
      moments.at { _ in }
      try replica.takeAndReplay()
      replica.close()
      #expect(try replica.differences() == [])
    }
  }
}
