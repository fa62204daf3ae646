import Changes
import Mapping
import SQLiteKit
import TestServers
import Testing

/// A value that PostgreSQL prints comes back as the same text from SQLite. A value that SQLite holds comes back from
/// PostgreSQL or is refused.
@Suite struct RoundTripTests {
  /// PostgreSQL text to what SQLite keeps, through a real column of SQLite, and back to the text that PostgreSQL reads.
  private func roundTrip(_ text: String, _ type: PostgresType, through database: Database) throws -> String {
    let toSQLite = SQLiteValue(type)
    var scratch = ByteWriter(capacity: 16)
    let kept = try Array(text.utf8).withUnsafeBytes { bytes in
      try #require(try toSQLite.convert(.exact(bytes), scratch: &scratch).value)
    }
    try database.executeScript("DROP TABLE IF EXISTS t; CREATE TABLE t(v \(toSQLite.declaredType))")
    try database.run("INSERT INTO t VALUES (?)", [kept])
    let stored = try #require(try database.first("SELECT v FROM t"))
    let back = PostgresText(from: .init(name: "v", declaredType: toSQLite.declaredType), of: .sqlite, to: type)
    var written = ByteWriter(capacity: 16)
    let isFit = stored.withView { view in (try? back.append(view, to: &written)) != nil }
    #expect(isFit, "\(type.name) \(text)")
    return String(decoding: written.bytes, as: UTF8.self)
  }

  private func database() throws -> Database { try Database(path: ":memory:", mode: .create) }

  @Test(arguments: EdgeValues.postgresTypes)
  func `edge values of PostgreSQL come back as they were`(name: String) throws {
    let type = PostgresType(name)
    let values = EdgeValues.postgres(type)
    #expect(!values.isEmpty)
    let database = try database()
    for value in values { #expect(try roundTrip(value, type, through: database) == value, "\(name)") }
  }

  /// PostgreSQL gives existing rows the default of a new column without writing them, so the target must do the same.
  @Test(arguments: EdgeValues.postgresTypes)
  func `a new column gives existing rows in SQLite what PostgreSQL gives them`(name: String) throws {
    var before = TableSchema(
      epoch: 1, engine: .postgres, name: "t", columns: [.init(name: "id", declaredType: "integer", keyOrdinal: 1)])
    before.namespace = "public"
    let type = PostgresType(name)
    for value in EdgeValues.postgres(type) + (name.hasPrefix("double") ? ["5", "-3", "100000", "1e+15", "2.5"] : []) {
      var after = before
      let literal = "'\(value.replacing("'", with: "''"))'::\(name)"
      let column = TableSchema.Column(name: "v", declaredType: name, defaultText: literal)
      after.columns.append(column)
      // Otherwise capture has the table copied.
      guard DefaultText.means(literal, of: column, value: value) else { continue }
      let (old, new) = (try TableMapping(before, to: .sqlite), try TableMapping(after, to: .sqlite))
      let database = try database()
      try database.execute(old.target.createText)
      try database.execute("INSERT INTO t VALUES (1)")
      let alteration = SQLiteAlteration(TableDifference(old.target, new.target))
      for statement in alteration.statements { try database.execute(statement) }
      try database.execute("INSERT INTO t(id) VALUES (2)")
      var scratch = ByteWriter(capacity: 64)
      let wanted = try Array(value.utf8).withUnsafeBytes {
        try SQLiteValue(type).convert(.exact($0), scratch: &scratch).value
      }
      for id in 1...2 {
        let found = try database.first("SELECT v FROM t WHERE id = ?", [.integer(Int64(id))])
        #expect(found == wanted, "\(literal), row \(id)")
      }
    }
  }

  @Test func `random values of PostgreSQL come back as they were`() throws {
    let seed = UInt64.random(in: 0...(.max))
    print("seed \(seed)")
    var random = Seeded(seed)
    let database = try database()
    for _ in 0..<2000 {
      let (name, value) = randomValue(&random)
      #expect(try roundTrip(value, PostgresType(name), through: database) == value, "\(name), seed \(seed)")
    }
  }

  /// A type and a value as PostgreSQL prints it.
  private func randomValue(_ random: inout Seeded) -> (String, String) {
    func digits(_ count: Int) -> String {
      String((0..<count).map { _ in Character("\(Int.random(in: 0...9, using: &random))") })
    }
    func two(_ range: ClosedRange<Int>) -> String {
      String(100 + Int.random(in: range, using: &random)).suffix(2).description
    }
    func whole(_ count: Int) -> String {
      "\(Int.random(in: 1...9, using: &random))" + digits(Int.random(in: 0..<count, using: &random))
    }
    let day = "\(1000 + Int.random(in: 0...8999, using: &random))-\(two(1...12))-\(two(1...28))"
    let fraction = Int.random(in: 0...1, using: &random) == 0 ? "" : "." + digits(5) + "7"
    let time = "\(two(0...23)):\(two(0...59)):\(two(0...59))\(fraction)"
    switch Int.random(in: 0..<11, using: &random) {
    case 0: return ("bigint", String(Int64(bitPattern: random.next())))
    case 1: return ("integer", String(Int32(truncatingIfNeeded: random.next())))
    case 2: return ("numeric", whole(60) + "." + digits(Int.random(in: 1...40, using: &random)))
    case 3: return ("numeric(10,2)", "-" + whole(8) + "." + digits(2))
    case 4:
      let number = Double(bitPattern: random.next())
      return ("double precision", number.isFinite ? printed(number.description) : "NaN")
    case 5:
      let number = Float(bitPattern: UInt32(truncatingIfNeeded: random.next()))
      return ("real", number.isFinite ? printed(number.description) : "NaN")
    case 6: return ("timestamp without time zone", "\(day) \(time)")
    case 7:
      return (
        "timestamp with time zone",
        fraction.isEmpty
          ? "0\(1 + Int.random(in: 0...8, using: &random))" + day.dropFirst(2) + " \(time)+00 BC" : "\(day) \(time)+00"
      )
    case 8: return ("time with time zone", "\(time)-\(two(0...15)):\(two(1...59))")
    case 9:
      return (
        "bytea",
        "\\x"
          + (0..<Int.random(in: 0...50, using: &random)).map { _ in
            UInt64(UInt8.random(in: 0...255, using: &random)).hex(2)
          }.joined()
      )
    default:
      let scalars = (0..<Int.random(in: 0...30, using: &random)).compactMap { _ in
        Unicode.Scalar(UInt32.random(in: 1...0x2ffff, using: &random))
      }
      return ("text", String(String.UnicodeScalarView(scalars)))
    }
  }

  private func printed(_ number: String) -> String { number.hasSuffix(".0") ? String(number.dropLast(2)) : number }

  @Test(arguments: [
    "INTEGER", "BOOLEAN", "DATETIME", "DATE", "TIME", "TIMESTAMPTZ", "DECIMAL(10,2)", "NUMERIC", "VARCHAR(20)", "TEXT",
    "REAL", "BLOB", "JSON", "UUID", "",
  ])
  func `values of SQLite fit and keep what they are, or are refused`(declared: String) throws {
    let column = TableSchema.Column(name: "v", declaredType: declared)
    let type = PostgresType(declaration: declared)
    let out = PostgresText(from: column, of: .sqlite, to: type)
    let back = SQLiteValue(type)
    var fitting = 0
    for value in EdgeValues.sqlite(declared) {
      var text = ByteWriter(capacity: 16)
      let isFit = value.withView { view in (try? out.append(view, to: &text)) != nil }
      guard isFit else { continue }
      fitting += 1
      var scratch = ByteWriter(capacity: 16)
      let returned = try #require(try back.convert(.exact(text.bytes), scratch: &scratch).value)
      #expect(isEqual(value, returned, type), "\(declared) \(value.shown) \(returned.shown)")
    }
    #expect(fitting > 1)
  }

  /// Equal as the contract of the type has it.
  private func isEqual(_ value: Value, _ returned: Value, _ type: PostgresType) -> Bool {
    switch (value, returned) {
    case (.integer(let number), .text(let bytes)): return Array(String(number).utf8) == bytes
    case (.real(let number), .text): return Double(returned.string) == number || number.isInfinite
    case (.integer(let number), .real(let real)): return Double(number) == real
    case (.text, .integer(let number)) where type.kind == .bool:
      return ["t", "true", "1"].contains(value.string) == (number == 1)
    default: return value == returned
    }
  }
}
