import Applying
import Changes
import Foundation
import Mapping
import PostgresKit
import TestServers
import Testing

@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresSchemaChangesTests {
  private static let before = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX t_a ON t(a)"
  private static let after =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER NOT NULL DEFAULT 7); CREATE UNIQUE INDEX t_ab ON t(a, b)"

  @Test(arguments: ["reshape", "rename", "columns", "drop"])
  func `a table that Cairn made follows`(action: String) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try target.begin(Self.before, "t", [[1, "x"], [2, "y"]])
    try trail.transaction {
      switch action {
      case "reshape":
        try trail.reshape("t", Self.after)
        try trail.insert("t", [3, "z", 3])
      case "rename":
        try trail.reshape("t", "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "u")
        try trail.insert("u", [3, "z"])
      case "columns":
        try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT)")
        try trail.insert("t", [3, "z"])
      default: try trail.drop("t")
      }
    }
    try target.replay()
    let indexes = "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'public'"
    switch action {
    case "reshape":
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|x|7\n2|y|7\n3|z|3")
      let made = try target.psql(indexes)
      #expect(made == "t_ab t_pkey", "\(target.progress.snapshot.notices)")
    case "rename":
      #expect(try target.psql("SELECT * FROM u ORDER BY id") == "1|x\n2|y\n3|z")
      #expect(try target.psql(indexes) == "t_pkey")
    case "columns": #expect(try target.psql("SELECT c FROM t ORDER BY id") == "x\ny\nz")
    default: #expect(try target.psql("SELECT to_regclass('t')") == "")
    }
  }

  @Test func `an index and a foreign key that wait for rows follow their tables to new names`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    func shape(_ t: String, _ box: String) -> String {
      """
      CREATE TABLE \(t)(id INTEGER PRIMARY KEY, t INTEGER, box INTEGER REFERENCES \(box)(id));
      CREATE INDEX t_t ON \(t)(t)
      """
    }
    for (name, sql) in [
      ("box", "CREATE TABLE box(id INTEGER PRIMARY KEY)"), ("t", shape("t", "box")),
      ("t2", "CREATE TABLE t2(id INTEGER PRIMARY KEY, t INTEGER); CREATE INDEX t2_t ON t2(t)"),
    ] {
      try trail.shape(sql)
      try trail.transaction { try trail.create(name) }
    }
    try target.replay()
    let pending = """
      SELECT string_agg(concat_ws(' ', table_name, name, needs_table), ', ' ORDER BY kind, name) FROM cairn.pending
      """
    let before = try target.psql(pending)
    #expect(before == "t t_box_fkey box, t2 t2_t , t t_t ")
    try trail.transaction {
      try trail.reshape("t", shape("u", "box"), as: .rename, to: "u")
      try trail.reshape("box", "CREATE TABLE crate(id INTEGER PRIMARY KEY)", as: .rename, to: "crate")
    }
    try target.replay()
    let after = try target.psql(pending)
    // The index is made at the change, and the foreign key waits for the rows of both.
    #expect(after == "u u_box_fkey crate, t2 t2_t ")
    try trail.transaction {
      try trail.copy("crate", [[7]])
      try trail.copy("u", [[1, 5, 7]])
      try trail.copy("t2", [[1, 5]])
    }
    try target.replay()
    #expect(try target.psql(pending) == "", "\(target.progress.snapshot.notices)")
    let indexes = "SELECT tablename, indexname FROM pg_indexes WHERE indexname IN ('t_t', 't2_t') ORDER BY 1"
    #expect(try target.psql(indexes) == "t2|t2_t\nu|t_t")
    let keys = "SELECT conrelid::regclass, confrelid::regclass FROM pg_constraint WHERE contype = 'f'"
    #expect(try target.psql(keys) == "u|crate")
  }

  @Test func `a new type and a new key follow, and the rows come again`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)", "t", [[1, "x"], [2, "x"]])
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id TEXT, a INTEGER, PRIMARY KEY(a))", isRefreshed: true)
      try trail.copy("t", [["k", 5]], reason: .schemaChange)
    }
    try trail.transaction { try trail.update("t", ["k", 5], ["l", nil]) }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "l|5")
    #expect(
      try target.psql(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p' AND conrelid = 't'::regclass")
        == "PRIMARY KEY (a)")
  }

  @Test(arguments: [DDLPolicy.follow, .ignore])
  func `a copy leaves what only the target has in its rows`(policy: DDLPolicy) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    let rows: [[Value]] = (1...5).map { [.integer($0), .integer($0), .integer($0)] }
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INT UNIQUE, b INT)", "t", rows)
    try target.psql("ALTER TABLE t ADD mine json, ADD twice bigint GENERATED ALWAYS AS (id * 2) STORED")
    try target.psql("UPDATE t SET mine = to_json('m' || id)")
    target.options.ddl = policy
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT UNIQUE)", isRefreshed: true)
    }
    try trail.transaction {
      try trail.refresh("t", .start(.schemaChange, .byKey, estimatedRows: 4))
      // Its chunk is still to come.
      try trail.insert("t", [4, 44])
    }
    try trail.transaction {
      try trail.refresh("t", .chunk(.keys(after: nil, through: [2, nil])))
      try trail.row("t", [1, 11])
      try trail.update("t", [1, nil], [10, nil])
    }
    try trail.transaction {
      try trail.refresh("t", .chunk(.keys(after: [2, nil], through: nil)))
      for (id, a) in [(3, 33), (4, 44), (10, 11), (11, 12)] {
        try trail.row("t", [.integer(Int64(id)), .integer(Int64(a))])
      }
      try trail.refresh("t", .end(rows: 5))
    }
    try target.replay()
    #expect(
      try target.psql("SELECT id, a, mine, twice FROM t ORDER BY id")
        == "3|33|\"m3\"|6\n4|44|\"m4\"|8\n10|11|\"m1\"|20\n11|12||22")
    if policy == .ignore { #expect(try target.psql("SELECT b FROM t WHERE b > 0 ORDER BY id") == "3\n4\n1") }
  }

  @Test func `rows with values of the target's own survive a constraint, and an emptied table is reported`()
    throws
  {
    let target = try PostgresTarget()
    let trail = target.trail
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INT)", "t", [[1, .null], [2, 2]])
    try target.begin("CREATE TABLE w(a INT)", "w", [[1], [2]], .whole)
    for table in ["t", "w"] { try target.psql("ALTER TABLE \(table) ADD mine text; UPDATE \(table) SET mine = 'm'") }
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT NOT NULL)", isRefreshed: true)
      try trail.copy("t", [[1, 1], [2, 2]], reason: .schemaChange)
      try trail.copy("w", [[1], [3]], .whole, reason: .lostChanges)
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("only the target has column \"mine\""), "\(error.message)")
    #expect(target.progress.snapshot.notices.contains { $0.contains("w is emptied") && $0.contains("mine") })
    try target.psql("UPDATE t SET a = 0 WHERE id = 1")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|1|m\n2|2|m")
  }

  @Test(arguments: [
    ("reshape", "ALTER TABLE t ADD COLUMN b bigint NOT NULL DEFAULT 7", "t", "1|x|7\n3|z|3"),
    ("rename", "ALTER TABLE t RENAME TO u", "u", "1|x\n3|z"),
    ("drop", "ALTER TABLE t RENAME TO mine", "mine", "1|x"),
  ])
  func `a table that Cairn did not make stops apply until it was changed by hand`(
    action: String, byHand: String, table: String, rows: String
  ) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try target.psql("CREATE TABLE t(id bigint PRIMARY KEY, a text)")
    try target.begin(Self.before, "t", [[1, "x"]])
    try trail.transaction {
      switch action {
      case "reshape":
        try trail.reshape("t", Self.after)
        try trail.insert("t", [3, "z", 3])
      case "rename":
        try trail.reshape("t", "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT)", as: .rename, to: "u")
        try trail.insert("u", [3, "z"])
      default: try trail.drop("t")
      }
    }
    for _ in 0..<2 {
      let error = failure { try target.replay() }
      #expect(error?.code == .schemaStopped, "\(String(describing: error))")
    }
    try target.psql(byHand)
    try target.replay()
    #expect(try target.psql("SELECT * FROM \(table) ORDER BY id") == rows)
  }

  @Test(arguments: [
    ("CREATE TABLE t(id bigint PRIMARY KEY)", "has no column a"),
    ("CREATE TABLE t(id bigint, a text)", "has no unique key over id"),
    ("CREATE TABLE t(id bigint PRIMARY KEY, a text NOT NULL)", "column a is NOT NULL"),
    ("CREATE TABLE t(id bigint PRIMARY KEY, a text, c int NOT NULL)", "column c is NOT NULL"),
    ("CREATE TABLE t(id bigint PRIMARY KEY, a text GENERATED ALWAYS AS ('x') STORED)", "column a is generated"),
    ("CREATE VIEW t AS SELECT 1::bigint AS id, 'x' AS a", "not an ordinary table"),
  ])
  func `a table that cannot take the rows is refused`(sql: String, why: String) throws {
    let target = try PostgresTarget()
    try target.psql(sql)
    let error = failure { try target.begin(Self.before, "t", [[1, "x"]]) }
    #expect(error?.code == .schemaStopped)
    #expect(error?.message.contains(why) == true, "\(String(describing: error))")
  }

  @Test func `rows go into partitions through their root`() throws {
    let target = try PostgresTarget()
    try target.psql(
      """
      CREATE TABLE t(id bigint, a text) PARTITION BY RANGE (id);
      CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
      CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
      ALTER TABLE t ADD PRIMARY KEY (id)
      """)
    try target.begin(Self.before, "t", [[1, "x"], [11, "y"]])
    try target.trail.transaction {
      try target.trail.update("t", [1, "x"], [12, nil])
      try target.trail.delete("t", [11, "y"])
      try target.trail.insert("t", [2, "z"])
    }
    try target.replay()
    #expect(try target.psql("SELECT tableoid::regclass, * FROM t ORDER BY id") == "t1|2|z\nt2|12|x")
    try target.trail.transaction { try target.trail.insert("t", [99, "none"]) }
    let error = failure { try target.replay() }
    #expect(error?.code == .constraintFailed && error?.message.contains("row id='99'") == true)
  }

  @Test func `a missing row of a partitioned table is excused only if a copy follows`() throws {
    let target = try PostgresTarget()
    try target.begin(
      postgres:
        "CREATE TABLE t(id int PRIMARY KEY, a text) PARTITION BY RANGE (id); CREATE TABLE t1 PARTITION OF t DEFAULT",
      "t", [[.exact("1"), .exact("x")]])
    try target.trail.transaction { try target.trail.insert("t", [.exact("1"), .exact("again")]) }
    try target.replay()
    #expect(try target.psql("SELECT id, a FROM t") == "1|again")
    try target.trail.transaction { try target.trail.delete("t", [.exact("9"), nil]) }
    #expect(failure { try target.replay() }?.code == .rowMissing)
    try target.trail.transaction { try target.trail.update("t", [.exact("8"), nil], [.exact("7"), .exact("y")]) }
    try target.trail.transaction {
      try target.trail.copy("t", [[.exact("7"), .exact("y")]], reason: .lostChanges)
    }
    try target.replay()
    #expect(try target.psql("SELECT id, a FROM t") == "7|y")
  }

  @Test func `two tables that would become one are refused`() throws {
    let target = try PostgresTarget()
    try target.shape(postgres: "CREATE TABLE \"T\"(id int PRIMARY KEY); CREATE TABLE t(id int PRIMARY KEY)")
    try target.trail.shape("CREATE TABLE x(id INTEGER PRIMARY KEY)")
    try target.trail.transaction { for table in ["T", "t", "x"] { try target.trail.create(table) } }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM cairn.table_state") == "3")
    let other = try PostgresTarget()
    try other.trail.shape("CREATE TABLE \"a b\"(id INTEGER PRIMARY KEY)")
    try other.shape(postgres: "CREATE TABLE \"a b\"(id int PRIMARY KEY)")
    try other.trail.transaction { try other.trail.create("a b") }
    try other.trail.shape("CREATE TABLE \"a b\"(id INTEGER PRIMARY KEY)")
    try other.trail.transaction { try other.trail.create("a b") }
    let error = failure { try other.replay() }
    #expect(error?.code == .schemaStopped && error?.message.contains("would both be") == true)
    #expect(try other.psql("SELECT code FROM cairn.waiting") == "name-collision")
  }

  @Test func `sequences are carried with a margin and never go back`() throws {
    let target = try PostgresTarget()
    try target.begin(postgres: "CREATE TABLE t(id serial PRIMARY KEY, v text)", "t", [[.exact("1"), .exact("a")]])
    func carry(_ last: Int64) throws {
      var record = ByteWriter()
      record.append(SequenceState(namespace: "public", name: "t_id_seq", last: last, increment: 1))
      try target.trail.transaction { try target.trail.raw(kind: RecordKind.sequence, Array(record.bytes)) }
      try target.replay()
    }
    try carry(10)
    #expect(try target.psql("SELECT last_value FROM t_id_seq") == "42")
    try carry(5)
    #expect(try target.psql("SELECT last_value FROM t_id_seq") == "42")
    try carry(Int64.max - 3)
    #expect(try target.psql("SELECT last_value FROM t_id_seq") == "2147483647")
  }

  @Test func `a sequence is moved to numbers that are its own only`() throws {
    let target = try PostgresTarget()
    try target.begin(postgres: "CREATE TABLE t(id serial PRIMARY KEY, v text)", "t", [[.exact("1"), .exact("a")]])
    func carried(_ last: Int64, _ alter: String) throws -> String {
      try target.psql("ALTER SEQUENCE t_id_seq \(alter)")
      var record = ByteWriter()
      record.append(SequenceState(namespace: "public", name: "t_id_seq", last: last, increment: 2))
      try target.trail.transaction { try target.trail.raw(kind: RecordKind.sequence, Array(record.bytes)) }
      try target.replay()
      return try target.psql("SELECT nextval('t_id_seq')")
    }
    #expect(try carried(101, "INCREMENT BY 2 START WITH 2 RESTART WITH 2") == "166")
    #expect(try carried(201, "INCREMENT BY 5 START WITH 4 RESTART WITH 4") == "269")
    #expect(
      try carried(301, "INCREMENT BY -2 MINVALUE -2147483648 MAXVALUE -1 START WITH -2 RESTART WITH -2") == "-4")
  }

  @Test func `detach leaves the tables and nothing of ours`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE mine(id int)")
    let before = try target.server.schema(target.name)
    try target.begin(Self.before, "t", [[1, "x"]])
    let prefix = "cairn_" + (try target.psql("SELECT oid FROM pg_database WHERE datname = '\(target.name)'")) + "_"
    let origins = "SELECT count(*) FROM pg_replication_origin WHERE roname LIKE '\(prefix)%'"
    #expect(try target.psql(origins) == "1")
    let state = PostgresApplyState(try PostgresConnection(target.url))
    #expect(try state.detach())
    #expect(try !state.detach())
    #expect(try target.psql(origins) == "0")
    #expect(try target.psql("SELECT * FROM t") == "1|x")
    try target.psql("DROP TABLE t")
    #expect(try target.server.schema(target.name) == before)
  }
}
