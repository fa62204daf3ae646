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
  }
}
