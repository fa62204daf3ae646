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

  @Test func `a byte order mark in a text stays one`() {
    #expect(!Fixture.told("UPDATE item SET name = '\u{FEFF}a'", for: .postgres).hasPrefix("no: "))
  }
}
