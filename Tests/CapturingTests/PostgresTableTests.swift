import Changes
import PostgresKit
import SystemKit
import TestServers
import Testing

@testable import Capturing

extension PostgresCapturing {
  /// Tables that come, go, change, or cannot be captured.
  @Suite struct TableTests {
    @Test func `a table without identity is refused, and the program's updates go on`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(a int); INSERT INTO t VALUES (1)")
      #expect(origin.code { try origin.take() } == .tableRefused)
      try origin.run("UPDATE t SET a = 2")
      try origin.run("CREATE TABLE u(id int PRIMARY KEY)")
      try origin.take(TablePatterns(["*", "!t"]))
      try origin.run("UPDATE t SET a = 3")
    }

    @Test func `a table that loses its identity is let go before it harms the program`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
      try origin.take()
      try origin.run("ALTER TABLE t DROP CONSTRAINT t_pkey")
      #expect(origin.code { try origin.take() } == .tableRefused)
      try origin.run("UPDATE t SET id = 3")
    }

    @Test func `unlogged tables are left out`() throws {
      let origin = try PostgresOrigin("CREATE UNLOGGED TABLE t(id int PRIMARY KEY); CREATE TABLE u(id int PRIMARY KEY)")
      try origin.take()
      #expect(try origin.lines().filter { $0.hasPrefix("create") } == ["create u"])
    }

    @Test func `a new table is published, recorded and copied`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run("CREATE TABLE fresh(id int PRIMARY KEY); INSERT INTO fresh VALUES (7)")
      try origin.take()
      #expect(
        try origin.lines(from: known) == [
          "create fresh", "start fresh firstCopy", "chunk fresh", "row fresh id=7", "end fresh",
        ])
      let copied = try origin.lastNumber
      try origin.run("INSERT INTO fresh VALUES (8)")
      try origin.take()
      #expect(try origin.lines(from: copied) == ["insert fresh id=8"])
    }

    @Test func `a table that is gone, renamed or of another shape is recorded`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE a(id int PRIMARY KEY); CREATE TABLE b(id int PRIMARY KEY); CREATE TABLE c(id int PRIMARY KEY); INSERT INTO c VALUES (1)"
      )
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(
        "DROP TABLE a; ALTER TABLE b RENAME TO bb; ALTER TABLE c ADD v int DEFAULT 5; INSERT INTO c VALUES (2)")
      try origin.take()
      let lines = try origin.lines(from: known)
      #expect(lines == ["drop a", "rename b bb", "reshape c c", "insert c id=2 v=5"])
    }

    @Test func `tables that take each other's names step aside`() throws {
      let origin = try PostgresOrigin("CREATE TABLE a(id int PRIMARY KEY); CREATE TABLE b(id int PRIMARY KEY)")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(
        "ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b; CREATE TABLE c(id int PRIMARY KEY)"
      )
      try origin.take()
      var names: Set = ["a", "b"]
      for line in try origin.lines(from: known) {
        let words = line.split(separator: " ").map(String.init)
        if words[0] == "rename" { #expect(names.remove(words[1]) != nil && names.insert(words[2]).inserted) }
        if words[0] == "create" { #expect(names.insert(words[1]).inserted) }
      }
      #expect(names == ["a", "b", "c"])
    }

    @Test func `a shape that changed twice while capture was away is recorded twice`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY, a int)")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(
        "INSERT INTO t VALUES (1, 1); ALTER TABLE t ADD b int; INSERT INTO t VALUES (2, 2, 2); ALTER TABLE t DROP a; INSERT INTO t VALUES (3, 3)"
      )
      try origin.take()
      #expect(
        try origin.lines(from: known) == [
          "insert t id=1 a=1", "reshape t t", "insert t id=2 a=2 b=2", "reshape t t", "insert t id=3 b=3",
        ])
    }

    @Test func `all kinds of table and schema are described`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE SCHEMA s;
        CREATE TABLE s.t(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m mood, p pos NOT NULL, a int[], u text UNIQUE);
        CREATE INDEX i ON s.t(p, m, u) WHERE u IS NOT NULL AND u <> 'a text that makes it longer than any name'; CREATE TABLE c(id int PRIMARY KEY, t bigint REFERENCES s.t ON DELETE CASCADE)
        """)
      let connection = try PostgresConnection(origin.uri)
      let tables = try connection.userTables()
      #expect(tables.map(\.displayName) == ["c", "s.t"])
      let schema = tables[1].schema
      #expect(schema.columns.map(\.declaredType) == ["bigint", "public.mood", "public.pos", "integer[]", "text"])
      #expect(schema.columns.map(\.baseType) == ["", "enum", "integer", "", ""])
      #expect(schema.columns[0].identity == .always)
      #expect(schema.uniques == [[4]])
      #expect(schema.objects.map(\.name) == ["i"])
      #expect(schema.objects.first?.text.contains("longer than any name") == true)
      #expect(schema.createText.contains("CACHE 1"))
      let key = try #require(tables[0].schema.foreignKeys.first)
      #expect(key.namespace == "s" && key.table == "t" && key.references == ["id"] && key.onDelete == "CASCADE")
      // The statements that create it there create it elsewhere, and do no harm a second time.
      let other = try PostgresOrigin()
      for _ in 0..<2 { for table in tables { try other.run(table.schema.createText) } }
      let copy = try PostgresConnection(other.uri).userTables()
      #expect(copy.map(\.schema.createText) == tables.map(\.schema.createText))
    }
  }
}
