import Changes
import SQLiteKit
import TestServers
import Testing

@testable import Operating

/// Statements with names and texts of a hostile peer, as a terminal gets them.
@Suite struct PrintedSQLTests {
  private static let hostile: [Unicode.Scalar] = [
    "a", "b", "'", "\"", "\\", "\u{1b}", "\u{9b}", "\u{202e}", "\u{7f}", "\u{e0041}", "\n", "\t", "\r", "é", "😀", "$",
    "-",
    "/", "*", "U", "&", "E", "`", "]",
  ]

  private static func isClean(_ text: String) -> Bool {
    !text.unicodeScalars.contains { $0.isObeyed && $0 != "\n" && $0 != "\t" }
  }

  private func drawn(_ random: inout Seeded) -> String {
    var text = String.UnicodeScalarView()
    for _ in 0...random.below(12) { text.append(Self.hostile[random.below(Self.hostile.count)]) }
    return String(text)
  }

  @Test func `random texts mean the same to SQLite, and show no hidden character`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    var random = Seeded(1)
    for _ in 0..<3000 {
      let (one, two) = (drawn(&random), drawn(&random))
      let sql = "SELECT \(one.quotedText), /* \(two.replacing("*", with: "")) */ \(two.quotedText) \(one.sqlComment)"
      let printed = try #require(PrintedSQL.escaped(sql, .sqlite))
      #expect(Self.isClean(printed))
      let rows = try database.query(printed)
      #expect(rows == [[.text(Array(one.utf8)), .text(Array(two.utf8))]], "\(printed)")
    }
    try database.execute(
      try #require(
        PrintedSQL.escaped("CREATE TABLE t(a DEFAULT \("x\u{9b}'y".quotedText), b CHECK (b <> 'q\u{202e}'))", .sqlite)))
    try database.execute("INSERT INTO t(b) VALUES (1)")
    #expect(try database.text("SELECT a FROM t") == "x\u{9b}'y")
  }

  @Test func `a name of SQLite that needs an escape has no statement`() {
    for sql in [
      "SELECT \"a\u{9b}\"", "SELECT `a\u{1b}`", "SELECT [a\u{202e}]", "SELECT a\u{202e}", "SELECT \"a\u{9b}",
    ] { #expect(PrintedSQL.escaped(sql, .sqlite) == nil, "\(sql.oneLine)") }
    #expect(PrintedSQL.escaped("SELECT $x$a\u{9b}$x$", .postgres) == nil)
    #expect(PrintedSQL.escaped("SELECT \"a\u{9b}\\\";", .postgres) == "SELECT U&\"a\\+00009b\\\\\";")
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `random names and texts mean the same to PostgreSQL, and show no hidden character`() throws {
    let server = try PostgresServer.shared
    var random = Seeded(2)
    var wrong: [String] = []
    var script = "CREATE TEMP TABLE odd(n int, name text, a text, b text);\n"
    var names: [(String, String, String)] = []
    for n in 0..<400 {
      let (name, one, two) = (drawn(&random), drawn(&random), drawn(&random))
      names.append((name, one, two))
      let sql =
        "INSERT INTO odd SELECT \(n), (SELECT key FROM jsonb_object_keys(to_jsonb(x)) AS key), \(one.postgresLiteral), \(two.quotedTextOrE) "
        + "FROM (SELECT 1 AS \(name.quotedName)) AS x; \(one.sqlComment)"
      let printed = try #require(PrintedSQL.escaped(sql, .postgres))
      if !Self.isClean(printed) { wrong.append(printed.oneLine) }
      script += printed + "\n"
    }
    script +=
      "SELECT n, encode(convert_to(name, 'UTF8'), 'hex'), encode(convert_to(a, 'UTF8'), 'hex'), encode(convert_to(b, 'UTF8'), 'hex') FROM odd ORDER BY n"
    let database = "printed_sql"
    try server.createDatabase(database)
    defer { try? server.dropDatabase(database) }
    let rows = try server.psql(script, database).split(separator: "\n").filter { $0.contains("|") }
    #expect(wrong == [])
    #expect(rows.count == names.count)
    for (index, (row, (name, one, two))) in zip(rows, names).enumerated() {
      let expected = [name, one, two].map { Array($0.utf8).map { UInt64($0).hex(2) }.joined() }
      #expect(row == "\(index)|\(expected.joined(separator: "|"))")
    }
  }

  @Test func `a statement is printed with what it may hold`() throws {
    let plain = "INSERT INTO t VALUES ('tea', E'a\\nb', $x$ y $x$); -- done"
    #expect(PrintedSQL.escaped(plain, .postgres) == plain)
    #expect(PrintedSQL.escaped(plain, .sqlite) == plain)
  }
}

extension String {
  /// Another way to write a literal of PostgreSQL.
  fileprivate var quotedTextOrE: String { utf8.contains(UInt8(ascii: "\\")) ? postgresLineLiteral : quotedText }
}
