import Changes
import Mapping
import Testing

struct CanonicalColumnTests {
  private func form(_ column: CanonicalColumn, _ value: Value, _ side: CanonicalColumn.Side) -> [UInt8] {
    var bytes = ByteWriter()
    var scratch = ByteWriter()
    value.withView { column.append($0, of: side, to: &bytes, scratch: &scratch) }
    return Array(bytes.bytes)
  }

  private func areEqual(_ column: CanonicalColumn, _ source: Value, _ target: Value) -> Bool {
    form(column, source, .source) == form(column, target, .target)
  }

  private static func exact(_ text: String) -> Value { .exact(Array(text.utf8)) }

  // MARK: SQLite to SQLite

  private static let kinds: [Value] = [
    .null, .integer(0), .integer(1), .real(0), .real(-0.0), .real(1), .text(""), .text("1"), .text("1 "), .text("a"),
    .text("A"), .blob([]), .blob([0x31]), .blob([0x61]),
  ]

  @Test func `between two SQLite files only the same class and bytes are equal`() {
    let column = CanonicalColumn(.init(name: "a"), of: .sqlite, to: .init(name: "a"), of: .sqlite)
    for (i, one) in Self.kinds.enumerated() {
      for (j, other) in Self.kinds.enumerated() { #expect(areEqual(column, one, other) == (i == j), "\(one) \(other)") }
    }
  }

  // MARK: PostgreSQL to SQLite

  @Test(arguments: [
    ("integer", "INTEGER", "7", Value.integer(7), true), ("integer", "INTEGER", "7", .text("7"), false),
    ("integer", "INTEGER", "7", .real(7), false), ("boolean", "INTEGER", "t", .integer(1), true),
    ("boolean", "INTEGER", "f", .integer(1), false), ("boolean", "INTEGER", "f", .null, false),
    ("numeric(10,2)", "TEXT", "1.10", .text("1.10"), true), ("numeric(10,2)", "TEXT", "1.10", .text("1.1"), true),
    ("numeric", "TEXT", "1.10", .text("1.11"), false), ("numeric", "TEXT", "100", .text("1e2"), true),
    ("numeric", "TEXT", "-0.5", .text("0.5"), false), ("numeric", "TEXT", "10", .text("1"), false),
    ("numeric(5,1)", "DECIMAL(5,1)", "1.5", .real(1.5), true), ("numeric", "TEXT", "NaN", .text("NaN"), true),
    ("double precision", "", "-0", .real(-0.0), true), ("double precision", "", "-0", .real(0), false),
    ("double precision", "REAL", "-0", .real(0), true), ("double precision", "", "NaN", .text("NaN"), true),
    ("double precision", "", "0.1", .real(0.1), true), ("double precision", "", "0.1", .real(0.1.nextUp), false),
    ("real", "", "0.1", .real(Double(Float(0.1))), true), ("real", "", "0.1", .real(0.1), false),
    ("text", "TEXT", "a", .text("a"), true), ("text", "TEXT", "a", .text("a "), false),
    ("text", "TEXT", "", .null, false), ("text", "TEXT", "a", .blob([0x61]), false),
    ("bytea", "BLOB", "\\x00ff", .blob([0, 255]), true), ("bytea", "BLOB", "\\x00ff", .blob([0, 254]), false),
    ("timestamp with time zone", "TEXT", "2024-05-31 09:30:00.5+00", .text("2024-05-31T09:30:00.500Z"), true),
    ("timestamp with time zone", "TEXT", "2024-05-31 09:30:00+00", .text("2024-05-31 11:30:00+02"), true),
    ("timestamp with time zone", "TEXT", "2024-05-31 09:30:00+00", .text("2024-05-31 09:30:00.000001+00"), false),
    ("timestamp without time zone", "TEXT", "infinity", .text("infinity"), true),
    ("timestamp without time zone", "TEXT", "2024-05-31 00:00:00", .text("2024-05-31"), true),
    ("timestamp without time zone", "TEXT", "0044-03-15 10:00:00 BC", .text("0044-03-15 10:00:00"), false),
    ("timestamp without time zone", "TEXT", "2024-05-31 09:30:00", .text("2024-05-31093000"), false),
    ("character(3)", "TEXT", "a  ", .text("a  "), true), ("character(3)", "TEXT", "a  ", .text("a"), true),
  ])
  func `a value of PostgreSQL in SQLite is equal in class and meaning`(
    type: String, declared: String, source: String, target: Value, equal: Bool
  ) {
    let column = CanonicalColumn(
      .init(name: "a", declaredType: type), of: .postgres, to: .init(name: "a", declaredType: declared), of: .sqlite)
    #expect(areEqual(column, Self.exact(source), target) == equal)
  }

  // MARK: SQLite to PostgreSQL

  @Test(arguments: [
    ("INTEGER", "bigint", Value.integer(7), "7", true), ("INTEGER", "bigint", .text("7"), "7", true),
    ("INTEGER", "bigint", .text("x"), "7", false), ("BOOLEAN", "boolean", .integer(1), "t", true),
    ("BOOLEAN", "boolean", .text("false"), "f", true), ("BOOLEAN", "boolean", .integer(1), "f", false),
    ("DECIMAL(10,2)", "numeric(10,2)", .real(1.1), "1.10", true),
    ("DECIMAL(10,2)", "numeric(10,2)", .integer(1), "1.00", true),
    ("NUMERIC", "numeric", .real(1e20), "100000000000000000000", true),
    ("NUMERIC", "numeric", .text("2.50"), "2.5", true), ("NUMERIC", "numeric", .integer(1), "1.01", false),
    ("DATETIME", "timestamp without time zone", .text("2024-05-31T09:30:00Z"), "2024-05-31 09:30:00", true),
    ("DATETIME", "timestamp without time zone", .text("2024-05-31"), "2024-05-31 00:00:00", true),
    ("DATETIME", "timestamp without time zone", .text("2024-05-31 09:30:00.000001"), "2024-05-31 09:30:00", false),
    ("TIMESTAMPTZ", "timestamp with time zone", .text("2024-01-01 01:00:00+05:30"), "2023-12-31 19:30:00+00", true),
    ("TIMESTAMPTZ", "timestamp with time zone", .text("2024-02-28 23:30:00-01"), "2024-02-29 00:30:00+00", true),
    ("TIME", "time without time zone", .text("09:30"), "09:30:00", true),
    ("REAL", "double precision", .real(-0.0), "-0", true),
    ("REAL", "double precision", .real(-0.0), "0", false), ("REAL", "double precision", .integer(5), "5", true),
    ("", "text", .integer(5), "5", true), ("", "text", .text("5"), "5", true), ("", "text", .real(1), "1.0", true),
    ("TEXT", "text", .text("a "), "a", false), ("TEXT", "text", .text(""), "", true),
    ("TEXT", "character(3)", .text("a"), "a  ", true),
    ("BLOB", "bytea", .blob([1]), "\\x01", true), ("BLOB", "bytea", .blob([1]), "\\x02", false),
    ("TEXT", "text", .blob([0x61]), "a", false),
  ])
  func `a value of SQLite in PostgreSQL is equal to it`(
    declared: String, type: String, source: Value, target: String, equal: Bool
  ) {
    let column = CanonicalColumn(
      .init(name: "a", declaredType: declared), of: .sqlite, to: .init(name: "a", declaredType: type), of: .postgres)
    #expect(areEqual(column, source, Self.exact(target)) == equal)
    #expect(!areEqual(column, source, .null))
    #expect(!areEqual(column, .null, Self.exact(target)))
  }

  @Test func `a key is found again from what the target has`() {
    let column = CanonicalColumn(
      .init(name: "a", declaredType: "INTEGER"), of: .sqlite, to: .init(name: "a", declaredType: "bigint"),
      of: .postgres)
    #expect(column.sourceValues(Self.exact("12")).contains(.integer(12)))
    let back = CanonicalColumn(
      .init(name: "a", declaredType: "integer"), of: .postgres, to: .init(name: "a", declaredType: "INTEGER"),
      of: .sqlite)
    #expect(back.sourceValues(.integer(12)) == [Self.exact("12")])
    #expect(back.sourceValues(.text("x")).isEmpty)
  }
}
