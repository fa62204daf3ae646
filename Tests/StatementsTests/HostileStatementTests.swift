import Changes
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

  @Test(.timeLimit(.minutes(1)), arguments: [nested, cases])
  func `a translation that doubles with each level ends`(statement: String) {
    #expect(Fixture.told(statement, for: .postgres).hasPrefix("no: "))
  }

  private static let many = Array(repeating: "item", count: 20).enumerated().map { "\($1) a\($0)" }

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
      "DELETE FROM item WHERE stock IN (SELECT a0.stock FROM \(many.joined(separator: ", ")))",
      "DELETE FROM item WHERE id IN (SELECT coalesce(\(Array(repeating: "z.id", count: 10_000).joined(separator: ","))) FROM item z)",
    ], [Engine.sqlite, .postgres])
  func grows(statement: String, engine: Engine) { #expect(Fixture.told(statement, for: engine).hasPrefix("no: ")) }

  @Test func `a reason is short, whatever name it has`() {
    let told = Fixture.told("UPDATE \"" + String(repeating: "\u{1}", count: 900_000) + "\" SET v = 1", for: .sqlite)
    #expect(told.hasPrefix("no: ") && told.utf8.count < 400)
  }

  @Test func `a byte order mark in a text stays one`() {
    #expect(!Fixture.told("UPDATE item SET name = '\u{FEFF}a'", for: .postgres).hasPrefix("no: "))
  }
}
