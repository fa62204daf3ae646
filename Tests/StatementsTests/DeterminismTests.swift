import Changes
import Testing

@testable import Statements

struct DeterminismTests {
  @Test(arguments: [
    ("UPDATE item SET stock = random()", "random() gives another value each time"),
    ("UPDATE item SET stock = changes()", "changes() depends on what the connection did before"),
    ("UPDATE item SET stock = last_insert_rowid()", "last_insert_rowid() depends on what the connection did before"),
    ("UPDATE item SET stock = my_function(stock)", "my_function() is not known to depend on its arguments alone"),
    ("UPDATE item SET stock = 1 WHERE rowid = 4", "it uses the rowid, which may be another at the target"),
    ("UPDATE item SET name = \"word\"", "word is no column that is replicated"),
    ("DELETE FROM item LIMIT 3", "LIMIT takes some rows of many"),
    ("DELETE FROM item WHERE name IN (SELECT note FROM sale)", "it has a query, or a FROM clause"),
    ("DELETE FROM item WHERE id IN (VALUES (1), (2))", "it has a query, or a FROM clause"),
    ("UPDATE item SET stock = (SELECT number FROM sale WHERE shop = 1)", "it has a query, or a FROM clause"),
    ("UPDATE item SET stock = 1 WHERE EXISTS (SELECT 1 FROM sale)", "it has a query, or a FROM clause"),
    ("UPDATE item SET stock = 1 WHERE NOT (EXISTS (VALUES (1)))", "it has a query, or a FROM clause"),
    ("UPDATE item SET stock = number FROM sale WHERE sale.item = item.id", "it has a query, or a FROM clause"),
    ("INSERT INTO item(name) SELECT note FROM sale", "it has a query, or a FROM clause"),
    ("INSERT INTO item(id, name) WITH o AS (VALUES (1)) SELECT 1, 'a' FROM o", "it has a query, or a FROM clause"),
    ("WITH old AS (SELECT item FROM sale) DELETE FROM item", "it has a query, or a FROM clause"),
    ("UPDATE item SET stock = count(*)", "'*' is not understood at this place"),
    ("UPDATE item SET stock = sum(id)", "sum() is not known to depend on its arguments alone"),
    ("UPDATE item SET stock = max(id)", "max() is not known to depend on its arguments alone"),
    ("INSERT INTO person(mail) VALUES ('x')", "AUTOINCREMENT may be further at the source"),
    ("INSERT INTO sale(shop, number) VALUES (1, 2)", "the default of column at is not a constant"),
    (
      "INSERT OR IGNORE INTO person VALUES (1, 'x')",
      "table person has several keys, or none, by which rows may be in conflict"
    ),
    ("INSERT OR FAIL INTO item(id) VALUES (1)", "OR FAIL may leave it partly done"),
    ("INSERT OR ROLLBACK INTO item(id) VALUES (1)", "OR ROLLBACK may leave it partly done"),
    ("UPDATE OR IGNORE item SET id = 3", "which rows an UPDATE OR IGNORE leaves depends on their order"),
    ("INSERT INTO item DEFAULT VALUES", "DEFAULT VALUES has the target's defaults"),
    ("DELETE FROM other", "table other is not one that the target has as it is"),
    ("DELETE FROM temp.item", "it names a database other than main"),
    ("UPDATE item SET stock = stock + 1, stock = 3", "it sets column stock twice"),
    (
      "UPDATE item SET made = datetime('now', 'localtime')",
      "datetime() has a time that comes from a column, or depends on the time zone"
    ),
    (
      "UPDATE item SET made = datetime(name)",
      "datetime() has a time that comes from a column, or depends on the time zone"
    ),
    ("CREATE TABLE x(a)", "it changes the schema, which goes by its own record"),
    ("SELECT 1", "it is no INSERT, UPDATE or DELETE"),
    ("DELETE FROM item; DELETE FROM sale", "DELETE is not understood at this place"),
    ("DELETE FROM item WHERE name MATCH 'x'", "MATCH and REGEXP are functions of the program"),
    ("UPDATE item SET name = name COLLATE mine", "collation mine is one of the program"),
  ])
  func `a statement that may do something else elsewhere is refused`(_ sql: String, _ reason: String) {
    for engine in [Engine.sqlite, .postgres] {
      #expect(Fixture.told(sql, for: engine) == "no: \(reason)")
    }
  }

  @Test(arguments: [
    ("UPDATE item SET stock = stock + 1 WHERE id > 5", "UPDATE item SET stock = stock + 1 WHERE id > 5"),
    ("DELETE FROM main.[Item] AS i WHERE i.id > 4;", "DELETE FROM main.[Item] AS i WHERE i.id > 4"),
    ("UPDATE item SET stock = ?, name = :n WHERE id = ? -- c", "UPDATE item SET stock = ?1, name = ?2 WHERE id = ?3"),
    (
      "UPDATE item SET made = CURRENT_TIMESTAMP RETURNING id, name AS n", "UPDATE item SET made = '2026-11-22 14:30:05'"
    ),
    (
      "UPDATE item SET made = datetime('NOW', '+1 day')",
      "UPDATE item SET made = datetime('2026-11-22 14:30:05.250', '+1 day')"
    ),
    (
      "UPDATE item SET name = strftime('%Y', 'now')", "UPDATE item SET name = strftime('%Y', '2026-11-22 14:30:05.250')"
    ),
    ("INSERT INTO item(name) VALUES ('a'), ('b')", "INSERT INTO item(name) VALUES ('a'), ('b')"),
    ("REPLACE INTO item(id, name) VALUES (1, 'a')", "no: it may replace rows that SQLite does not report"),
    (
      "INSERT OR IGNORE INTO item(id, name) VALUES (1, 'a'), (1, 'b')",
      "INSERT OR IGNORE INTO item(id, name) VALUES (1, 'a'), (1, 'b')"
    ),
    (
      "INSERT INTO item(id, stock) VALUES (1, 2) ON CONFLICT(id) DO UPDATE SET stock = stock + excluded.stock WHERE item.stock > 0",
      "INSERT INTO item(id, stock) VALUES (1, 2) ON CONFLICT(id) DO UPDATE SET stock = stock + excluded.stock WHERE item.stock > 0"
    ),
  ])
  func `a statement that does the same everywhere is replayed in SQLite`(_ sql: String, _ replayed: String) {
    #expect(Fixture.told(sql, for: .sqlite) == replayed)
  }

  @Test func `a time that is not known is refused`() {
    let sql = "UPDATE item SET made = CURRENT_TIMESTAMP"
    #expect(
      Fixture.told(sql, for: .sqlite, now: nil) == "no: it uses the time, and the source did not record it")
  }

  @Test func `a time that a parameter asks for is the statement's, and the others keep their numbers`() {
    let told = Fixture.told(
      "UPDATE item SET made = date(?), stock = ?", [.text("now"), .integer(4)], for: .sqlite)
    #expect(told == "UPDATE item SET made = date('2026-11-22 14:30:05.250'), stock = ?2")
  }

  @Test func `the rows come back in the order of the source's columns`() throws {
    guard case .yes(let plan) = Fixture.judge("DELETE FROM sale WHERE shop = 1 RETURNING note", for: .sqlite) else {
      Issue.record("refused")
      return
    }
    #expect(plan.sql.hasSuffix("WHERE shop = 1"))
    #expect(plan.returning == " RETURNING \"shop\", \"number\", \"item\", \"note\", \"at\"")
    #expect(plan.deletes && plan.table == "sale")
  }

  @Test(
    arguments: [
      (0, "1970-01-01", "00:00:00", "000"), (-1, "1969-12-31", "23:59:59", "999"),
      (951_782_399_999_999, "2000-02-28", "23:59:59", "999"), (951_868_799_000_000, "2000-02-29", "23:59:59", "000"),
      (Fixture.now, "2026-11-22", "14:30:05", "250"),
    ] as [(Int64, String, String, String)])
  func `moments are printed as SQLite prints them`(_ now: Int64, _ date: String, _ time: String, _ rest: String) {
    let text = ClockText(microseconds: now)
    #expect([text.date, text.time, text.milliseconds] == [date, time, rest])
  }
}
