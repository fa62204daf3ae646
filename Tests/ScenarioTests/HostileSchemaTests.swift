import Changes
import Foundation
import Testing

extension Scenarios {
  /// A program that may write to a captured file cannot make Cairn run SQL at the target.
  @Suite struct HostileSchemaTests {
    @Test func `text after a statement in sqlite_master is run nowhere`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("target.db", "CREATE TABLE canary(x); INSERT INTO canary VALUES (7);")
      _ = try bench.sqlite(
        "source.db",
        """
        CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'no'));
        CREATE UNIQUE INDEX i ON t(v) WHERE v <> '';
        INSERT INTO t VALUES (1, 'one');
        PRAGMA writable_schema = ON;
        UPDATE sqlite_master SET sql = sql || '; CREATE TABLE pwned(x); DROP TABLE canary; COMMIT; ATTACH "evil.db" AS e;
          CREATE TABLE e.pwned(x); BEGIN IMMEDIATE' WHERE name = 't';
        """)
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.sqlite("target.db", "SELECT x FROM canary; SELECT * FROM t;") == "7\n1|one\n")
      #expect(try bench.sqlite("target.db", "SELECT name FROM sqlite_master WHERE name = 'pwned';") == "")
      #expect(!FileManager.default.fileExists(atPath: bench.path("evil.db")))
      #expect((outcome.output + outcome.errors).contains("table t: it is made of its columns and keys alone"))
    }

    /// The definition of a table in the other engine, as an application may write it into `cairn_origin`.
    private static func forged(_ engine: Engine, _ name: String, _ create: String, _ more: String) -> String {
      var shape = TableSchema(
        epoch: 1, engine: engine, namespace: engine == .postgres ? "public" : "", name: name,
        columns: [
          .init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1),
          .init(name: "v", declaredType: "text)" + more, defaultText: "'x')" + more),
        ])
      shape.createText = create + more
      shape.objects = [.init(name: "i", text: "CREATE INDEX i ON \(name) (v)" + more)]
      var bytes = ByteWriter()
      bytes.append(shape)
      return "('\(name)', x'\(Array(bytes.bytes).hex)')"
    }

    @Test func `a forged table cairn_origin in a captured file runs nothing, in either engine`() throws {
      let bench = try Bench()
      let attack = """
        ; CREATE TABLE pwned(x); DROP TABLE canary; COMMIT; ATTACH '\(bench.path("evil.db"))' AS e; \
        CREATE TABLE e.pwned(x); BEGIN IMMEDIATE
        """
      let postgres = "CREATE TABLE IF NOT EXISTS \"public\".\"t\" (\"id\" integer NOT NULL, \"v\" text)"
      _ = try bench.sqlite("target.db", "CREATE TABLE canary(x); INSERT INTO canary VALUES (7);")
      _ = try bench.sqlite(
        "source.db",
        """
        CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one');
        CREATE TABLE u(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO u VALUES (1, 'one');
        CREATE TABLE w(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO w VALUES (1, 'one');
        CREATE TABLE cairn_origin(name TEXT PRIMARY KEY COLLATE NOCASE, shape BLOB) WITHOUT ROWID;
        INSERT INTO cairn_origin VALUES \(Self.forged(.postgres, "t", postgres, attack)),
          \(Self.forged(.sqlite, "u", "CREATE TABLE u(id INTEGER PRIMARY KEY, v TEXT)", attack)), ('w', x'010203ff');
        """)
      // A copy, and then changes, of rows and of the forged definition.
      for round in 1...2 {
        let outcome = try bench.replicateOnce()
        #expect(outcome.status == 0, "\(outcome.errors)")
        let rows = (1...round).map { "\($0)|\($0 == 1 ? "one" : "two")\n" }.joined()
        #expect(
          try bench.sqlite("target.db", "SELECT x FROM canary; SELECT * FROM t; SELECT * FROM u; SELECT * FROM w;")
            == "7\n" + rows + rows + rows)
        let names =
          "SELECT name FROM sqlite_master WHERE name NOT LIKE 'cairn%' AND name NOT LIKE 'sqlite%' ORDER BY 1;"
        #expect(try bench.sqlite("target.db", names) == "canary\nt\nu\nw\n")
        // The forged texts go on to the target as data. They are parsed wherever they are used.
        let carried = "SELECT count(*) FROM cairn_origin WHERE instr(shape, CAST('pwned' AS BLOB));"
        #expect(try bench.sqlite("source.db", carried) == "2\n")
        #expect(try bench.sqlite("target.db", carried) == "2\n")
        #expect(!FileManager.default.fileExists(atPath: bench.path("evil.db")))
        _ = try bench.sqlite(
          "source.db",
          ["t", "u", "w"].map { "ALTER TABLE \($0) RENAME TO x; ALTER TABLE x RENAME TO \($0);" }.joined()
            + ["t", "u", "w"].map { "INSERT INTO \($0) VALUES (2, 'two') ON CONFLICT DO NOTHING;" }.joined())
      }
    }
  }
}
