import Changes
import Foundation
import TestServers
import Testing

/// Tables of SQLite files that Cairn creates and makes again for a schema change, and what the user has made of them.
@Suite struct KeptInFilesTests {
  static let table = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT)"

  /// Statements that give the table a shape that no ALTER TABLE gives.
  static func remake(_ table: String, _ columns: String) -> String {
    """
    PRAGMA foreign_keys = OFF; BEGIN; \(table.replacing("TABLE t(", with: "TABLE fresh("));
    INSERT INTO fresh(\(columns)) SELECT \(columns) FROM t; DROP TABLE t; ALTER TABLE fresh RENAME TO t; COMMIT
    """
  }

  private static func pair(_ first: String, run body: (Mesh, [Mesh.Node]) throws -> Void) throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)", rows: [first, ""])
    mesh.ddl = .follow
    for _ in 0..<2 { try mesh.settle() }
    try body(mesh, mesh.nodes)
    try mesh.close()
  }

  @Test func `a table that is made again keeps its AUTOINCREMENT counter`() throws {
    try Self.pair(Self.table) { mesh, nodes in
      try nodes[1].execute("INSERT INTO t(id, a) VALUES (7, 'x'), (100, 'y'); DELETE FROM t WHERE id = 100")
      for _ in 0..<2 { try mesh.settle() }
      let other = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (a <> ''), b TEXT)"
      try nodes[0].execute(Self.remake(other, "id, a, b"))
      for _ in 0..<2 { try mesh.settle() }
      let text = try nodes[1].rows("SELECT sql FROM sqlite_master WHERE name = 't'")
      #expect(text.first?.contains("CHECK") == true, "\(text)")
      #expect(try nodes[1].rows("SELECT seq FROM sqlite_sequence WHERE name = 't'") == ["100"])
      #expect(try nodes[1].rows("SELECT count(*) FROM sqlite_sequence WHERE name LIKE 'cairn%'") == ["0"])
    }
  }

  @Test func `a table that is made again keeps what ANALYZE has counted`() throws {
    try Self.pair("CREATE TABLE t(a TEXT PRIMARY KEY NOT NULL, b TEXT); CREATE INDEX i ON t (b)") { mesh, nodes in
      try nodes[1].execute("INSERT INTO t VALUES ('x', 1), ('y', 2), ('z', 3); DELETE FROM t WHERE a = 'x'; ANALYZE")
      for _ in 0..<2 { try mesh.settle() }
      let statistics = "SELECT tbl, idx, stat FROM sqlite_stat1 WHERE tbl = 't' ORDER BY idx"
      let numbers = try nodes[1].rows(statistics)
      let other = "CREATE TABLE t(a TEXT PRIMARY KEY NOT NULL, b TEXT CHECK (b <> ''))"
      try nodes[0].execute(
        Self.remake(other, "a, b").replacing("COMMIT", with: "CREATE INDEX i ON t (b); COMMIT"))
      for _ in 0..<2 { try mesh.settle() }
      #expect(try nodes[1].rows("SELECT sql FROM sqlite_master WHERE name = 't'").first?.contains("CHECK") == true)
      let now = try nodes[1].rows(statistics)
      #expect(now == numbers, "\(now) \(numbers)")
    }
  }

  static let owns = [
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT CHECK (length(a) < 9), b TEXT)",
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT, CHECK (a < b))",
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT DEFAULT 'mine')",
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT REFERENCES other(id) ON DELETE CASCADE)",
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT, own AS (a || b))",
  ]

  @Test("what the user has written into a table of Cairn's stays when the source adds a column", arguments: owns)
  func written(own: String) throws {
    try Self.pair(Self.table) { mesh, nodes in
      try nodes[1].execute(Self.remake(own, "id, a, b"))
      for _ in 0..<2 { try mesh.settle() }
      try nodes[0].execute("ALTER TABLE t ADD COLUMN c TEXT")
      for _ in 0..<2 { try mesh.settle() }
      let text = try nodes[1].rows("SELECT sql FROM sqlite_master WHERE name = 't'").first ?? ""
      let wanted = own.dropFirst("CREATE TABLE t(".count).dropLast().split(separator: ", ")
      for part in wanted + ["c TEXT"] { #expect(text.contains(part), "\(part) in \(text)") }
      // A change that ALTER TABLE cannot make.
      try nodes[0].execute(
        Self.remake(Self.table.replacing("b TEXT)", with: "b TEXT, c TEXT CHECK (c <> 'x'))"), "id, a, b, c"))
      for _ in 0..<2 { try mesh.settle() }
      let again = try nodes[1].rows("SELECT sql FROM sqlite_master WHERE name = 't'").first ?? ""
      for part in wanted + ["c TEXT CHECK (c <> 'x')"] { #expect(again.contains(part), "\(part) in \(again)") }
    }
  }

  @Test func `a definition that both ends have altered suspends the table`() throws {
    try Self.pair(Self.table) { mesh, nodes in
      try nodes[1].execute(Self.remake(Self.table.replacing("b TEXT", with: "b TEXT CHECK (b < 'm')"), "id, a, b"))
      for _ in 0..<2 { try mesh.settle() }
      try nodes[0].execute(Self.remake(Self.table.replacing("b TEXT", with: "b TEXT DEFAULT 'n'"), "id, a, b"))
      let error = #expect(throws: CairnError.self) { for _ in 0..<2 { try mesh.settle() } }
      #expect(error?.message.contains("that the target has altered too") == true, "\(error?.message ?? "")")
    }
  }
}
