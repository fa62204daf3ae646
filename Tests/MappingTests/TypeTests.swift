import Changes
import Mapping
import Testing

/// The type that each type is mapped to.
@Suite struct TypeTests {
  @Test(arguments: [
    ("INTEGER", "bigint"), ("int", "bigint"), ("BIGINT UNSIGNED", "bigint"), ("tinyint(1)", "bigint"),
    ("BOOLEAN", "boolean"), ("bool", "boolean"), ("DATETIME", "timestamp without time zone"),
    ("TIMESTAMP", "timestamp without time zone"), ("TIMESTAMPTZ", "timestamp with time zone"),
    ("timestamp with time zone", "timestamp with time zone"),
    ("TIMESTAMP WITHOUT TIME ZONE", "timestamp without time zone"),
    ("DATE", "date"), ("TIME", "time without time zone"), ("DECIMAL(10,2)", "numeric(10,2)"),
    ("NUMERIC(10, 2)", "numeric(10,2)"), ("DECIMAL(8)", "numeric(8,0)"), ("NUMERIC", "numeric"),
    ("DECIMAL(2000,2)", "numeric"), ("VARCHAR(20)", "character varying(20)"),
    ("NVARCHAR(160)", "character varying(160)"),
    ("CHAR(3)", "character varying(3)"), ("CHARACTER VARYING(9)", "character varying(9)"), ("VARCHAR", "text"),
    ("VARCHAR(MAX)", "text"), ("TEXT", "text"), ("CLOB", "text"), ("TEXT(20)", "text"), ("BLOB", "bytea"),
    ("VARBINARY(16)", "bytea"), ("REAL", "double precision"), ("FLOAT", "double precision"),
    ("DOUBLE PRECISION", "double precision"), ("JSON", "json"), ("UUID", "uuid"), ("", "text"), ("ANY", "text"),
    ("INTERVAL", "text"), ("POINT", "text"), ("whatever", "text"), ("MONEY", "numeric"),
  ])
  func `a declaration of SQLite means a type`(declared: String, name: String) {
    #expect(PostgresType(declaration: declared).name == name)
  }

  @Test(arguments: [
    ("smallint", "", "INTEGER"), ("bigint", "", "INTEGER"), ("oid", "", "INTEGER"), ("boolean", "", "INTEGER"),
    ("real", "", ""), ("double precision", "", ""), ("bytea", "", "BLOB"), ("numeric(10,2)", "", "TEXT"),
    ("timestamp(3) with time zone", "", "TEXT"), ("jsonb", "", "TEXT"), ("integer[]", "", "TEXT"),
    ("public.mood", "enum", "TEXT"), ("public.pair", "record", "TEXT"), ("public.count", "integer", "INTEGER"),
    ("public.blob", "bytea", "BLOB"), ("public.ratio", "double precision", ""), ("public.count[]", "integer", "TEXT"),
    ("public.counts", "integer[]", "TEXT"), ("\"char\"", "", "TEXT"),
  ])
  func `a type of PostgreSQL is kept under an affinity`(name: String, base: String, declared: String) {
    let column = TableSchema.Column(name: "c", declaredType: name, baseType: base)
    #expect(SQLiteValue(from: column).declaredType == declared)
  }

  @Test func `the text of format_type is taken apart`() {
    #expect(PostgresType("numeric(10,2)").kind == .numeric(.init(precision: 10, scale: 2)))
    #expect(PostgresType("numeric(3,-2)").kind == .numeric(.init(precision: 3, scale: -2)))
    #expect(PostgresType("numeric").kind == .numeric(nil))
    #expect(PostgresType("timestamp(0) without time zone").kind == .timestamp(0))
    #expect(PostgresType("timestamp with time zone").kind == .timestamptz(6))
    #expect(PostgresType("time(3) with time zone").kind == .timetz(3))
    #expect(PostgresType("interval day to second(3)").kind == .interval(3))
    #expect(PostgresType("bit varying(5)").kind == .varbit(5))
    #expect(PostgresType("public.money", base: "numeric(10,2)").kind == .numeric(.init(precision: 10, scale: 2)))
    #expect(PostgresType("public.money", base: "numeric(10,2)").isDomain)
    #expect(!PostgresType("public.mood", base: "enum").isDomain)
  }
}

/// Which value of SQLite has a place in which type of PostgreSQL.
@Suite struct FitTests {
  private func text(_ value: Value, _ declared: String, _ type: String) -> Result<String, Misfit> {
    let column = TableSchema.Column(name: "v", declaredType: declared)
    let converter = PostgresText(from: column, of: .sqlite, to: PostgresType(type))
    var out = ByteWriter(capacity: 16)
    return value.withView { view in
      Result { () throws(Misfit) in
        try converter.append(view, to: &out)
        return String(decoding: out.bytes, as: UTF8.self)
      }
    }
  }

  @Test(
    arguments: [
      ("boolean", .integer(1), "t"), ("boolean", .integer(0), "f"), ("boolean", .text("true"), "true"),
      ("bigint", .integer(.min), "-9223372036854775808"), ("bigint", .integer(7), "7"),
      ("smallint", .integer(-32768), "-32768"),
      ("bigint", .text("12"), "12"), ("numeric", .integer(100), "100"), ("numeric(3,1)", .integer(99), "99"),
      ("numeric(10,2)", .real(0.99), "0.99"), ("numeric(10,2)", .text("1.10"), "1.10"),
      ("numeric(5,0)", .text("1.000"), "1.000"),
      ("numeric", .text("-0.5"), "-0.5"), ("numeric", .text("NaN"), "NaN"),
      ("numeric", .text("-Infinity"), "-Infinity"),
      ("numeric", .real(1e300), "1e+300"), ("numeric", .real(.infinity), "Infinity"),
      ("numeric(3,5)", .real(0.00999), "0.00999"),
      ("double precision", .integer(1 << 53), "9007199254740992"), ("double precision", .real(-0.0), "-0"),
      ("double precision", .real(.infinity), "Infinity"), ("double precision", .text("NaN"), "NaN"),
      ("double precision", .integer(1 << 60), "1152921504606846976"), ("real", .real(0.5), "0.5"),
      ("real", .integer(16_777_216), "16777216"), ("text", .integer(-5), "-5"), ("text", .real(0.1), "0.1"),
      ("text", .text("ü"), "ü"), ("character varying(3)", .text("üü€"), "üü€"),
      ("character varying(2)", .integer(42), "42"),
      ("timestamp without time zone", .text("2024-02-29"), "2024-02-29"),
      ("timestamp without time zone", .text("2024-02-29T10:20Z"), "2024-02-29T10:20Z"),
      ("timestamp without time zone", .text("2024-02-29 10:20:30.123456000"), "2024-02-29 10:20:30.123456000"),
      ("timestamp without time zone", .text("infinity"), "infinity"),
      ("timestamp without time zone", .text("0044-03-15 12:00:00 BC"), "0044-03-15 12:00:00 BC"),
      ("timestamp with time zone", .text("2024-01-01 00:00:00+05:30"), "2024-01-01 00:00:00+05:30"),
      ("timestamp with time zone", .text("2024-01-01 00:00:00-0800"), "2024-01-01 00:00:00-0800"),
      ("timestamp(3) with time zone", .text("2024-01-01 00:00:00.123+00"), "2024-01-01 00:00:00.123+00"),
      ("date", .text("5874897-12-31"), "5874897-12-31"), ("date", .text("0001-02-29 BC"), "0001-02-29 BC"),
      ("time without time zone", .text("24:00:00"), "24:00:00"), ("time without time zone", .text("09:30"), "09:30"),
      ("bytea", .blob([]), "\\x"), ("bytea", .blob([0, 255]), "\\x00ff"),
      ("uuid", .text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
      ("json", .text(" {\"a\":[1,2.5e3,\"\\u0000\"]} "), " {\"a\":[1,2.5e3,\"\\u0000\"]} "), ("json", .integer(5), "5"),
      ("integer[]", .text("[0:1]={7,8}"), "[0:1]={7,8}"),
      ("numeric(5,1)[]", .text("{1.5,NULL,{-2}}"), "{1.5,NULL,{-2}}"),
      ("character varying(3)[]", .text("{\"a,b\",\"NUL\"}"), "{\"a,b\",\"NUL\"}"), ("bit(3)", .text("101"), "101"),
      ("interval(3)", .text("00:00:00.123"), "00:00:00.123"), ("money", .text("$1.50"), "$1.50"),
      ("\"char\"", .text("a"), "a"), ("money", .text("-$1,234,567.89"), "-$1,234,567.89"),
      ("interval year", .text("-3 years"), "-3 years"), ("interval year", .text("00:00:00"), "00:00:00"),
      ("interval year to month", .text("1 year 2 mons"), "1 year 2 mons"),
      ("interval day to minute", .text("1 day 02:03:00"), "1 day 02:03:00"),
    ] as [(String, Value, String)])
  func `a value that fits is written as PostgreSQL reads it`(type: String, value: Value, written: String) {
    #expect(text(value, "", type) == .success(written))
  }

  @Test(
    arguments: [
      ("DATETIME", "2024-01-01 10:00:00", true), ("DATETIME", "2024-01-01T10:00:00Z", false),
      ("DATETIME", "2024-01-01", false), ("DATETIME", "2024-01-01 10:00:00.50", false), ("BOOLEAN", "t", false),
      ("TIME", "09:30:00", true), ("TIME", "09:30", false), ("", "5", false), ("", "five", true), ("TEXT", "5", true),
    ])
  func `in a unique key only one spelling is taken`(declared: String, text: String, isTaken: Bool) {
    #expect(isOneSpelling(declared, PostgresType(declaration: declared), text) == isTaken)
  }

  @Test(
    arguments: [
      ("TEXT", "numeric(10,2)", "1.50", true), ("TEXT", "numeric(10,2)", "1.5", false),
      ("TEXT", "numeric(10,2)", "1", false), ("TEXT", "numeric(10,0)", "1", true),
      ("TEXT", "numeric(10,2)", "NaN", true), ("TEXT", "numeric", "1.50", true), ("TEXT", "bigint", "1", true),
      ("", "bigint", "1", false), ("", "integer", "1", false),
    ])
  func `in a unique key of another type only one spelling is taken`(
    declared: String, type: String, text: String, isTaken: Bool
  ) {
    #expect(isOneSpelling(declared, PostgresType(type), text) == isTaken)
  }

  private func isOneSpelling(_ declared: String, _ type: PostgresType, _ text: String) -> Bool {
    let column = TableSchema.Column(name: "c", declaredType: declared)
    let conversion = PostgresText(from: column, of: .sqlite, to: type, isUnique: true)
    var writer = ByteWriter()
    let bytes = Array(text.utf8)
    return bytes.withUnsafeBytes { raw in (try? conversion.append(.text(raw), to: &writer)) != nil }
  }

  @Test(
    arguments: [
      ("money", .text("$1,2")), ("interval year", .text("1 year 2 mons")), ("interval year", .text("14 months")),
      ("interval day", .text("1 day 02:00:00")), ("interval day to minute", .text("1 day 02:03:04")),
      ("boolean", .integer(2)), ("boolean", .real(1)), ("boolean", .text("yes")), ("bigint", .real(7)),
      ("bigint", .text("abc")), ("bigint", .text(" 7")), ("bigint", .text("007")), ("bigint", .text("1e3")),
      ("bigint", .text("9223372036854775808")), ("smallint", .integer(32768)), ("oid", .integer(-1)),
      ("bigint", .blob([1])), ("numeric(10,2)", .real(0.1 + 0.2)), ("numeric(10,2)", .text("1.101")),
      ("numeric(3,1)", .integer(100)), ("numeric(10,2)", .real(.infinity)), ("numeric(10,2)", .text("Infinity")),
      ("numeric", .text("1e3")), ("numeric", .text("")), ("numeric", .text("abc")), ("numeric", .text("-0")),
      ("numeric(3,5)", .real(0.01)), ("double precision", .integer(.max)), ("double precision", .text("1.50")),
      ("double precision", .text("x")), ("real", .real(0.1)), ("text", .blob([0x61])), ("text", .text([0x61, 0])),
      ("text", .text([0xc0, 0xaf])), ("character varying(3)", .text("four")), ("character varying(3)", .text("abc ")),
      ("character varying(2)", .integer(100)), ("timestamp without time zone", .text("2023-02-29")),
      ("timestamp without time zone", .text("2024-01-01 24:00:00")),
      ("timestamp without time zone", .text("2024-01-01 00:00:60")),
      ("timestamp without time zone", .text("2024-01-01 10:00:00+02:00")),
      ("timestamp without time zone", .text("2024-01-01 00:00:00.1234567")),
      ("timestamp without time zone", .integer(0)),
      ("timestamp without time zone", .text("0000-01-01")), ("timestamp without time zone", .text("24-01-01")),
      ("timestamp without time zone", .text("2024-01-01 ")), ("timestamp without time zone", .text("now")),
      ("timestamp(3) with time zone", .text("2024-01-01 00:00:00.1234")), ("date", .text("2024-01-01 00:00:00")),
      ("date", .text("2024-13-01")), ("date", .text("0001-02-29")), ("time without time zone", .text("24:00:01")),
      ("time without time zone", .text("9:30")), ("time without time zone", .text("10:00+02")), ("bytea", .text("x")),
      ("bytea", .integer(1)), ("uuid", .text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A1")),
      ("uuid", .text("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")), ("uuid", .text("{}")),
      ("uuid", .text("a0eebc99--9c0b4ef8bb6d6bb9bd380a11")), ("uuid", .text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-")),
      ("uuid", .blob(Array(repeating: 1, count: 16))), ("json", .text("{a: 1}")), ("json", .text("")),
      ("json", .text("[1,]")), ("json", .text("\"tab\there\"")), ("json", .text("01")), ("json", .real(.infinity)),
      ("jsonb", .text("\"\\u0000\"")), ("integer[]", .integer(1)), ("inet", .real(1)),
    ] as [(String, Value)])
  func `a value that PostgreSQL would alter or refuse is a misfit`(type: String, value: Value) {
    guard case .failure(let misfit) = text(value, "", type) else {
      Issue.record("\(value.shown) was taken for \(type)")
      return
    }
    #expect(misfit.reason.hasPrefix("it "), "\(misfit.reason)")
  }

  @Test func `a number that is written has no bytes of another before it judged`() {
    let column = TableSchema.Column(name: "v")
    let converter = PostgresText(from: column, of: .sqlite, to: PostgresType("character varying(3)"))
    var out = ByteWriter(capacity: 16)
    for number in 100...110 as ClosedRange<Int64> {
      #expect(throws: Never.self) { try converter.append(.integer(number), to: &out) }
    }
    #expect(out.count == 33)
  }

  @Test func `from one PostgreSQL into a narrower type of another nothing is rounded`() {
    let column = TableSchema.Column(name: "v", declaredType: "numeric")
    func fits(_ text: String, _ type: String) -> Bool {
      var out = ByteWriter(capacity: 16)
      let converter = PostgresText(from: column, of: .postgres, to: PostgresType(type))
      return Value.exact(Array(text.utf8)).withView { view in (try? converter.append(view, to: &out)) != nil }
    }
    #expect(fits("1.10", "numeric(10,2)"))
    #expect(!fits("1.101", "numeric(10,2)"))
    #expect(fits("1e5", "numeric"))
    #expect(fits("7", "bigint") && !fits("7.5", "bigint"))
  }
}

@Suite struct MisfitPoliciesTests {
  @Test func `the last policy that matches a column counts`() throws {
    let policies = try MisfitPolicies(parsing: "null, Orders.*=stop,orders.NOTE = widen")
    #expect(policies.policy(table: "items", column: "x") == .null)
    #expect(policies.policy(table: "orders", column: "id") == .stop)
    #expect(policies.policy(table: "ORDERS", column: "note") == .widen)
    #expect(MisfitPolicies().policy(table: "a", column: "b") == .stop)
  }

  @Test(arguments: ["", "nul", "a.b=", "a=null", "=null", "a.b=null=stop", "stop,,null", "!a.b=null"])
  func `anything else is refused`(text: String) {
    #expect(throws: CairnError.self) { try MisfitPolicies(parsing: text) }
  }

  /// A peer's trail may name any: what is made of such a type ended the daemon.
  @Test(arguments: [Int.min, -1001, -5, -1, 0, 1001, 10_485_761, 1 << 40, Int.max])
  func `a size that no server takes makes an unknown type`(size: Int) {
    for text in [
      "numeric(\(size))", "numeric(\(size),2)", "character(\(size))", "character varying(\(size))",
      "timestamp(\(size)) without time zone", "time(\(size)) with time zone", "interval(\(size))",
    ] where !(text.contains("time") || text.contains("interval")) || size != 0 {
      if text.hasPrefix("character"), size == 1001 { continue }
      let type = PostgresType(text)
      #expect(type.kind == .other, "\(text)")
      for affinity in ["INTEGER", "TEXT", "NUMERIC", "REAL", "BLOB"] { _ = type.isKept(under: affinity) }
    }
    #expect(PostgresType("numeric(5,\(size))").kind == .other || (-1000...1000).contains(size))
  }
}
