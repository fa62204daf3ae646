import Changes
import PostgresKit
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// Rows that refer to a row of an undo are found by the comparison of the engine's own foreign keys.
@Suite(.timeLimit(.minutes(20))) struct UndoReferenceTests {
  private static let types = [
    "INTEGER", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "REAL", "NUMERIC", "BLOB", "",
  ]
  private static let values = ["7", "7.0", "'7'", "'7.0'", "'07'", "'abc'", "'ABC'", "'abc '", "x'37'"]

  @Test(arguments: types) func `SQLite changes just the rows that are found`(parent: String) throws {
    let folder = try TempFolder()
    let database = try Database(ofProgram: folder("shop.db"))
    let undo = try SQLiteUndo(database)
    for child in Self.types {
      try database.execute("DROP TABLE IF EXISTS c")
      try database.execute("DROP TABLE IF EXISTS p")
      try database.execute("CREATE TABLE p(id INTEGER PRIMARY KEY, k \(parent) UNIQUE)")
      try database.execute("CREATE TABLE c(k \(child) REFERENCES p(k) ON DELETE CASCADE)")
      let schema = try #require(try database.userTables().map(\.schema).first { $0.name == "p" })
      let key = try #require(try undo.references(to: schema).first)
      for value in Self.values {
        for referring in Self.values {
          try database.execute("PRAGMA foreign_keys = OFF")
          try database.execute("DELETE FROM p")
          try database.execute("DELETE FROM c")
          try database.execute("INSERT INTO p VALUES (1, \(value))")
          try database.execute("INSERT INTO c VALUES (\(referring))")
          try database.execute("PRAGMA foreign_keys = ON")
          let row = try #require(try database.query("SELECT * FROM p").first)
          let isFound = try undo.isReferenced(row, of: schema, by: key)
          // The check of the key compares in another way than its action, and then refuses the delete.
          do { try database.execute("DELETE FROM p") } catch let error as SQLiteError where error.isOfRow { continue }
          let isChanged = try database.query("SELECT 1 FROM c").isEmpty
          #expect(isFound == isChanged, "\(parent) \(value), \(child) \(referring)")
        }
      }
    }
  }

  private struct Pair: CustomTestStringConvertible {
    let parent: String
    let child: String
    /// A value of the parent, one of a child that refers to it, and one of a child that refers to another parent.
    let values: (String, String, other: String)
    var testDescription: String { "\(parent), \(child)" }
  }

  private static let pairs = [
    Pair(parent: "char(5)", child: "text", values: ("'a'", "'a    '", "'b'")),
    Pair(parent: "char(5)", child: "varchar(9)", values: ("'a'", "'a  '", "'b'")),
    Pair(parent: "text COLLATE loose", child: "text", values: ("'abc'", "'ABC'", "'b'")),
    Pair(parent: "text", child: "text COLLATE \"C\"", values: ("'abc'", "'abc'", "'b'")),
    Pair(parent: "float8", child: "numeric", values: ("0.1", "0.1", "2")),
    Pair(parent: "numeric", child: "integer", values: ("7.00", "7", "8")),
    Pair(parent: "bigint", child: "smallint", values: ("7", "7", "8")),
    Pair(parent: "timestamp", child: "date", values: ("'2026-01-01'", "'2026-01-01'", "'2026-01-02'")),
    Pair(parent: "integer[]", child: "integer[]", values: ("'{1}'", "'{1}'", "'{2}'")),
    Pair(parent: "mood", child: "mood", values: ("'good'", "'good'", "'bad'")),
  ]

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `PostgreSQL changes just the rows that are found`() throws {
    let server = try PostgresServer.shared
    let name = "undo_reference_\(UInt32.random(in: 0 ... .max))"
    let connection = try PostgresConnection(server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    try connection.execute("SET search_path = public")
    try connection.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    try connection.execute("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    let undo = PostgresUndo(connection)
    for (number, pair) in Self.pairs.enumerated() {
      let (parent, child) = ("p\(number)", "c\(number)")
      try connection.execute("CREATE TABLE \(parent)(id integer PRIMARY KEY, k \(pair.parent) UNIQUE)")
      try connection.execute("CREATE TABLE \(child)(k \(pair.child) REFERENCES \(parent)(k) ON DELETE CASCADE)")
      let (value, referring, other) = pair.values
      try connection.execute("INSERT INTO \(parent) VALUES (1, \(value)), (2, \(other))")
      let schema = try #require(try connection.userTables().map(\.schema).first { $0.name == parent })
      for (row, isFound) in [(referring, true), (other, false)] {
        try connection.execute("BEGIN")
        try connection.execute("SET LOCAL search_path = pg_catalog")
        try undo.hold(schema)
        try connection.execute("INSERT INTO public.\(child) VALUES (\(row))")
        let key = try #require(try undo.references(to: schema).first)
        let there = try #require(try undo.find([.exact(Array("1".utf8)), nil], schema))
        #expect(try undo.isReferenced(there, of: schema, by: key) == isFound, "\(pair.testDescription) \(row)")
        try connection.execute("DELETE FROM public.\(parent) WHERE id = 1")
        #expect(try connection.query("SELECT 1 FROM public.\(child)").isEmpty == isFound)
        try connection.execute("ROLLBACK")
      }
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `rows that a policy hides refuse the undo, with the next step`() throws {
    let server = try PostgresServer.shared
    let name = "undo_policy_\(UInt32.random(in: 0 ... .max))"
    let owner = try PostgresConnection(server.createDatabase(name))
    try owner.execute("CREATE ROLE \(name) LOGIN")
    defer {
      try? server.dropDatabase(name)
      _ = try? server.psql("DROP ROLE \(name)")
    }
    for sql in [
      "CREATE TABLE public.p(id integer PRIMARY KEY)", "INSERT INTO public.p VALUES (1)",
      "CREATE TABLE public.c(p integer REFERENCES public.p ON DELETE CASCADE)", "INSERT INTO public.c VALUES (1)",
      "ALTER TABLE public.c ENABLE ROW LEVEL SECURITY", "GRANT ALL ON public.p, public.c TO \(name)",
      "GRANT USAGE, CREATE ON SCHEMA public TO \(name)",
    ] { try owner.execute(sql) }
    let connection = try PostgresConnection(server.url(name, user: name))
    let schema = try #require(try owner.userTables().map(\.schema).first { $0.name == "p" })
    let undo = PostgresUndo(connection)
    try connection.execute("BEGIN")
    try undo.hold(schema)
    let key = try #require(try undo.references(to: schema).first)
    let there = try #require(try undo.find([.exact(Array("1".utf8))], schema))
    let error = #expect(throws: CairnError.self) { try undo.isReferenced(there, of: schema, by: key) }
    #expect(error?.code == .privilegeMissing && error?.hint.contains("as the owner of the table") == true)
    connection.rollback()
    #expect(try owner.query("SELECT 1 FROM public.c").count == 1)
  }
}
