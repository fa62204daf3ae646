import Changes
import Foundation
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Testing
@testable import Applying

/// Policies for schema changes, and tables that wait.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresWaitingTests {
  private static let shape = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)"
  private static let wider = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)"

  /// Two tables with a row each; `t` is one that Cairn did not create where `sql` makes it.
  private func begin(_ sql: String = "", _ ddl: DDLPolicy? = nil) throws -> PostgresTarget {
    let target = try PostgresTarget()
    if !sql.isEmpty { try target.psql(sql) }
    target.options.purgesTrail = true
    try target.begin(Self.shape, "t", [[1, "x"]])
    try target.begin("CREATE TABLE other(id INTEGER PRIMARY KEY)", "other", [[1]])
    target.options.ddl = ddl
    return target
  }

  @Test func `only the table concerned waits, and goes on when its change was made by hand`() throws {
    let target = try begin("CREATE TABLE t(id bigint PRIMARY KEY, a text)")
    let trail = target.trail
    try trail.transaction { try trail.insert("t", [2, "y"]) }
    try trail.transaction {
      try trail.insert("t", [3, "z"])
      try trail.reshape("t", Self.wider)
      try trail.insert("t", [4, "w", 4])
      try trail.insert("other", [2])
    }
    try trail.transaction { try trail.update("t", [1, "x", .null], [nil, "new", 5]) }
    let error = try #require(failure { try target.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("table t is suspended: add column b INTEGER is not made"), "\(error.message)")
    #expect(error.message.contains("Cairn did not create the table"), "\(error.message)")
    #expect(error.hint.contains("ALTER TABLE public.t ADD COLUMN b bigint"), "\(error.hint)")
    #expect(try target.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM other") == "1 2")
    #expect(target.progress.snapshot.waiting.map(\.name) == ["t"])
    try trail.transaction { try trail.insert("other", [3]) }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    // The rows before the change, and no row twice.
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x\n2|y\n3|z")
    #expect(try target.psql("SELECT count(*) FROM other") == "3")
    try target.psql("ALTER TABLE t ADD COLUMN b bigint")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|new|5\n2|y|\n3|z|\n4|w|4")
    #expect(try target.psql("SELECT count(*) FROM cairn.waiting") == "0")
    #expect(target.progress.snapshot.waiting.isEmpty)
  }

  /// A table of the operator with objects that the source does not know.
  private static let own = """
    CREATE TABLE sale(
      id text PRIMARY KEY, email text COLLATE "C", pieces bigint NOT NULL DEFAULT 1 CHECK (pieces > 0),
      price numeric(10,2) DEFAULT 1.5, total numeric GENERATED ALWAYS AS (price * pieces) STORED, extra text DEFAULT 'x',
      CONSTRAINT sane CHECK (price IS NULL OR price < 100000), CONSTRAINT once UNIQUE (email));
    CREATE INDEX sale_lower_idx ON sale (lower(email)); CREATE INDEX sale_some_idx ON sale (email) WHERE pieces > 3
    """

  @Test(arguments: [nil, .stop] as [DDLPolicy?])
  func `the hint for an operator's table names what was added, and drops nothing`(policy: DDLPolicy?) throws {
    let target = try PostgresTarget()
    try target.psql(Self.own)
    target.options.ddl = policy
    let columns = "id TEXT PRIMARY KEY NOT NULL, email TEXT, pieces INTEGER NOT NULL, price TEXT"
    try target.begin("CREATE TABLE sale(\(columns))", "sale", [["a", "a@b", 2, "2.50"]])
    try target.trail.transaction {
      try target.trail.reshape("sale", "CREATE TABLE sale(\(columns), note TEXT)")
      try target.trail.insert("sale", ["b", "b@c", 3, "1", "new"])
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.hint.contains("ALTER TABLE public.sale ADD COLUMN note text"), "\(error.hint)")
    #expect(!error.hint.uppercased().contains("DROP"), "\(error.hint)")
    try target.psql("ALTER TABLE public.sale ADD COLUMN note text")
    try target.replay()
    #expect(try target.psql("SELECT id, total, extra, note FROM sale ORDER BY id") == "a|5.00|x|\nb|3.00|x|new")
    #expect(try target.psql("SELECT count(*) FROM pg_constraint WHERE conrelid = 'sale'::regclass") == "4")
  }

  @Test(arguments: DDLPolicy.allCases)
  func `each policy does with a table that was there what it says`(policy: DDLPolicy) throws {
    let target = try begin("CREATE TABLE t(id bigint PRIMARY KEY, a text)", policy)
    let trail = target.trail
    try trail.transaction {
      try trail.reshape("t", Self.wider)
      try trail.insert("t", [2, "y", 2])
    }
    try trail.transaction {
      try trail.shape("CREATE TABLE fresh(id INTEGER PRIMARY KEY)")
      try trail.create("fresh")
      try trail.copy("fresh", [[7]])
    }
    try trail.transaction { try trail.drop("other") }
    let error = failure { try target.replay() }
    let tables = "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"
    switch policy {
    case .follow:
      #expect(error == nil, "\(String(describing: error))")
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x|\n2|y|2")
      #expect(try target.psql(tables) == "fresh t")
      try trail.transaction { try trail.drop("t") }
      try target.replay()
      #expect(try target.psql(tables) == "fresh t")
      #expect(target.progress.snapshot.notices.contains { $0.contains("Cairn did not create it") })
    case .stop:
      #expect(
        error?.message.contains("3 tables are suspended: fresh, other, t") == true, "\(String(describing: error))")
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x")
      #expect(try target.psql(tables) == "other t")
      try target.psql("DROP TABLE other; CREATE TABLE fresh(id bigint PRIMARY KEY); ALTER TABLE t ADD b bigint")
      try target.replay()
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x|\n2|y|2")
      #expect(try target.psql("SELECT * FROM fresh") == "7")
    case .ignore:
      #expect(error == nil, "\(String(describing: error))")
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x\n2|y")
      #expect(try target.psql(tables) == "other t")
      let notices = target.progress.snapshot.notices
      for text in ["t.b is left out", "table public.fresh is left out", "table public.other of the target stays"] {
        #expect(notices.contains { $0.contains(text) }, "\(text) in \(notices)")
      }
      try trail.transaction { try trail.update("t", [2, "y", 2], [nil, "z", 3]) }
      try trail.transaction { try trail.update("t", [2, "z", 3], [nil, nil, 4]) }
      try trail.transaction { try trail.delete("t", [1, "x", .null]) }
      try target.replay()
      #expect(try target.psql("SELECT * FROM t") == "2|z")
    }
  }

  @Test func `a change that the server refuses waits, with its message and what to run`() throws {
    let target = try begin()
    try target.psql("CREATE VIEW mine AS SELECT a FROM t")
    let trail = target.trail
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      try trail.insert("t", [2])
      try trail.insert("other", [2])
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("view public.mine depends on column a"), "\(error.message)")
    #expect(error.hint.contains("ALTER TABLE public.t DROP COLUMN a;"), "\(error.hint)")
    #expect(try target.psql("SELECT count(*) FROM other") == "2")
    try target.psql("DROP VIEW mine")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1\n2")
  }

  @Test func `a table that waits is followed through its renames, and two that swap names go on together`() throws {
    let target = try begin("", .stop)
    let trail = target.trail
    // As capture records it: through a third name, all of it in one transaction.
    try trail.shape("CREATE TABLE aside(id INTEGER PRIMARY KEY, a TEXT)")
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE aside(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "aside")
      try trail.reshape("other", "CREATE TABLE t(id INTEGER PRIMARY KEY)", as: .rename, to: "t")
      try trail.reshape("aside", "CREATE TABLE other(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "other")
    }
    try trail.transaction {
      try trail.insert("other", [2, "was t"])
      try trail.insert("t", [3])
    }
    let error = failure { try target.replay() }
    #expect(error?.message.contains("2 tables are suspended: other, t") == true, "\(String(describing: error))")
    #expect(try target.psql("SELECT source, place FROM cairn.waiting ORDER BY 1") == "other|t\nt|other")
    target.options.ddl = .follow
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1\n3")
    #expect(try target.psql("SELECT * FROM other ORDER BY id") == "1|x\n2|was t")
    #expect(try target.psql("SELECT source, table_name FROM cairn.table_state ORDER BY 1") == "other|other\nt|t")
  }

  @Test func `a table that was renamed and one that took its name wait apart`() throws {
    let target = try begin("", .stop)
    let trail = target.trail
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE old(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "old")
      try trail.shape("CREATE TABLE t(n INTEGER PRIMARY KEY)")
      try trail.create("t")
      try trail.copy("t", [[9]])
      try trail.insert("old", [2, "y"])
    }
    let error = failure { try target.replay() }
    #expect(error?.message.contains("2 tables are suspended: old, t") == true, "\(String(describing: error))")
    target.options.ddl = .follow
    try target.replay()
    #expect(try target.psql("SELECT * FROM old ORDER BY id") == "1|x\n2|y")
    #expect(try target.psql("SELECT * FROM t") == "9")
  }

  @Test func `a table that took the name of one that waits does not keep that waiting`() throws {
    let target = try begin("", .stop)
    let trail = target.trail
    try trail.shape("CREATE TABLE n(id INTEGER PRIMARY KEY, a TEXT)")
    try trail.transaction {
      try trail.create("n")
      try trail.copy("n", [[1, "one"]])
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    try trail.transaction {
      try trail.reshape("n", "CREATE TABLE n2(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "n2")
      try trail.insert("n2", [2, "two"])
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    try trail.shape("CREATE TABLE n(id INTEGER PRIMARY KEY, z INTEGER)")
    try trail.transaction {
      try trail.create("n")
      try trail.copy("n", [[7, 7]])
    }
    #expect(failure { try target.replay() }?.context["table"] == "n, n2")
    try target.psql("CREATE TABLE n2(id bigint PRIMARY KEY, a text); CREATE TABLE n(id bigint PRIMARY KEY, z bigint)")
    try target.replay()
    #expect(try target.psql("SELECT * FROM n2 ORDER BY id") == "1|one\n2|two")
    #expect(try target.psql("SELECT * FROM n") == "7|7")
  }

  @Test func `a change left out under ignore makes its table wait under another policy, with what to run`() throws {
    let target = try begin()
    let trail = target.trail
    target.options.ddl = .ignore
    try trail.transaction { try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, aa TEXT, c INT DEFAULT 5)") }
    try target.replay()
    target.options.ddl = nil
    try trail.transaction {
      try trail.insert("t", [2, "y", 2])
      try trail.insert("other", [2])
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.hint.contains("ADD COLUMN c bigint DEFAULT 5"), "\(error.hint)")
    #expect(error.hint.contains("ADD COLUMN aa text"), "\(error.hint)")
    #expect(try target.psql("SELECT count(*) FROM other") == "2")
    try target.psql("ALTER TABLE t ADD aa text, ADD c bigint DEFAULT 5")
    try target.replay()
    #expect(try target.psql("SELECT id, aa, c FROM t ORDER BY id") == "1||5\n2|y|2")
  }

  // MARK: Shapes that the target cannot have

  @Test(arguments: ["rename", "drop"])
  func `a table that the target cannot have goes on when that was undone at the source`(way: String) throws {
    let target = try begin()
    let trail = target.trail
    try trail.shape("CREATE TABLE fresh(id INTEGER PRIMARY KEY, ctid TEXT)")
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, xmax INTEGER)")
      try trail.insert("t", [2, "y", 2])
      try trail.create("fresh")
      try trail.copy("fresh", [[1, "c"]])
      try trail.insert("other", [2])
    }
    try trail.transaction {
      try trail.update("t", [1, "x", .null], [nil, nil, 5])
      try trail.insert("fresh", [2, "d"])
    }
    for _ in 0..<2 {
      let error = try #require(failure { try target.replay() })
      #expect(error.message.contains("2 tables are suspended: fresh, t"), "\(error.message)")
      #expect(try target.psql("SELECT count(*) FROM other") == "2")
    }
    try trail.transaction {
      if way == "rename" {
        try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, xx INTEGER)")
        try trail.reshape("fresh", "CREATE TABLE fresh(id INTEGER PRIMARY KEY, c TEXT)")
        try trail.insert("t", [4, "w", 4])
        try trail.insert("fresh", [3, "e"])
      } else {
        try trail.drop("t")
        try trail.drop("fresh")
      }
    }
    if way == "rename" {
      // A row is in the way in the middle.
      try target.psql("INSERT INTO t VALUES (2, 'mine')")
      #expect(failure { try target.replay() } != nil)
      try target.psql("DELETE FROM t WHERE id = 2")
    }
    try target.replay()
    if way == "rename" {
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x|5\n2|y|2\n4|w|4")
      #expect(try target.psql("SELECT * FROM fresh ORDER BY id") == "1|c\n2|d\n3|e")
    } else {
      #expect(try target.psql("SELECT to_regclass('t'), to_regclass('fresh')") == "|")
    }
    #expect(try target.psql("SELECT count(*) FROM cairn.waiting") == "0")
  }

  @Test func `the trail is kept for a table that waits`() throws {
    let target = try begin("", .stop)
    let trail = target.trail
    try trail.transaction { try trail.reshape("t", Self.wider) }
    let text = Value.text(String(repeating: "x", count: 1 << 20))
    try trail.shape("CREATE TABLE big(id INTEGER PRIMARY KEY, v TEXT)")
    try target.psql("CREATE TABLE big(id bigint PRIMARY KEY, v text)")
    try trail.transaction { try trail.create("big") }
    for id in 0..<40 { try trail.transaction { try trail.insert("big", [.integer(Int64(id)), text]) } }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    try target.psql("ALTER TABLE t ADD b bigint")
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM big") == "40")
    #expect(try target.psql("SELECT * FROM t") == "1|x|")
  }

  @Test func `a state that an older version left is brought up to date`() throws {
    let target = try begin()
    try target.psql("DROP TABLE cairn.waiting")
    try target.trail.transaction { try target.trail.insert("t", [2, "y"]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "2")
    #expect(try target.psql("SELECT to_regclass('cairn.waiting')") == "cairn.waiting")
  }

  @Test func `labels of enums are there before the rows that have them`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    let type = "CREATE TYPE mood AS ENUM ('ok', 'sad');"
    let table = "CREATE TABLE t(id integer PRIMARY KEY, m mood)"
    try target.begin(postgres: type + table, "t", [[.exact("1"), .exact("ok")]])
    try target.shape(postgres: "CREATE TYPE mood AS ENUM ('new', 'ok', 'better', 'sad');" + table)
    let after = try #require(trail.latest("t"))
    try target.shape(postgres: type + table)
    try trail.transaction {
      try trail.reshape("t", after)
      try trail.insert("t", [.exact("2"), .exact("better")])
      try trail.insert("t", [.exact("3"), .exact("new")])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY m") == "3|new\n1|ok\n2|better")
  }

  @Test func `a program's lock is let by, and waited for`() throws {
    let target = try begin()
    try target.trail.transaction {
      try target.trail.reshape("t", Self.wider)
      try target.trail.insert("t", [2, "y", 2])
    }
    let url = target.url
    let worker = try WorkerThread<Bool> {
      guard let program = try? PostgresConnection(url) else { return false }
      let isBegun = (try? program.executeScript("BEGIN; SELECT * FROM public.t")) != nil
      Thread.sleep(forTimeInterval: 4)
      return isBegun && (try? program.execute("COMMIT")) != nil
    }
    Thread.sleep(forTimeInterval: 1)
    try target.replay()
    #expect(worker.join() == true)
    #expect(try target.psql("SELECT count(b) FROM t") == "1")
  }

  @Test func `a lock that lasts keeps only its table waiting, and is reported`() throws {
    let target = try begin()
    try target.trail.transaction {
      try target.trail.reshape("t", Self.wider)
      try target.trail.insert("t", [2, "y", 2])
      try target.trail.insert("other", [2])
    }
    let program = try PostgresConnection(target.url, application: "report")
    try program.executeScript("BEGIN; SELECT * FROM public.t")
    let error = try #require(failure { try target.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("add column b INTEGER is not applied"), "\(error.message)")
    #expect(error.message.contains("process \(program.backendPID) of postgres (report)"), "\(error.message)")
    #expect(try target.psql("SELECT count(*) FROM other") == "2")
    // A session that reads the table is not kept waiting again and again.
    try program.executeScript("SELECT * FROM public.t; COMMIT")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x|\n2|y|2")
  }

  @Test func `connections that are ended in the catchUp lose nothing and double nothing`() throws {
    let target = try begin("CREATE TABLE t(id bigint PRIMARY KEY, a text)")
    let trail = target.trail
    try trail.transaction { try trail.reshape("t", Self.wider) }
    for id in 2..<400 {
      try trail.transaction(isSynced: id == 399) {
        try trail.insert("t", [.integer(Int64(id)), "y", 0])
        try trail.update("t", [.integer(Int64(id)), "y", 0], [nil, nil, .integer(Int64(id))])
        try trail.insert("other", [.integer(Int64(id))])
      }
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    try target.psql("ALTER TABLE t ADD b bigint")
    target.options.commitRows = 5
    let apply = try target.open()
    let (server, name) = (target.server, target.name)
    let stop = StopSignal()
    let worker = try WorkerThread<Int> {
      var count = 0
      while !stop.isSet {
        Thread.sleep(forTimeInterval: 0.05)
        let ended = try? server.psql(
          "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '\(name)' AND application_name LIKE 'cairn%'",
          "postgres")
        count += ended.flatMap { Int($0) } ?? 0
        if count > 12 { break }
      }
      return count
    }
    defer { stop.set() }
    try apply.drain()
    stop.set()
    #expect((worker.join() ?? 0) > 0)
    #expect(try target.psql("SELECT count(*), count(*) FILTER (WHERE id = b) FROM t") == "399|398")
    #expect(try target.psql("SELECT count(*) FROM other") == "399")
  }
}
