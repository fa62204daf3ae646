import Changes
import Mapping
import Testing

@testable import Statements

/// Statements as a peer may forge them: none is executed again, and none ends the daemon or fills its memory.
@Suite struct HostileStatementTests {
  private static let chain = "UPDATE item SET stock = " + Array(repeating: "1", count: 200_000).joined(separator: "+")
  private static let nested =
    "UPDATE item SET stock = " + String(repeating: "max(", count: 60) + "stock" + String(repeating: ",1)", count: 60)
  private static let cases =
    "UPDATE item SET stock = " + String(repeating: "CASE ", count: 60) + "stock"
    + String(repeating: " WHEN 1 THEN 2 WHEN 2 THEN 3 END", count: 60)

  @Test(
    "a statement that grows without end, or that SQLite reads in another way, goes as rows",
    arguments: [
      "UPDATE \u{FEFF}item SET stock = 1", "UPDATE item SET \u{FEFF}stock = 1", "UPDATE item SET stock = 1 -- \0 x",
      "DELETE FROM item WHERE id = ?9223372036854775807 AND stock = ?", "DELETE FROM item WHERE id = ?250001",
      "DELETE FROM item WHERE id = ?250000 AND stock = ?", "DELETE FROM item WHERE id = ?250000 AND stock = :a", chain,
      "UPDATE item SET name = '" + String(repeating: "(", count: 2 << 20) + "'",
    ], [Engine.sqlite, .postgres])
  func refused(statement: String, engine: Engine) { #expect(Fixture.told(statement, for: engine).hasPrefix("no: ")) }

  @Test(.timeLimit(.minutes(20)), arguments: [nested, cases])
  func `a translation that doubles with each level ends`(statement: String) {
    #expect(Fixture.told(statement, for: .postgres).hasPrefix("no: "))
  }

  @Test(
    "a statement whose calls the engines cannot interrupt, or that grows from row to row, goes as rows",
    arguments: [
      "UPDATE item SET name = 'a' WHERE 'x' < hex(zeroblob(120000000))",
      "UPDATE item SET stock = 1 WHERE instr(name, name || 'b') > 0",
      "UPDATE item SET name = replace(name, 'a', 'aa')", "UPDATE item SET name = quote(name)",
      "UPDATE item SET name = trim(name, name)", "UPDATE item SET stock = 1 WHERE name LIKE name",
      "UPDATE item SET stock = 1 WHERE name LIKE '" + String(repeating: "%a", count: 500) + "'",
      "UPDATE item SET stock = 1 WHERE name GLOB name", "UPDATE item SET stock = 1 WHERE like(name, 'a')",
      "UPDATE item SET name = name" + String(repeating: " || name", count: 9),
    ], [Engine.sqlite, .postgres])
  func grows(statement: String, engine: Engine) { #expect(Fixture.told(statement, for: engine).hasPrefix("no: ")) }

  private static func list(_ count: Int) -> String { (1...count).map(String.init).joined(separator: ",") }
  private static func branches(_ count: Int) -> String {
    (1...count).map { "WHEN \($0) THEN 1" }.joined(separator: " ")
  }

  private static func sum(_ name: String, _ count: Int) -> String {
    Array(repeating: name, count: count).joined(separator: "+")
  }

  @Test(
    "a statement that engines make many times longer, or that is too deep for them, goes as rows",
    arguments: [
      "DELETE FROM item WHERE (\(sum("name LIKE 'a'", 16))) IN (\(list(10_000)))",
      "DELETE FROM item WHERE stock = CASE \(sum("stock", 90)) \(branches(400)) \(branches(500)) END",
      "DELETE FROM item WHERE id = " + Array(repeating: "id", count: 300).joined(separator: " + "),
      "DELETE FROM item WHERE " + Array(repeating: "id = 1", count: 480).joined(separator: " OR "),
      "DELETE FROM item WHERE " + Array(repeating: "name LIKE 'a%'", count: 17).joined(separator: " OR "),
      "DELETE FROM item WHERE id = coalesce(" + Array(repeating: "name", count: 1000).joined(separator: ", ") + ")",
    ], [Engine.sqlite, .postgres])
  func growsInPlanning(statement: String, engine: Engine) {
    #expect(Fixture.told(statement, for: engine).hasPrefix("no: "))
  }

  /// The digest has the rows after the statement. Without their keys, it does not show which rows were changed.
  @Test(
    "a statement that changes a key goes as rows",
    arguments: [
      "UPDATE item SET id = 100, name = 'z' WHERE id = 10", "UPDATE item SET id = id + 1",
      "INSERT INTO item(id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET id = 7, name = 'b'",
      "UPDATE sale SET number = 1 WHERE shop = 2",
    ], [Engine.sqlite, .postgres])
  func changesKey(statement: String, engine: Engine) {
    #expect(Fixture.told(statement, for: engine).hasPrefix("no: it changes a key"))
  }

  @Test(
    "a statement whose text would take long to judge goes as rows at once", .timeLimit(.minutes(20)),
    arguments: [
      "UPDATE item SET stock = 1 WHERE EXISTS (SELECT \(list(149_000)) FROM item GROUP BY \(list(150_000)))",
      "DELETE FROM item WHERE id IN (" + Array(repeating: "?", count: 150_000).joined(separator: ",") + ")",
    ], [Engine.sqlite, .postgres])
  func isLong(statement: String, engine: Engine) { #expect(Fixture.told(statement, for: engine).hasPrefix("no: ")) }

  @Test func `rows that repeat many defaults are too long in PostgreSQL`() {
    let columns = (1...1500).map { TableSchema.Column(name: "c\($0)", declaredType: "TEXT", defaultText: "'\($0)'") }
    let wide = TableSchema(
      epoch: 1, engine: .sqlite, name: "wide",
      columns: [.init(name: "id", declaredType: "TEXT", isNotNull: true, keyOrdinal: 1)] + columns)
    let side = StatementTable.PostgresSide(
      name: "wide", rowsName: "ONLY wide",
      columns: wide.columns.map { (name: $0.name, type: PostgresType($0)) })
    for (count, isTooLong) in [(10, false), (12_000, true)] {
      let text = "INSERT INTO wide(id) VALUES " + Array(repeating: "(?)", count: count).joined(separator: ",")
      let statement = ExecutedStatement(dialect: .sqlite, text: text, parameters: [], rowsAffected: 1, now: nil)
      let judged = Replayable.judge(statement, for: .postgres) { _ in
        StatementTable(wide, isGuarded: true, postgres: side)
      }
      if case .no(let reason) = judged { #expect(isTooLong, "\(reason)") } else { #expect(!isTooLong) }
    }
  }

  /// Two rows may have NULL as their key, so the rows after an UPDATE do not show which of them it changed.
  @Test func `a change of rows whose key may be NULL goes as rows`() {
    for engine in [Engine.sqlite, .postgres] {
      #expect(Fixture.told("UPDATE loose SET note = 'z'", for: engine).hasPrefix("no: it changes rows"))
      #expect(!Fixture.told("DELETE FROM loose WHERE note = 'a'", for: engine).hasPrefix("no: "))
    }
  }

  @Test(arguments: ["id IS TRUE", "id IS NOT (FALSE)", "id IS NOT DISTINCT FROM TRUE"])
  func `a test for TRUE is no comparison with 1, and goes as rows`(condition: String) {
    for engine in [Engine.sqlite, .postgres] {
      #expect(Fixture.told("UPDATE item SET name = 'z' WHERE \(condition)", for: engine).hasPrefix("no: IS TRUE"))
    }
  }

  @Test func `a list after IN is short in PostgreSQL, whose planner takes memory for each value and index`() {
    #expect(
      Fixture.told("DELETE FROM item WHERE id IN (\(Self.list(1001)))", for: .postgres).hasPrefix("no: it has more"))
    #expect(!Fixture.told("DELETE FROM item WHERE id IN (\(Self.list(1000)))", for: .postgres).hasPrefix("no: "))
    #expect(!Fixture.told("DELETE FROM item WHERE id IN (\(Self.list(20_000)))", for: .sqlite).hasPrefix("no: "))
  }

  @Test func `a list after IN has no affinity`() {
    #expect(Fixture.told("UPDATE item SET name = 'z' WHERE '10' IN (id)", for: .postgres).hasPrefix("no: "))
    #expect(!Fixture.told("UPDATE item SET name = 'z' WHERE id IN ('10')", for: .postgres).hasPrefix("no: "))
    #expect(!Fixture.told("UPDATE item SET name = 'z' WHERE 10 IN (id, stock)", for: .postgres).hasPrefix("no: "))
  }

  @Test func `a reason is short, whatever name it has`() {
    let told = Fixture.told("UPDATE \"" + String(repeating: "\u{1}", count: 900_000) + "\" SET v = 1", for: .sqlite)
    #expect(told.hasPrefix("no: ") && told.utf8.count < 400)
  }

  /// SQLite reads a blob as a text, and a text up to its first NUL.
  @Test(arguments: [Value.text("NOW"), .text("now\0x"), .blob(Array("Now".utf8)), .text("now\0")])
  func `now is the time of the statement, however it is written`(now: Value) {
    let told = Fixture.told("UPDATE item SET name = date(?)", [now], for: .sqlite)
    #expect(told == "UPDATE item SET name = date('2026-11-22 14:30:05.250')")
  }

  @Test func `a time that is now by another word, or in another zone, goes as rows`() {
    let refused = "no: date() has a time that comes from a column, or depends on the time zone"
    for word in ["localtime", "UTC", "now"] {
      for value in [Value.text(word), .text(word + "\0x"), .blob(Array(word.utf8)), .exact(Array(word.utf8))] {
        #expect(Fixture.told("UPDATE item SET name = date('now', ?)", [value], for: .sqlite) == refused)
      }
    }
    #expect(Fixture.told("UPDATE item SET name = date('subsec')", for: .sqlite) == refused)
    #expect(!Fixture.told("UPDATE item SET name = date('now', 'subsec')", for: .sqlite).hasPrefix("no: "))
  }

  /// The digest has the rows that a statement leaves, and not what a program at the target wrote before.
  @Test(
    "a statement that changes rows goes as rows where programs may write",
    arguments: [
      ("UPDATE item SET stock = 5 WHERE id = 2", true), ("DELETE FROM item WHERE id = 2", false),
      ("INSERT INTO item(id, name) VALUES (7, 'a')", false), ("INSERT OR IGNORE INTO item(id) VALUES (7)", false),
      ("INSERT INTO item(id) VALUES (7) ON CONFLICT(id) DO NOTHING", false),
      ("INSERT INTO item(id, name) VALUES (7, 'a') ON CONFLICT(id) DO UPDATE SET name = 'b'", true),
      ("REPLACE INTO item(id, name) VALUES (7, 'a')", true),
      ("INSERT OR REPLACE INTO item(id, name) VALUES (7, 'a')", true),
    ], [Engine.sqlite, .postgres])
  func overwrites(_ statement: (sql: String, isRefused: Bool), engine: Engine) {
    let told = Fixture.told(statement.sql, for: engine, isGuarded: false)
    #expect(told.hasPrefix("no: it changes rows that programs") == statement.isRefused, "\(told)")
  }

  @Test func `a byte order mark in a text stays one`() {
    #expect(!Fixture.told("UPDATE item SET name = '\u{FEFF}a'", for: .postgres).hasPrefix("no: "))
  }
}
