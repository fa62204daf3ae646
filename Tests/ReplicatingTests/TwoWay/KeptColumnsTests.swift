import Changes
import Foundation
import TestServers
import Testing

/// Schema changes that name a column of a PostgreSQL table, and what the user has made of that column at the target.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct KeptColumnsTests {
  static let table = """
    CREATE TABLE t(id integer PRIMARY KEY, a integer DEFAULT 1, b varchar(10) DEFAULT 'x', c integer,
      d integer GENERATED ALWAYS AS (a * 2) STORED)
    """

  /// A pair of servers with one table, which belongs to the user at both ends.
  private static func pair(
    _ more: String = "", at target: String, run body: (Mesh, [Mesh.Node]) throws -> Void
  ) throws {
    let rows = [table + "; " + more, table + "; " + more + "; " + target]
    let mesh = try Mesh("pp", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)", rows: rows)
    mesh.ddl = .follow
    for _ in 0..<2 { try mesh.settle() }
    try body(mesh, mesh.nodes)
    try mesh.close()
  }

  static let objects = [
    ("index mine", "CREATE INDEX mine ON t (a, c)", "DROP INDEX mine"),
    ("index mine", "CREATE INDEX mine ON t (a) WHERE c > 0", "DROP INDEX mine"),
    ("index mine", "CREATE INDEX mine ON t (a) INCLUDE (c)", "DROP INDEX mine"),
    ("constraint mine", "ALTER TABLE t ADD CONSTRAINT mine CHECK (a < c)", "ALTER TABLE t DROP CONSTRAINT mine"),
    (
      "constraint mine", "ALTER TABLE t ADD CONSTRAINT mine EXCLUDE USING btree (id WITH =, c WITH =)",
      "ALTER TABLE t DROP CONSTRAINT mine"
    ),
    ("statistics mine", "CREATE STATISTICS mine ON a, c FROM t", "DROP STATISTICS mine"),
    (
      "index mine of table public.heir",
      "CREATE TABLE heir(PRIMARY KEY (id)) INHERITS (t); CREATE INDEX mine ON heir (a, c)", "DROP INDEX mine"
    ),
  ]

  @Test("a dropped column does not take along what the user has made of other columns", arguments: objects)
  func dropped(name: String, made: String, gone: String) throws {
    try Self.pair(at: made) { mesh, nodes in
      try nodes[0].execute("ALTER TABLE t DROP COLUMN c; INSERT INTO t(id) VALUES (1)")
      let error = #expect(throws: CairnError.self) { for _ in 0..<2 { try mesh.settle() } }
      #expect(error?.code == .schemaStopped)
      #expect(error?.message.contains("\(name) of the target would be dropped too") == true, "\(error?.message ?? "")")
      try nodes[1].execute(gone)
      for _ in 0..<2 { try mesh.settle() }
      #expect(try nodes.map { try $0.rows("SELECT * FROM t") } == [["1|1|x|2"], ["1|1|x|2"]])
    }
  }

  @Test func `a dropped column takes along what is only of that column`() throws {
    let own =
      "CREATE INDEX mine ON t (c); ALTER TABLE t ADD CONSTRAINT few CHECK (c < 9); CREATE SEQUENCE s OWNED BY t.c"
    try Self.pair("CREATE INDEX theirs ON t (a, c)", at: own) { mesh, nodes in
      try nodes[0].execute("ALTER TABLE t DROP COLUMN c")
      for _ in 0..<2 { try mesh.settle() }
      let there = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'c'"
      #expect(try nodes[1].rows(there) == [])
    }
  }

  static let settings = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), l.collname, pg_get_expr(d.adbin, d.adrelid), a.attstorage,
      a.attcompression, nullif(a.attstattarget, -1), a.attoptions, a.attacl, col_description(a.attrelid, a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) AND a.attgenerated = ''
      LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE a.attrelid = 't'::regclass AND a.attnum > 0 AND a.attname IN ('b', 'd') ORDER BY 1
    """

  @Test func `a new type keeps collation, storage, default and settings of the target's column`() throws {
    let own = """
      ALTER TABLE t ALTER b TYPE varchar(10) COLLATE "C", ALTER b SET STORAGE EXTERNAL, ALTER b SET COMPRESSION pglz,
        ALTER b SET DEFAULT 'mine', ALTER b SET STATISTICS 50, ALTER b SET (n_distinct = 7, n_distinct_inherited = -1);
      COMMENT ON COLUMN t.b IS 'it''s'; GRANT SELECT (b), UPDATE (b) ON t TO pg_monitor WITH GRANT OPTION
      """
    try Self.pair(at: own) { mesh, nodes in
      let before = try nodes[1].rows(Self.settings)
      try nodes[0].execute("ALTER TABLE t ALTER b TYPE varchar(30)")
      for _ in 0..<2 { try mesh.settle() }
      #expect(try nodes[1].rows(Self.settings) == before.map { $0.replacing("varying(10)|", with: "varying(30)|") })
      try nodes[0].execute("ALTER TABLE t ALTER b TYPE text")
      for _ in 0..<2 { try mesh.settle() }
      let after = try nodes[1].rows(Self.settings)
      #expect(after.first?.hasPrefix("b|text|C|'mine'") == true, "\(after)")
      try nodes[0].execute(
        "ALTER TABLE t ALTER b SET DEFAULT 'new'; ALTER TABLE t ALTER b TYPE varchar(40) COLLATE \"POSIX\"")
      for _ in 0..<2 { try mesh.settle() }
      #expect(try nodes[1].rows(Self.settings).first?.hasPrefix("b|character varying(40)|POSIX|'new'") == true)
    }
  }

  static let regenerate = """
    ALTER TABLE t DROP COLUMN d, ALTER a TYPE bigint, ADD COLUMN d integer GENERATED ALWAYS AS (a * 3) STORED,
      ADD CONSTRAINT sane CHECK (d < c);
    CREATE INDEX theirs ON t (d, c)
    """

  @Test func `a generated column that is made again keeps what the target has made of it`() throws {
    let own = """
      ALTER TABLE t ALTER d SET STATISTICS 50, ALTER d SET (n_distinct = 7);
      COMMENT ON COLUMN t.d IS 'twice'; GRANT SELECT (d) ON t TO pg_monitor; GRANT SELECT (d) ON t TO PUBLIC
      """
    let more = "CREATE INDEX theirs ON t (d, c); ALTER TABLE t ADD CONSTRAINT sane CHECK (d < c)"
    try Self.pair(more, at: own) { mesh, nodes in
      let query = Self.settings + "; SELECT indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY 1"
      func all() throws -> [String] {
        try query.split(separator: ";").flatMap { try nodes[1].rows(String($0)) }
          + nodes[1].rows("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'sane'")
      }
      let before = try all()
      try nodes[0].execute(Self.regenerate)
      for _ in 0..<2 { try mesh.settle() }
      let after = try all()
      #expect(after == before, "\(after)")
      let made = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass AND adnum > 4"
      #expect(try nodes[1].rows(made).first?.contains("3") == true)
    }
    try Self.pair(more, at: "CREATE INDEX mine ON t (d)") { mesh, nodes in
      try nodes[0].execute(Self.regenerate)
      let error = #expect(throws: CairnError.self) { for _ in 0..<2 { try mesh.settle() } }
      #expect(error?.message.contains("index mine of the target would be dropped too") == true)
    }
  }

  @Test func `a dropped index leaves foreign keys alone that do not need it`() throws {
    let more = """
      ALTER TABLE t ADD UNIQUE (c); CREATE INDEX i ON t (a);
      CREATE TABLE u(id integer PRIMARY KEY, t integer REFERENCES t)
      """
    let rows = [Self.table + ";" + more, ""]
    let mesh = try Mesh("pp", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)", rows: rows)
    mesh.ddl = .follow
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[1].execute("COMMENT ON CONSTRAINT u_t_fkey ON u IS 'mine'")
    try mesh.nodes[0].execute("DROP INDEX i; ALTER TABLE t DROP CONSTRAINT t_c_key")
    for _ in 0..<2 { try mesh.settle() }
    let comment = "SELECT obj_description(oid) FROM pg_constraint WHERE conname = 'u_t_fkey'"
    #expect(try mesh.nodes[1].rows(comment) == ["mine"])
    #expect(try mesh.nodes[1].rows("SELECT count(*) FROM pg_indexes WHERE tablename = 't'") == ["1"])
    try mesh.close()
  }
}
