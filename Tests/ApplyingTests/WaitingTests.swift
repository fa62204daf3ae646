import Changes
import Foundation
import Mapping
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Applying

/// Only the table whose schema change cannot be made waits, and loses nothing by it.
@Suite struct WaitingTests {
  private static let t = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
  private static let wide = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)"
  private static let u = "CREATE TABLE u(id INTEGER PRIMARY KEY, a)"

  /// `t` was there before Cairn came, `u` was not.
  private func started(_ policy: DDLPolicy? = nil, isOwn: Bool = true) throws -> Handmade {
    let made = try Handmade(TempFolder())
    made.options.ddl = policy
    if isOwn { try made.run("\(Self.t); INSERT INTO t VALUES (1, 1)") }
    try made.begin(Self.t, "t", [[1, 1]])
    try made.begin(Self.u, "u", [[1, 1]])
    return made
  }

  private func widen(_ made: Handmade) throws {
    try made.transaction {
      try made.insert("t", [2, 2])
      try made.insert("u", [2, 2])
      try made.reshape("t", Self.wide)
      try made.insert("t", [3, 3, 3])
      try made.insert("u", [3, 3])
    }
    try made.transaction {
      try made.update("t", [1, 1, .null], [nil, nil, 9])
      try made.insert("u", [4, 4])
    }
  }

  @Test func `all other tables go on, and the run ends with what is to be done`() throws {
    let made = try started()
    try widen(made)
    let progress = ApplyProgress()
    let error = try #require(failure { try made.open(progress).drain() })
    #expect(error.code == .schemaStopped && error.code.exitStatus == 65)
    #expect(error.message.contains("table t is suspended"), "\(error.message)")
    #expect(error.message.contains("add column b"), "\(error.message)")
    #expect(error.hint.contains("ALTER TABLE \"t\" ADD COLUMN b;"), "\(error.hint)")
    #expect(progress.snapshot.waiting.map(\.name) == ["t"])
    // The rows before the change are there, and no later ones.
    #expect(try made.rows("SELECT * FROM t") == [[1, 1], [2, 2]])
    #expect(try made.rows("SELECT id FROM u") == [[1], [2], [3], [4]])
    try made.run("ALTER TABLE t ADD COLUMN b")
    try made.open(progress).drain()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 9], [2, 2, .null], [3, 3, 3]])
    #expect(try made.rows("SELECT id FROM u") == [[1], [2], [3], [4]])
    #expect(progress.snapshot.waiting == [])
    try made.transaction { try made.insert("t", [4, 4, 4]) }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[4]])
  }

  @Test func `the trail does not forget the part for which a table waits`() throws {
    let made = try started()
    made.options.purgesTrail = true
    try widen(made)
    var generator = SystemRandomNumberGenerator()
    for id in 10..<40 as Range<Int64> {
      let blob = (0..<(1 << 17)).flatMap { _ in withUnsafeBytes(of: generator.next()) { Array($0) } }
      try made.transaction { try made.insert("u", [.integer(id), .blob(blob)]) }
    }
    for _ in 0..<2 { #expect(failure { try made.replay() }?.code == .schemaStopped) }
    try made.run("ALTER TABLE t ADD COLUMN b")
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 9], [2, 2, .null], [3, 3, 3]])
    let segments = try FileManager.default.contentsOfDirectory(atPath: made.trail).filter { $0.hasSuffix(".seg") }
    #expect(!segments.contains("00000001.seg"), "\(segments)")
  }

  @Test func `a catchUp that is cut off anywhere goes on where it was`() throws {
    let made = try started()
    try widen(made)
    for id in 10..<40 as Range<Int64> {
      try made.transaction {
        try made.insert("t", [.integer(id), 0, 0])
        try made.insert("u", [.integer(id), 0])
      }
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t ADD COLUMN b")
    made.options.commitRows = 1
    // A row of the target's own ends the catch-up in the middle.
    for limit in [12, 20, 33] {
      try made.run("INSERT INTO t(id) VALUES (\(limit + 2))")
      #expect(failure { try made.replay() }?.code == .rowExists)
      #expect(try made.rows("SELECT max(id) FROM t WHERE id <> \(limit + 2)") == [[.integer(Int64(limit) + 1)]])
      try made.run("DELETE FROM t WHERE id = \(limit + 2)")
    }
    try made.replay()
    #expect(try made.rows("SELECT count(*), sum(id) FROM t") == [[33, .integer(6 + (10..<40).reduce(0, +))]])
  }

  @Test func `under stop also a table of ours waits, and goes on when it is as wanted`() throws {
    let made = try started(.follow, isOwn: false)
    made.options.ddl = .stop
    try widen(made)
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    #expect(try made.rows("SELECT count(*) FROM pragma_table_info('t')") == [[2]])
    try made.run("ALTER TABLE t ADD COLUMN b")
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 9], [2, 2, .null], [3, 3, 3]])
  }

  @Test func `under stop a new table waits for a person to create it`() throws {
    let made = try started()
    made.options.ddl = .stop
    try made.shape("CREATE TABLE n(id INTEGER PRIMARY KEY, a)")
    try made.transaction {
      try made.insert("u", [2, 2])
      try made.create("n")
      try made.copy("n", [[1, 1]])
    }
    try made.transaction { try made.insert("n", [2, 2]) }
    let error = try #require(failure { try made.replay() })
    #expect(error.hint.contains("CREATE TABLE n(id INTEGER PRIMARY KEY, a);"), "\(error.hint)")
    #expect(try made.rows("SELECT id FROM u") == [[1], [2]])
    try made.run("CREATE TABLE n(id INTEGER PRIMARY KEY, a)")
    try made.replay()
    #expect(try made.rows("SELECT * FROM n") == [[1, 1], [2, 2]])
  }

  @Test func `follow alters tables that were there, and never drops them`() throws {
    let made = try started(.follow)
    try made.run("CREATE VIEW v AS SELECT a FROM t; CREATE INDEX mine ON t(a)")
    try widen(made)
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 9], [2, 2, .null], [3, 3, 3]])
    try made.transaction { try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, c, b)", to: "s") }
    try made.replay()
    #expect(try made.rows("SELECT id, c FROM s") == [[1, 1], [2, 2], [3, 3]])
    #expect(try made.rows("SELECT count(*) FROM v") == [[3]])
    let progress = ApplyProgress()
    try made.transaction { try made.drop("s") }
    try made.open(progress).drain()
    #expect(try made.rows("SELECT count(*) FROM s") == [[3]])
    #expect(progress.snapshot.notices.contains { $0.contains("table s of the target stays") })
  }

  @Test func `ignore leaves out what the target lacks, and reports it once`() throws {
    let made = try started(.ignore)
    // `u` was not created either.
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE name = 'u'") == [])
    let progress = ApplyProgress()
    try widen(made)
    try made.transaction { try made.update("t", [3, 3, 3], [nil, nil, 4]) }
    try made.transaction { try made.update("t", [2, 2, .null], [nil, 5, 5]) }
    try made.open(progress).drain()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1], [2, 5], [3, 3]])
    let notices = progress.snapshot.notices
    #expect(notices.filter { $0.contains("column t.b is left out") }.count == 1, "\(notices)")
    #expect(notices.filter { $0.contains("table u is left out") }.count == 1, "\(notices)")
    try made.transaction { try made.drop("t") }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[3]])
  }

  @Test func `under ignore a renamed table waits until the target has the new name`() throws {
    let made = try started(.ignore)
    try made.transaction {
      try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a)", as: .rename, to: "s")
      try made.insert("s", [2, 2])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t RENAME TO s")
    try made.replay()
    #expect(try made.rows("SELECT * FROM s") == [[1, 1], [2, 2]])
  }

  @Test func `a table that waits may be renamed, dropped and created again meanwhile`() throws {
    let made = try started()
    try widen(made)
    try made.transaction { try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a, b)", as: .rename, to: "s") }
    try made.transaction { try made.insert("s", [7, 7, 7]) }
    let error = try #require(failure { try made.replay() })
    #expect(error.message.contains("table s is suspended"), "\(error.message)")
    // The name is not free for another table yet.
    try made.shape("CREATE TABLE t(k INTEGER PRIMARY KEY)")
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[5]])
    }
    let both = try #require(failure { try made.replay() })
    #expect(both.context["table"] == "s, t", "\(both)")
    try made.run("ALTER TABLE t ADD COLUMN b")
    #expect(failure { try made.replay() }?.context["table"] == "s, t")
    try made.run("ALTER TABLE t RENAME TO s")
    try made.replay()
    #expect(try made.rows("SELECT * FROM s") == [[1, 1, 9], [2, 2, .null], [3, 3, 3], [7, 7, 7]])
    #expect(try made.rows("SELECT * FROM t") == [[5]])
  }

  @Test(arguments: [false, true])
  func `a table that took the name of one that waits does not keep that waiting`(isNew: Bool) throws {
    let made = try started()
    made.options.ddl = .stop
    if isNew {
      try made.shape("CREATE TABLE n(id INTEGER PRIMARY KEY, a)")
      try made.transaction {
        try made.create("n")
        try made.copy("n", [[1, "one"], [2, "two"]])
      }
    } else {
      try made.run("CREATE TABLE n(id INTEGER PRIMARY KEY, a); INSERT INTO n VALUES (1, 'one'), (2, 'two')")
      try made.begin("CREATE TABLE n(id INTEGER PRIMARY KEY, a)", "n", [[1, "one"], [2, "two"]])
      try made.transaction { try made.reshape("n", "CREATE TABLE n(id INTEGER PRIMARY KEY, a, b)") }
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.transaction {
      try made.reshape(
        "n", isNew ? "CREATE TABLE n2(id INTEGER PRIMARY KEY, a)" : "CREATE TABLE n2(id INTEGER PRIMARY KEY, a, b)",
        as: .rename, to: "n2")
      try made.insert("n2", isNew ? [3, "three"] : [3, "three", .null])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.shape("CREATE TABLE n(id INTEGER PRIMARY KEY, z)")
    try made.transaction {
      try made.create("n")
      try made.copy("n", [[7, "z"]])
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.context["table"] == "n, n2", "\(error)")
    // The form that they are to have in the end.
    try made.run(
      isNew
        ? "CREATE TABLE n2(id INTEGER PRIMARY KEY, a); CREATE TABLE n(id INTEGER PRIMARY KEY, z)"
        : "ALTER TABLE n RENAME TO n2; ALTER TABLE n2 ADD COLUMN b; CREATE TABLE n(id INTEGER PRIMARY KEY, z)")
    try made.replay()
    #expect(try made.rows("SELECT id, a FROM n2 ORDER BY id") == [[1, "one"], [2, "two"], [3, "three"]])
    #expect(try made.rows("SELECT * FROM n") == [[7, "z"]])
  }

  @Test func `a change left out under ignore makes its table wait under another policy, and no other`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.t, "t", [[1, 1]])
    try made.begin(Self.u, "u", [[1, 1]])
    made.options.ddl = .ignore
    try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, aa, c INT DEFAULT 5)") }
    try made.replay()
    made.options.ddl = nil
    try made.transaction {
      try made.insert("t", [2, 2, 2])
      try made.insert("u", [2, 2])
    }
    for _ in 0..<2 {
      let error = try #require(failure { try made.replay() })
      #expect(error.message.contains("table t is suspended"), "\(error.message)")
      #expect(error.message.contains("no such column"), "\(error.message)")
      #expect(error.hint.contains("ALTER TABLE \"t\" ADD COLUMN c INT DEFAULT 5;"), "\(error.hint)")
      #expect(error.hint.contains("--existing overwrite"), "\(error.hint)")
    }
    #expect(try made.rows("SELECT id FROM u") == [[1], [2]])
    try made.transaction { try made.insert("t", [3, 3, 3]) }
    try made.run("ALTER TABLE t ADD COLUMN c INT DEFAULT 5; ALTER TABLE t ADD COLUMN aa")
    try made.replay()
    #expect(try made.rows("SELECT id, aa, c FROM t") == [[1, .null, 5], [2, 2, 2], [3, 3, 3]])
  }

  @Test func `a person may drop at once what is to be dropped, and rename what is to be renamed`() throws {
    for action in ["drop", "rename"] {
      let made = try started()
      try widen(made)
      if action == "drop" {
        try made.transaction { try made.drop("t") }
      } else {
        try made.transaction {
          try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a, b)", as: .rename, to: "s")
          try made.insert("s", [7, 7, 7])
        }
      }
      #expect(failure { try made.replay() }?.code == .schemaStopped)
      try made.run(action == "drop" ? "DROP TABLE t" : "ALTER TABLE t RENAME TO s; ALTER TABLE s ADD COLUMN b")
      try made.replay()
      if action == "rename" {
        #expect(try made.rows("SELECT * FROM s") == [[1, 1, 9], [2, 2, .null], [3, 3, 3], [7, 7, 7]])
      }
      #expect(try made.rows("SELECT count(*) FROM cairn_table WHERE wait_trail NOT NULL") == [[0]])
    }
  }

  @Test func `a table that is dropped while it waits is done with when the target has none`() throws {
    let made = try started()
    try widen(made)
    try made.transaction { try made.drop("t") }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t ADD COLUMN b")
    #expect(failure { try made.replay() }?.message.contains("drop table t") == true)
    try made.run("DROP TABLE t")
    try made.replay()
    #expect(try made.rows("SELECT name FROM cairn_table ORDER BY 1") == [["u"]])
  }

  @Test func `a copy that runs while a table waits is made when it goes on`() throws {
    let made = try started()
    try made.transaction {
      try made.reshape("t", Self.wide, isRefreshed: true)
      try made.refresh("t", .start(.schemaChange, .byKey, estimatedRows: 2))
    }
    try made.transaction {
      try made.refresh("t", .chunk(.keys(after: nil, through: [5, nil, nil])))
      try made.row("t", [1, 1, 1])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.transaction {
      try made.insert("t", [9, 9, 9])
      try made.refresh("t", .chunk(.keys(after: [5, nil, nil], through: nil)))
      try made.row("t", [9, 9, 9])
      try made.refresh("t", .end(rows: 2))
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t ADD COLUMN b")
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 1], [9, 9, 9]])
  }

  @Test func `state tables of an older version are brought up to date`() throws {
    let made = try started()
    let columns = try made.rows("SELECT name FROM pragma_table_info('cairn_table') WHERE name LIKE 'wait_%'")
    for row in columns { try made.run("ALTER TABLE cairn_table DROP COLUMN \(row[0].string)") }
    #expect(columns.count > 5)
    try made.transaction { try made.insert("u", [2, 2]) }
    try made.replay()
    try widen2(made)
    #expect(failure { try made.replay() }?.code == .schemaStopped)
  }

  private func widen2(_ made: Handmade) throws { try made.transaction { try made.reshape("t", Self.wide) } }

  @Test func `two applies do not move a table that waits without each other's knowledge`() throws {
    let made = try started()
    try widen(made)
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t ADD COLUMN b")
    let one = try made.open()
    let other = try made.open()
    try one.drain()
    #expect(failure { try other.drain() }?.code == .checkpointMoved)
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, 9], [2, 2, .null], [3, 3, 3]])
  }

  @Test(.timeLimit(.minutes(20))) func `many tables that wait in one transaction are found in one pass`() throws {
    let made = try Handmade(TempFolder())
    for n in 1...300 { try made.shape("CREATE TABLE gone_\(n)(id INTEGER PRIMARY KEY, v TEXT)") }
    try made.shape("CREATE TABLE here(id INTEGER PRIMARY KEY, v TEXT)")
    try made.run("CREATE TABLE here(id INTEGER PRIMARY KEY, v TEXT)")
    try made.transaction {
      try made.insert("here", [1, "first"])
      for n in 1...300 { try made.insert("gone_\(n)", [1, "x"]) }
      try made.insert("here", [2, "last"])
    }
    let apply = try made.open()
    let stop = StopSignal()
    let begun = Clock.monotonicMilliseconds
    // Each pass of the group takes the turn once.
    let first = try #require(try apply.replay.applyGroup(stop))
    #expect(first.rows > 0)
    apply.target.rollback()
    #expect(failure { try made.replay() }?.message.contains("300 tables are suspended") == true)
    // A pass for each table would take many minutes.
    #expect(Clock.monotonicMilliseconds - begun < 120_000)
    #expect(try made.rows("SELECT v FROM here ORDER BY id") == [["first"], ["last"]])
    // And go on when they come.
    for n in 1...300 { try made.run("CREATE TABLE gone_\(n)(id INTEGER PRIMARY KEY, v TEXT)") }
    try made.transaction { for n in 1...300 { try made.insert("gone_\(n)", [2, "y"]) } }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM gone_7") == [[2]])
    #expect(try made.rows("SELECT count(*) FROM gone_300") == [[2]])
  }

  @Test(.timeLimit(.minutes(20))) func `no more tables of a trail wait than may`() throws {
    let made = try Handmade(TempFolder())
    let count = WaitingTable.countMax + 1
    for n in 1...count { try made.shape("CREATE TABLE gone_\(n)(id INTEGER PRIMARY KEY)") }
    try made.transaction { for n in 1...count { try made.insert("gone_\(n)", [1]) } }
    let error = failure { try made.replay() }
    #expect(error?.code == .schemaStopped)
    #expect(
      error?.message.contains("1000 tables of trail far.shop are suspended, which is the limit") == true,
      "\(error?.message ?? "")")
  }
}
