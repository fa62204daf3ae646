import Changes
import Testing

@testable import Statements

struct TranslationTests {
  private static let head = "UPDATE ONLY \"public\".\"item\" AS \"item\" SET "

  @Test(arguments: [
    ("stock = stock + 1", "\"stock\" = ((\"item\".\"stock\")::bigint + (1)::bigint)"),
    (
      "stock = stock / 2 % ?1",
      "\"stock\" = ((((\"item\".\"stock\")::bigint / NULLIF((2)::bigint, 0)))::bigint % NULLIF((7)::bigint, 0))"
    ),
    ("stock = '12'", "\"stock\" = '12'::bigint"),
    ("stock = 3.0", "\"stock\" = '3'::bigint"),
    ("stock = name = 'a'", "\"stock\" = ((\"item\".\"name\" = 'a'::text))::int"),
    ("stock = NULL", "\"stock\" = NULL::bigint"),
    ("name = 'it''s ' || stock", "\"name\" = ('it''s '::text || (\"item\".\"stock\")::text)"),
    ("name = 5", "\"name\" = '5'::text"),
    ("name = substr(name, 1, 3)", "\"name\" = substr(\"item\".\"name\", 1, 3)"),
    (
      "name = upper(name)",
      "\"name\" = translate(\"item\".\"name\", 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"
    ),
    ("weight = weight * 1.5", "\"weight\" = ((\"item\".\"weight\")::float8 * ('1.5'::float8)::float8)"),
    ("weight = weight / 0", "\"weight\" = ((\"item\".\"weight\")::float8 / NULLIF(((0)::bigint)::float8, 0))"),
    ("weight = stock", "\"weight\" = (\"item\".\"stock\")::float8"),
    ("price = 3.5", "\"price\" = '3.5'::numeric(10,2)"),
    ("price = price * 1.5", "\"price\" = (((\"item\".\"price\")::float8 * ('1.5'::float8)::float8))::text::numeric"),
    ("sold = 1", "\"sold\" = 't'::boolean"),
    ("sold = NOT sold", "\"sold\" = (NOT \"item\".\"sold\")"),
    ("made = datetime('now')", "\"made\" = '2026-11-22 14:30:05'::timestamp without time zone"),
    ("made = CURRENT_TIMESTAMP", "\"made\" = '2026-11-22 14:30:05'::timestamp without time zone"),
    ("photo = x'00ff'", "\"photo\" = E'\\\\x00ff'::bytea"),
    (
      "stock = CASE WHEN sold THEN 1 WHEN stock THEN 2 END",
      "\"stock\" = (CASE WHEN \"item\".\"sold\" THEN (1)::bigint WHEN (\"item\".\"stock\" <> 0) THEN (2)::bigint ELSE NULL END)"
    ),
    ("stock = coalesce(stock, 0)", "\"stock\" = coalesce((\"item\".\"stock\")::bigint, (0)::bigint)"),
    ("name = typeof(weight)", "\"name\" = (CASE WHEN \"item\".\"weight\" IS NULL THEN 'null' ELSE 'real' END)"),
  ])
  func `an assignment is translated`(_ set: String, _ translated: String) {
    #expect(Fixture.told("UPDATE item SET \(set)", [.integer(7)], for: .postgres) == Self.head + translated)
  }

  @Test(arguments: [
    ("id == 5", "(\"item\".\"id\" = (5)::bigint)"), ("id = '5'", "(\"item\".\"id\" = (5)::bigint)"),
    ("name = 5", "(\"item\".\"name\" = '5'::text)"), ("name < 'b'", "(\"item\".\"name\" < 'b'::text COLLATE \"C\")"),
    ("stock > 2.5", "(\"item\".\"stock\" > '2.5'::numeric)"), ("weight > 2", "(\"item\".\"weight\" > (2)::float8)"),
    ("price > 2.5", "(\"item\".\"price\" > '2.5'::numeric)"), ("name IS NULL", "(\"item\".\"name\" IS NULL)"),
    ("name IS NOT 'a'", "(\"item\".\"name\" IS DISTINCT FROM 'a'::text)"), ("sold = 1", "(\"item\".\"sold\" = true)"),
    ("sold", "\"item\".\"sold\""), ("stock", "(\"item\".\"stock\" <> 0)"),
    ("made IS NULL", "(\"item\".\"made\" IS NULL)"),
    (
      "id IN (1, 2)", "(((\"item\".\"id\" = (1)::bigint) OR (\"item\".\"id\" = (2)::bigint)))"
    ),
    (
      "stock NOT BETWEEN 1 AND 3",
      "(NOT ((\"item\".\"stock\" >= (1)::bigint) AND (\"item\".\"stock\" <= (3)::bigint)))"
    ),
    (
      "name LIKE 'A%'",
      "(\(PostgresTranslator.lower("\"item\".\"name\"")) LIKE \(PostgresTranslator.lower("'A%'::text")) ESCAPE '')"
    ),
  ])
  func `a condition is translated`(_ condition: String, _ translated: String) {
    let told = Fixture.told("DELETE FROM item WHERE \(condition)", [.text("x")], for: .postgres)
    #expect(told == "DELETE FROM ONLY \"public\".\"item\" AS \"item\" WHERE \(translated)")
  }

  @Test(arguments: [
    "x'); DROP TABLE canary; --", "'\u{301}; DROP TABLE canary; --", #"\'; DROP TABLE canary; --\"#,
    #"E'\047; DROP TABLE canary; --"#, "$1 $2 $$", String(repeating: "DROP '", count: 40_000),
  ])
  func `texts of a statement are bound, never a part of it`(_ hostile: String) throws {
    let printed = "'\(hostile.replacing("'", with: "''"))'"
    let blob = "x'\(Array(hostile.utf8.prefix(1000)).hex)'"
    let texts = hostile.utf8.allSatisfy { $0 < 0x80 } ? ["?1", printed] : ["?1"]
    for text in texts {
      let set = "name = \(text) || 'it''s', photo = \(blob), stock = 4711"
      let told = Fixture.judge(
        "UPDATE item SET \(set) WHERE name < \(text) AND name IS NOT \(text)", [.text(Array(hostile.utf8))],
        for: .postgres)
      guard case .yes(let plan) = told else {
        Issue.record("not translated: \(told)")
        return
      }
      for part in ["DROP", "'", "\\", "47;"] { #expect(!plan.sql.contains(part)) }
      #expect(plan.sql.contains("\"name\" < $1::text"))
      #expect(plan.parameters.count { $0 == .text(Array(hostile.utf8)) } == 1)
    }
  }

  @Test func `a text with NUL, or more values than PostgreSQL binds, is refused`() {
    let refused = "no: it has a text that PostgreSQL does not take"
    #expect(Fixture.told("UPDATE item SET name = ?", [.text("a\0b")], for: .postgres) == refused)
    #expect(Fixture.told("DELETE FROM item WHERE name = ?", [.text([0xff])], for: .postgres) == refused)
    func rows(_ count: Int) -> String {
      let calls = stride(from: 1, through: count, by: 100).map { first in
        "coalesce(" + (first..<first + 100).map { "'\($0)'" }.joined(separator: ",") + ")"
      }
      return "DELETE FROM item WHERE name IN (\(calls.joined(separator: ",")))"
    }
    guard case .yes(let plan) = Fixture.judge(rows(20_000), for: .postgres) else {
      Issue.record("not translated")
      return
    }
    #expect(plan.parameters.count == 20_000)
    #expect(Fixture.told(rows(65_536), for: .postgres) == "no: it has more than 50000 words and signs")
  }

  @Test(arguments: [
    "SET name = weight", "SET name = name || weight", "SET stock = weight", "SET stock = 'many'", "SET sold = 2",
    "SET stock = stock WHERE weight = stock", "SET stock = stock << 1", "SET price = price / 2",
    "SET code = upper(code)",
    "SET stock = 1 WHERE code = 'a'", "SET stock = 1 WHERE made < '2026'", "SET weight = round(weight, 2)",
    "SET name = name WHERE name GLOB 'a*'", "SET stock = 1 WHERE stock + 0 = '5'", "SET name = substr(name, -2)",
    "SET made = 'soon'", "SET stock = 9.5", "SET name = date('now', '+1 day')",
    "SET name = 'a' COLLATE NOCASE", "SET stock = CAST(name AS INTEGER)",
  ])
  func `an expression that may be another value in PostgreSQL is refused there alone`(_ sql: String) {
    #expect(Fixture.told("UPDATE item \(sql)", for: .postgres).hasPrefix("no: "))
    #expect(!Fixture.told("UPDATE item \(sql)", for: .sqlite).hasPrefix("no: "))
  }

  @Test(arguments: [
    (
      "INSERT INTO item(id, name) VALUES (1, ?)",
      "INSERT INTO \"public\".\"item\" AS \"item\"(\"id\", \"name\", \"stock\", \"weight\", \"price\", \"sold\", \"made\", \"code\", \"photo\") VALUES ('1'::bigint, 'x'::text, '0'::bigint, NULL::double precision, NULL::numeric(10,2), 'f'::boolean, NULL::timestamp without time zone, NULL::text, NULL::bytea)"
    ),
    ("INSERT INTO item(name) VALUES ('a')", "no: the number of a row is drawn by the database"),
    (
      "INSERT OR REPLACE INTO sale VALUES (1, 2, NULL, 'n', 't')",
      "INSERT INTO \"public\".\"sale\" AS \"sale\"(\"shop\", \"number\", \"item\", \"note\", \"at\") VALUES ('1'::bigint, '2'::bigint, NULL::bigint, 'n'::text, 't'::text) ON CONFLICT (\"shop\", \"number\") DO UPDATE SET \"shop\" = excluded.\"shop\", \"number\" = excluded.\"number\", \"item\" = excluded.\"item\", \"note\" = excluded.\"note\", \"at\" = excluded.\"at\""
    ),
    (
      "INSERT INTO sale(shop, number, at) VALUES (1, 2, '') ON CONFLICT(number, shop) DO UPDATE SET item = item + 1 WHERE note IS NULL",
      "INSERT INTO \"public\".\"sale\" AS \"sale\"(\"shop\", \"number\", \"at\", \"item\", \"note\") VALUES ('1'::bigint, '2'::bigint, ''::text, NULL::bigint, NULL::text) ON CONFLICT (\"number\", \"shop\") DO UPDATE SET \"item\" = ((\"sale\".\"item\")::bigint + (1)::bigint) WHERE (\"sale\".\"note\" IS NULL)"
    ),
  ])
  func `a statement is translated`(_ sql: String, _ translated: String) {
    #expect(Fixture.told(sql, [.text("x")], for: .postgres) == translated)
  }
}
