import Changes

/// Test values at the limits of types. Copies between databases often change such values.
package enum EdgeValues {
  /// The types of PostgreSQL with edge values, by the names of `format_type()`.
  package static let postgresTypes = [
    "boolean", "smallint", "integer", "bigint", "oid", "numeric", "numeric(10,2)", "numeric(5,0)", "numeric(3,5)",
    "numeric(3,-2)",
    "real", "double precision", "text", "name", "character varying", "character varying(20)", "character(5)", "bpchar",
    "bytea", "date", "time without time zone", "time(3) without time zone", "time with time zone",
    "timestamp without time zone", "timestamp(0) without time zone", "timestamp with time zone",
    "timestamp(3) with time zone", "interval", "uuid", "json", "jsonb", "xml", "money", "bit(3)", "bit varying(5)",
    "inet", "cidr", "macaddr", "tsvector", "point", "int4range", "numrange", "tstzrange", "int4multirange", "integer[]",
    "text[]", "numeric[]", "boolean[]",
  ]

  /// Returns test values of a PostgreSQL type, as the server prints them; none for user-defined types.
  package static func postgres(_ type: PostgresType) -> [String] {
    switch type.kind {
    case .bool: ["t", "f"]
    case .int2: ["0", "-1", "32767", "-32768"]
    case .int4: ["0", "-1", "2147483647", "-2147483648"]
    case .int8: ["0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993"]
    case .oid: ["0", "1", "4294967295"]
    case .numeric(nil): decimals
    case .numeric(let digits?): decimals(digits)
    case .float4: ["0", "-0", "1.5", "0.1", "3.4028235e+38", "1e-45", "1.1754944e-38", "NaN", "Infinity", "-Infinity"]
    case .float8: doubles
    case .text: texts.map { type.name == "name" ? String($0.prefix(20)) : $0 }
    case .varchar(let length): texts.map { String($0.unicodeScalars.prefix(length ?? 1000)) }
    case .bpchar(let length): bpchars(length)
    case .bytea: ["\\x", "\\x00", "\\x00ff10", "\\x" + String(repeating: "ab", count: 300)]
    case .date:
      ["2024-02-29", "1970-01-01", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "4714-11-24 BC"]
    case .time(let digits): times(digits) + ["24:00:00"]
    case .timetz(let digits):
      times(digits).map { $0 + "+00" } + ["24:00:00+05:30", "12:00:00-15:59:59", "12:00:00+05:30"]
    case .timestamp(let digits): moments(digits, zone: "")
    case .timestamptz(let digits): moments(digits, zone: "+00")
    case .interval:
      [
        "00:00:00", "1 mon 2 days -03:00:00", "1 year 2 mons", "-1 days +02:03:04.000001", "-178000000 years",
        "24:00:00",
        "-00:00:00.000001",
      ]
    case .uuid:
      [
        "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
      ]
    case .json:
      [
        "null", "{\"b\": 1, \"a\":  2, \"b\": 3}", "\"\\u0000\"", "[1.0, 1e2, -0]", " [ ] ", "\"ü\\ud83d\\ude00\"",
        "1.10", "{\"a\": {\"b\": [true, false, null]}}",
      ]
    case .jsonb: ["null", "{\"a\": 2, \"b\": 3}", "2.50", "[]", "\"ü\"", "12345678901234567890123.45"]
    case .xml: ["<a>b</a>", "<a b=\"c\"/>", "text &amp; more"]
    case .money: ["$0.00", "-$1.50", "$92,233,720,368,547,758.07"]
    case .bit(let length): [String(repeating: "0", count: length), String(repeating: "1", count: length)]
    case .varbit(let length): ["", "1", String("10101".prefix(length ?? 5))]
    case .inet:
      type.name == "cidr"
        ? ["192.168.0.0/24", "::/0", "10.0.0.0/8"]
        : ["192.168.0.1", "192.168.0.1/24", "::1", "2001:db8::/32", "0.0.0.0/0"]
    case .array: arrays(type)
    case .range: ranges(type.name)
    case .enumeration, .record: []
    case .other:
      switch type.name {
      case "macaddr": ["08:00:2b:01:02:03"]
      case "tsvector": ["", "'a' 'fat':2A,3 'it''s'"]
      case "tsquery": ["'fat' & ( 'rat' | 'cat' )"]
      case "point": ["(0,0)", "(-1.5,1e-310)", "(Infinity,-Infinity)"]
      case "box": ["(1,1),(0,0)"]
      case "pg_lsn": ["0/0", "16/B374D848"]
      case "\"char\"": ["a"]
      default: []
      }
    }
  }

  private static let decimals = [
    "0", "1.10", "1.1", "0.00", "NaN", "Infinity", "-Infinity", "0.000000000000000000000000000001",
    "12345678901234567890123456789012345678901234567890", "-99999999999999999999.99999999999999999999",
    "9007199254740993",
  ]

  private static let doubles = [
    "0", "-0", "1", "0.1", "1e-310", "5e-324", "1.7976931348623157e+308", "9007199254740992", "1e+20", "123456.789",
    "NaN", "Infinity", "-Infinity",
  ]

  private static let texts = [
    "", " ", "NULL", "it's", "a\\b", "tab\tand\nline", "ü€😀", "\u{1}", "'\"`", "ends with space ",
    "a longer text of more than twenty characters",
  ]

  private static func decimals(_ digits: PostgresType.Digits) -> [String] {
    guard digits.scale <= digits.precision else { return ["0." + String(repeating: "0", count: digits.scale), "NaN"] }
    guard digits.scale >= 0 else {
      let nines = String(repeating: "9", count: digits.precision) + String(repeating: "0", count: -digits.scale)
      return ["0", "NaN", nines, "-" + nines]
    }
    let (whole, scale) = (digits.precision - digits.scale, digits.scale)
    let fraction = scale > 0 ? "." + String(repeating: "0", count: scale - 1) + "1" : ""
    let zeros = scale > 0 ? "." + String(repeating: "0", count: scale) : ""
    let nines =
      (whole > 0 ? String(repeating: "9", count: whole) : "0") + String(fraction.prefix(1))
      + String(repeating: "9", count: scale)
    return ["0" + zeros, "NaN", nines, "-" + nines] + (scale > 0 ? ["0" + fraction] : [])
  }

  private static func bpchars(_ length: Int?) -> [String] {
    guard let length else { return ["ab", "ü", ""] }
    return ["", "ab", "ü€", String(repeating: "x", count: length)].map { text in
      let cut = String(text.prefix(length))
      return cut + String(repeating: " ", count: length - cut.unicodeScalars.count)
    }
  }

  private static func times(_ digits: Int) -> [String] {
    ["00:00:00", "23:59:59"] + (digits > 0 ? ["12:30:00." + String("123456".prefix(digits))] : [])
  }

  private static func moments(_ digits: Int, zone: String) -> [String] {
    ["1970-01-01 00:00:00", "2024-02-29 23:59:59", "294276-12-31 23:59:59", "10000-01-01 00:00:00"].map { $0 + zone }
      + ["infinity", "-infinity", "0044-03-15 12:00:00\(zone) BC", "4714-11-24 00:00:00\(zone) BC"]
      + (digits > 0 ? ["2024-01-01 00:00:00." + String("123456".prefix(digits)) + zone] : [])
  }

  private static func arrays(_ type: PostgresType) -> [String] {
    switch type.name {
    case "integer[]", "bigint[]", "smallint[]":
      ["{}", "{1,NULL,-1}", "[0:1]={7,8}", "{{1,2},{3,4}}", "[-1:0][2:3]={{1,2},{3,4}}"]
    case "text[]": ["{}", "{NULL,\"NULL\",\"\"}", "{\"a,b\",\"c\\\"d\\\\e\",\"{}\",\" x \"}", "[0:1]={a,b}"]
    case "numeric[]": ["{}", "{1.10,NaN,NULL}"]
    case "boolean[]": ["{}", "{t,f,NULL}"]
    default: ["{}", "{NULL}"]
    }
  }

  private static func ranges(_ name: String) -> [String] {
    switch name {
    case "int4range", "int8range": ["empty", "[1,6)", "(,)", "[5,)", "(,0)"]
    case "numrange": ["empty", "[1.10,2.20]", "(1.5,)", "(,)"]
    case "daterange": ["empty", "[2024-01-01,2024-02-01)", "(,)", "[2024-01-01,infinity)"]
    case "tsrange": ["empty", "[\"2024-01-01 00:00:00\",\"2024-01-02 00:00:00\")", "(,)"]
    case "tstzrange": ["empty", "[\"2024-01-01 00:00:00+00\",infinity)", "(,)"]
    case "int4multirange", "int8multirange": ["{}", "{[1,3),[5,7)}", "{(,)}"]
    case "nummultirange": ["{}", "{[1.10,3.0],(5,7)}"]
    default: []
    }
  }

  // MARK: SQLite

  /// Returns test values for an SQLite column with this declared type, with some that do not fit the declaration.
  /// - Parameter type: The PostgreSQL type whose test values are added; nil for the type that suits the declared type.
  package static func sqlite(_ declared: String, of type: PostgresType? = nil) -> [Value] {
    let column = TableSchema.Column(name: "", declaredType: declared)
    let type = type ?? PostgresType(declaration: declared)
    var values: [Value] = [
      .integer(0), .integer(1), .integer(-1), .integer(.max), .integer(.min), .integer(9_007_199_254_740_993),
      .real(0.5), .real(0.1), .real(-1e300), .real(.leastNonzeroMagnitude), .real(.infinity), .real(-.infinity),
      .real(0.1 + 0.2),
      .text(""), .text("abc"), .text("1e3x"), .text("ends with space "), .text("ü€😀"), .text([0x61, 0, 0x62]),
      .text([0xff, 0xfe]), .text(String(repeating: "long ", count: 60)), .blob([]), .blob([0, 0xff, 0x10]),
    ]
    let converter = SQLiteValue(type)
    var scratch = ByteWriter(capacity: 1024)
    for text in postgres(type) {
      values.append(.text(text))
      let kept = Value.exact(Array(text.utf8)).withView { view in
        (try? converter.convert(view, scratch: &scratch))?.value
      }
      if let kept, kept != values.last { values.append(kept) }
    }
    return values.map { kept($0, column.affinity) }
  }

  /// Returns the value that a column with this affinity stores.
  private static func kept(_ value: Value, _ affinity: String) -> Value {
    switch (value, affinity) {
    case (.integer(let number), "REAL"): return .real(Double(number))
    case (.integer(let number), "TEXT"): return .text(String(number))
    case (.real(let number), "TEXT"): return .text(number.isInfinite ? (number < 0 ? "-Inf" : "Inf") : "\(number)")
    case (.text, "INTEGER"), (.text, "NUMERIC"), (.text, "REAL"):
      let text = value.string
      if let number = Int64(text) { return affinity == "REAL" ? .real(Double(number)) : .integer(number) }
      guard let number = Double(text), number.isFinite, text.utf8.last != 0x20 else { return value }
      if affinity != "REAL", let whole = Int64(exactly: number) { return .integer(whole) }
      return .real(number)
    default: return value
    }
  }
}
