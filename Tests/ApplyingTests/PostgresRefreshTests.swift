import Applying
import Changes
import Foundation
import Mapping
import Synchronization
import TestServers
import Testing

@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresRefreshTests {
  @Test func `between start and end of a refresh changes are taken leniently`() throws {
    let target = try PostgresTarget()
    try target.trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, u TEXT UNIQUE)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 4))
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: [2, nil, nil])))
      try target.trail.row("t", [1, "a", "x"])
      try target.trail.row("t", [2, "b", "y"])
    }
    try target.replay()
    try target.trail.transaction {
      try target.trail.insert("t", [2, "again", "z"])
      try target.trail.insert("t", [3, "c", "x"])
      try target.trail.update("t", [4, "d", "w"], [nil, "e", nil])
      try target.trail.update("t", [2, "again", "z"], [5, nil, nil])
      try target.trail.delete("t", [99, "none", .null])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "3|c|x\n4|e|w\n5|again|z")
    try target.trail.transaction {
      try target.trail.refresh("t", .chunk(.keys(after: [2, nil, nil], through: nil)))
      try target.trail.row("t", [3, "c", "x"])
      try target.trail.row("t", [4, "f", "z"])
      try target.trail.refresh("t", .end(rows: 4))
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "3|c|x\n4|f|z")
    try target.trail.transaction { try target.trail.delete("t", [99, "none", .null]) }
    #expect(failure { try target.replay() }?.code == .rowMissing)
  }

  @Test func `a copy does not mark rows of its earlier chunks as deleted`() throws {
    let target = try PostgresTarget()
    var rule = TableRule(from: "t")
    rule.delete = .mark(column: "gone")
    target.options.rules = [rule]
    // The source's order is a, B, c; by their bytes, B comes before a.
    try target.begin(
      "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v TEXT)", "t",
      [["a", "1"], ["B", "1"], ["c", "1"], ["d", "1"]])
    try target.trail.transaction {
      try target.trail.refresh("t", .start(.asked, .byKey, estimatedRows: 3))
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: ["B", nil])))
      try target.trail.row("t", ["a", "2"])
      try target.trail.row("t", ["B", "2"])
      try target.trail.refresh("t", .chunk(.keys(after: ["B", nil], through: nil)))
      try target.trail.row("t", ["c", "2"])
      try target.trail.refresh("t", .end(rows: 3))
    }
    try target.replay()
    #expect(
      try target.psql("SELECT k, v, gone IS NULL FROM t ORDER BY lower(k)") == "a|2|t\nB|2|t\nc|2|t\nd|1|f")
  }

  @Test func `a chunk replaces what is in its range, by the source's order of texts`() throws {
    let target = try PostgresTarget()
    try target.begin(
      "CREATE TABLE t(k TEXT PRIMARY KEY, v TEXT)", "t", [["A", "1"], ["B", "1"], ["a", "1"], ["é", "1"]])
    try target.trail.transaction {
      try target.trail.refresh("t", .start(.asked, .byKey, estimatedRows: 3))
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: ["B", nil])))
      try target.trail.row("t", ["A", "2"])
      try target.trail.row("t", ["B", "2"])
    }
    try target.replay()
    #expect(try target.psql("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t") == "A2 B2 a1 é1")
    try target.trail.transaction {
      try target.trail.refresh("t", .chunk(.keys(after: ["B", nil], through: nil)))
      try target.trail.row("t", ["é", "2"])
      try target.trail.refresh("t", .end(rows: 3))
    }
    try target.replay()
    #expect(try target.psql("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t") == "A2 B2 é2")
  }

  @Test func `keys that sort otherwise at the target are copied again whole`() throws {
    let target = try PostgresTarget()
    let rows = (1...30).map { n -> [Value] in [.integer(Int64(n)), "old"] }
    try target.begin("CREATE TABLE t(k PRIMARY KEY NOT NULL, v TEXT)", "t", rows)
    try target.trail.transaction {
      try target.trail.refresh("t", .start(.asked, .byKey, estimatedRows: 29))
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: [15, nil])))
      for n in 1...15 { try target.trail.row("t", [.integer(Int64(n)), "new"]) }
      try target.trail.refresh("t", .chunk(.keys(after: [15, nil], through: nil)))
      for n in 16...29 { try target.trail.row("t", [.integer(Int64(n)), "new"]) }
      try target.trail.refresh("t", .end(rows: 29))
    }
    try target.replay()
    #expect(try target.psql("SELECT count(*), count(*) FILTER (WHERE v = 'new') FROM t") == "29|29")
  }

  @Test func `the earlier rows of a table are kept, merged or overwritten`() throws {
    let cases: [(ExistingRows, String)] = [
      (.keep, "1|mine\n2|new\n9|only"), (.merge, "1|new\n2|new\n9|only"), (.overwrite, "1|new\n2|new"),
    ]
    for (existing, rows) in cases {
      let target = try PostgresTarget()
      target.options.existing = existing
      try target.psql("CREATE TABLE t(id bigint PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'mine'), (9, 'only')")
      try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "new"], [2, "new"]])
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == rows)
      // So does a copy that is asked for later, where the answer holds for it too.
      target.options.existingHolds = true
      try target.trail.transaction {
        try target.trail.refresh("t", .start(.asked, .byKey, estimatedRows: 2))
        try target.trail.refresh("t", .chunk(.keys(after: nil, through: nil)))
        for id in 1...2 { try target.trail.row("t", [.integer(Int64(id)), "new"]) }
        try target.trail.refresh("t", .end(rows: 2))
      }
      try target.replay()
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == rows)
    }
  }

  @Test func `updates that do not give the whole row wait for its chunk`() throws {
    let target = try PostgresTarget()
    try target.shape(postgres: "CREATE TABLE t(id int PRIMARY KEY, v text, big text)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 1))
      try target.trail.change(.update, .after, "t", [[.exact("1"), .exact("new"), nil]])
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: nil)))
      try target.trail.row("t", [.exact("1"), .exact("new"), .exact("long")])
      try target.trail.refresh("t", .end(rows: 1))
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "1|new|long")
  }

  @Test func `rows in the way by partial and expression indexes go`() throws {
    let target = try PostgresTarget()
    let sql = """
      CREATE TABLE t(id int PRIMARY KEY, v text, isOn boolean);
      CREATE UNIQUE INDEX t_lower ON t(lower(v)) WHERE isOn
      """
    try target.shape(postgres: sql)
    try target.psql(sql + "; INSERT INTO t VALUES (7, 'A', true), (8, 'A', false)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 1))
      try target.trail.insert("t", [.exact("1"), .exact("a"), .exact("t")])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|a|t\n8|A|f")
  }

  /// A copy that was interrupted before its end was stored begins again over the rows that it has brought.
  @Test func `rows in the way of a row with NULL in its key go, and such rows in the way of others`() throws {
    let target = try PostgresTarget()
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, z TEXT UNIQUE, v TEXT)"
    try target.begin(
      sql, "t", [["a", "1", "x"], ["b", "2", "x"], ["c", "3", "x"], [.null, "4", "x"], [.null, "5", "x"]])
    try target.trail.transaction {
      try target.trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 5))
      // The row with 3 is deleted, and then the one with 2.
      try target.trail.change(.update, [.before, .after], "t", [[.null, "4", "x"], [nil, "3", nil]])
      try target.trail.change(.update, [.before, .after], "t", [[.null, "5", "x"], ["b", nil, nil]])
      try target.trail.change(.insert, .after, "t", [["d", "4", "y"]])
      try target.trail.refresh("t", .chunk(.nullKeys))
      try target.trail.row("t", [.null, "1", "y"])
      try target.trail.row("t", [.null, .null, "y"])
      try target.trail.row("t", [.null, .null, "y"])
      try target.trail.refresh("t", .chunk(.keys(after: nil, through: nil)))
      for row: [Value] in [["a", "2", "y"], ["b", "5", "x"], ["d", "4", "y"]] { try target.trail.row("t", row) }
      try target.trail.refresh("t", .end(rows: 6))
    }
    try target.replay()
    #expect(
      try target.psql("SELECT coalesce(k, ''), coalesce(z, ''), v FROM t ORDER BY 1, 2")
        == "||y\n||y\n|1|y\na|2|y\nb|5|x\nd|4|y")
  }

  @Test func `indexes and foreign keys come after the rows, not valid where the rows break them`() throws {
    let target = try PostgresTarget()
    try target.trail.shape(
      """
      CREATE TABLE child(id INTEGER PRIMARY KEY, up INTEGER REFERENCES parent(id) ON DELETE CASCADE);
      CREATE INDEX child_up ON child(up);
      CREATE TABLE parent(id INTEGER PRIMARY KEY);
      CREATE TABLE good(id INTEGER PRIMARY KEY, up INTEGER REFERENCES parent)
      """)
    try target.trail.transaction {
      for table in ["child", "parent", "good"] { try target.trail.create(table) }
      try target.trail.copy("child", [[1, 1], [2, 77]])
      try target.trail.copy("good", [[1, 1]])
    }
    try target.replay()
    #expect(
      try target.psql("SELECT indexname FROM pg_indexes WHERE tablename = 'child' ORDER BY 1") == "child_pkey\nchild_up"
    )
    #expect(try target.psql("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == "0")
    try target.trail.transaction { try target.trail.copy("parent", [[1]]) }
    try target.replay()
    #expect(
      try target.psql("SELECT conname, convalidated, confdeltype FROM pg_constraint WHERE contype = 'f' ORDER BY 1")
        == "child_up_fkey|f|c\ngood_up_fkey|t|a")
    #expect(target.progress.snapshot.notices.contains { $0.contains("child_up_fkey") })
    // Deletes of parents arrive on their own, with those of their children.
    try target.trail.transaction {
      try target.trail.delete("parent", [1])
      try target.trail.delete("child", [1, 1])
    }
    try target.replay()
    #expect(try target.psql("SELECT id FROM child") == "2")
  }

  @Test func `values that do not fit are dealt with by policy, in copies and changes`() throws {
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, d DATE, j INET)"
    let rows: [[Value]] = [[1, 5, "2024-05-31", .null], [2, "many", "soon", .null]]
    func begin(_ policy: String) throws -> PostgresTarget {
      let target = try PostgresTarget()
      target.options.misfits = try MisfitPolicies(parsing: policy)
      try target.begin(sql, "t", rows)
      return target
    }
    let stop = failure { _ = try begin("stop") }
    #expect(stop?.code == .valueMisfit)
    #expect(stop?.message.contains("table t, row id='2': value 'many' of column n") == true)

    let null = try begin("null")
    #expect(try null.psql("SELECT * FROM t ORDER BY id") == "1|5|2024-05-31|\n2|||")
    #expect(null.progress.snapshot.misfitsNulled == 2)
    try null.trail.transaction { try null.trail.update("t", rows[1], [nil, 7, "never", nil]) }
    try null.replay()
    #expect(try null.psql("SELECT * FROM t ORDER BY id") == "1|5|2024-05-31|\n2|7||")

    let widen = try begin("stop,t.n=widen,t.d=widen")
    #expect(try widen.psql("SELECT * FROM t ORDER BY id") == "1|5|2024-05-31|\n2|many|soon|")
    try widen.trail.transaction {
      try widen.trail.update("t", rows[0], [nil, "few", "now", nil])
      try widen.trail.insert("t", [3, 12, "2024-06-01", .null])
    }
    try widen.replay()
    #expect(try widen.psql("SELECT * FROM t ORDER BY id") == "1|few|now|\n2|many|soon|\n3|12|2024-06-01|")
  }

  @Test func `a value that does not fit names its row, and only what helps is offered`() throws {
    let key = try PostgresTarget()
    key.options.misfits = try MisfitPolicies(parsing: "widen")
    let inKey = failure {
      try key.begin("CREATE TABLE k(shop TEXT, d DATE NOT NULL PRIMARY KEY, n INT)", "k", [["s", "soon", 1]])
    }
    #expect(inKey?.code == .valueMisfit)
    #expect(
      inKey?.message.contains("row shop='s', d='soon': value 'soon' of column d") == true, "\(inKey?.message ?? "")")
    #expect(inKey?.hint.contains("=widen") == false && inKey?.hint.contains("=null") == false)
    let none = try PostgresTarget()
    none.options.misfits = try MisfitPolicies(parsing: "widen")
    let without = failure {
      try none.begin("CREATE TABLE f(a INTEGER, d DATE)", "f", [[1, "soon"]], .whole)
    }
    #expect(without?.message.contains("row a='1', d='soon'") == true, "\(without?.message ?? "")")
    #expect(without?.hint.contains("f.d=null") == true && without?.hint.contains("=widen") == false)
  }

  @Test func `values that only the server can judge follow the policies too`() throws {
    let target = try PostgresTarget()
    target.options.misfits = try MisfitPolicies(parsing: "null")
    try target.psql("CREATE TABLE t(id bigint PRIMARY KEY, a inet)")
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)", "t", [[1, "10.0.0.1"], [2, "nowhere"]])
    try target.trail.transaction { try target.trail.insert("t", [3, "there"]) }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|10.0.0.1\n2|\n3|")
    target.options.misfits = MisfitPolicies()
    try target.trail.transaction { try target.trail.insert("t", [4, "there"]) }
    let error = failure { try target.replay() }
    #expect(error?.code == .valueMisfit)
    #expect(error?.message.contains("row id='4'") == true && error?.message.contains("column a") == true)
  }

  @Test(arguments: [true, false])
  func `programs write while apply waits for the refresh of a partitioned table`(comes: Bool) throws {
    let target = try PostgresTarget()
    try target.psql(
      "CREATE TABLE t(id integer PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE t0 PARTITION OF t DEFAULT")
    try target.shape(postgres: "CREATE TABLE t(id integer PRIMARY KEY) PARTITION BY LIST (id)")
    let trail = target.trail
    try trail.transaction {
      try trail.create("t")
      try trail.copy("t", [])
    }
    try target.replay()
    try trail.transaction {
      try trail.insert("t", [.exact("5")])
      try trail.delete("t", [.exact("1")])
    }
    let apply = Mutex<CairnError?>(nil)
    let ended = DispatchSemaphore(value: 0)
    nonisolated(unsafe) let made = target
    Thread.detachNewThread {
      let error = failure { try made.replay() }
      apply.withLock { $0 = error }
      ended.signal()
    }
    // Apply has found that the row is missing.
    #expect(ended.wait(timeout: .now() + 2) == .timedOut)
    try target.psql("BEGIN; LOCK TABLE t NOWAIT; CREATE TABLE mine(id int); COMMIT")
    if comes { try trail.transaction { try trail.copy("t", [[.exact("2")]], reason: .lostChanges) } }
    ended.wait()
    #expect(apply.withLock { $0?.code } == (comes ? nil : .rowMissing))
    #expect(try target.psql("SELECT id FROM t") == (comes ? "2" : ""))
  }
}
