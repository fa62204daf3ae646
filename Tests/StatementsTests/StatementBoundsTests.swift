import Changes
import Mapping
import Testing

@testable import Statements

/// Statements of a peer whose values, or whose table, would take long to judge, or much memory at the target.
@Suite struct StatementBoundsTests {
  private static let long: [UInt8] = .init(repeating: UInt8(ascii: "x"), count: 200 << 10)
  private static let tooManyBytes = "no: its values have more than 8 MiB where it mentions them"

  private static func rows(_ count: Int) -> String {
    "INSERT INTO item(id, name) VALUES " + (1...count).map { "(\($0), ?1)" }.joined(separator: ",")
  }

  @Test(arguments: [Engine.sqlite, .postgres])
  func `a parameter above 256 KiB goes as rows`(engine: Engine) {
    let tooLong = [UInt8](repeating: 0x61, count: (256 << 10) + 1)
    for value in [Value.text(tooLong), .blob(tooLong), .exact(tooLong)] {
      let told = Fixture.told("INSERT INTO item(id, photo) VALUES (1, ?)", [value], for: engine)
      #expect(told == "no: a parameter has more than 256 KiB")
    }
  }

  /// Each mention of a parameter is copied or planned by itself.
  @Test(.timeLimit(.minutes(20)), arguments: [Engine.sqlite, .postgres])
  func `a statement that mentions a long parameter often goes as rows`(engine: Engine) {
    #expect(!Fixture.told(Self.rows(40), [.text(Self.long)], for: engine).hasPrefix("no: "))
    #expect(Fixture.told(Self.rows(8000), [.text(Self.long)], for: engine) == Self.tooManyBytes)
    // A parameter that the statement does not mention counts for nothing.
    let many = [Value](repeating: .text(Self.long), count: 45)
    #expect(!Fixture.told(Self.rows(1), many, for: engine).hasPrefix("no: "))
  }

  /// The translation of CASE repeats a value that the statement mentions once.
  @Test(.timeLimit(.minutes(20))) func `a translation that repeats a long value goes as rows`() {
    let branches = (1...400).map { "WHEN '\($0)' THEN 1" }.joined(separator: " ")
    let cases = "DELETE FROM item WHERE stock = CASE ?1 \(branches) END"
    #expect(Fixture.told(cases, [.text(Self.long)], for: .postgres) == Self.tooManyBytes)
    let literal = cases.replacing("?1", with: "'\(String(decoding: Self.long, as: UTF8.self))'")
    #expect(Fixture.told(literal, for: .postgres) == Self.tooManyBytes)
    #expect(!Fixture.told(cases, [.text("x")], for: .postgres).hasPrefix("no: "))
  }

  @Test(.timeLimit(.minutes(20)), arguments: [Engine.sqlite, .postgres])
  func `a call has at most 127 arguments`(engine: Engine) {
    func told(_ count: Int) -> String {
      let arguments = Array(repeating: "?1", count: count).joined(separator: ",")
      return Fixture.told("UPDATE item SET name = coalesce(\(arguments))", [.text("a")], for: engine)
    }
    #expect(!told(127).hasPrefix("no: ") && told(128) == "no: a call has more than 127 arguments")
    let list = (1...20_000).map(String.init).joined(separator: ",")
    #expect(
      Fixture.told("UPDATE item SET stock = max(\(list))", for: engine) == "no: a call has more than 127 arguments")
  }

  @Test func `a pattern, or characters to trim, may be long as a decimal no more than as a text`() {
    let number = [UInt8](repeating: UInt8(ascii: "1"), count: 300)
    for sql in ["UPDATE item SET stock = 1 WHERE name LIKE ?", "UPDATE item SET name = trim(name, ?)"] {
      for value in [Value.text(number), .exact(number)] {
        #expect(Fixture.told(sql, [value], for: .sqlite).hasPrefix("no: "), "\(sql)")
      }
    }
  }

  // MARK: Definitions of tables

  private static func judge(_ table: TableSchema, _ sql: String, for engine: Engine) -> String {
    let side = StatementTable.PostgresSide(
      name: "plain", rowsName: "ONLY plain", columns: table.columns.map { (name: $0.name, type: PostgresType($0)) })
    let statement = ExecutedStatement(dialect: .sqlite, text: sql, parameters: [], rowsAffected: 1, now: nil)
    let judged = Replayable.judge(statement, for: engine) { _ in
      StatementTable(table, isGuarded: true, postgres: side)
    }
    if case .no(let reason) = judged { return reason }
    return "yes"
  }

  private static func table(defaults: [String], objects: [String] = []) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .sqlite, name: "plain",
      columns: [.init(name: "id", declaredType: "TEXT", isNotNull: true, keyOrdinal: 1)]
        + defaults.enumerated().map { .init(name: "c\($0)", declaredType: "TEXT", defaultText: $1) },
      objects: objects.enumerated().map { .init(name: "i\($0)", text: $1) })
  }

  private static func insert(_ count: Int) -> String {
    "INSERT INTO plain(id) VALUES " + (1...count).map { "('\($0)')" }.joined(separator: ",")
  }

  @Test(.timeLimit(.minutes(20))) func `a default that is long, or has no end, is not repeated`() {
    let long = Self.table(defaults: ["'\(String(decoding: Self.long, as: UTF8.self))'"])
    #expect(Self.judge(long, Self.insert(10), for: .postgres) == "yes")
    #expect("no: " + Self.judge(long, Self.insert(10_000), for: .postgres) == Self.tooManyBytes)
    // SQLite ends the statement at its limit of disk space.
    #expect(Self.judge(long, Self.insert(10_000), for: .sqlite) == "yes")
    for (word, sign) in [("1", "+"), ("-", " "), ("(", "")] {
      let endless = Self.table(defaults: [Array(repeating: word, count: 250_000).joined(separator: sign) + "1"])
      for engine in [Engine.sqlite, .postgres] {
        #expect(Self.judge(endless, Self.insert(1), for: engine) == "the default of column c0 is not a constant")
      }
    }
  }

  @Test(.timeLimit(.minutes(20)), arguments: [Engine.sqlite, .postgres])
  func `defaults that are long together are not read for each statement`(engine: Engine) {
    let text = "'\(String(decoding: Self.long, as: UTF8.self))'"
    let table = Self.table(defaults: Array(repeating: text, count: 300))
    for _ in 1...10 {
      #expect(Self.judge(table, Self.insert(1), for: engine) == "the defaults of its table have more than 512 KiB")
    }
  }

  @Test(.timeLimit(.minutes(20)), arguments: [Engine.sqlite, .postgres])
  func `indexes that are long together are not read for each statement`(engine: Engine) {
    let short = "CREATE INDEX i ON plain(c0)"
    let long = short + " WHERE c0 IN (" + Array(repeating: "1", count: 100_000).joined(separator: ",") + ")"
    let sql = "INSERT OR IGNORE INTO plain(id) VALUES ('a')"
    #expect(Self.judge(Self.table(defaults: ["1"], objects: [short]), sql, for: engine) == "yes")
    let table = Self.table(defaults: ["1"], objects: Array(repeating: long, count: 100))
    for _ in 1...20 { #expect(Self.judge(table, sql, for: engine).hasPrefix("table plain has several keys")) }
  }

  // MARK: Schema changes

  @Test(.timeLimit(.minutes(20))) func `only the begin of a text is read to find a schema change`() {
    let spaces = String(repeating: " ", count: 1 << 20)
    for _ in 1...1000 {
      #expect(Unreplayable.isSchemaChange("CREATE TABLE t(a)" + spaces))
      #expect(!Unreplayable.isSchemaChange(spaces + "CREATE TABLE t(a)"))
    }
    #expect(Unreplayable.isSchemaChange("-- a comment\nDROP TABLE t"))
    #expect(!Unreplayable.isSchemaChange("INSERT INTO t VALUES (1)") && !Unreplayable.isSchemaChange(""))
  }
}
