import TestServers
import CairnCapture
import SQLiteKit

/// Steps of a program on tables, their rows and their indexes, drawn at random and valid for the file as it is.
struct SchemaSteps {
  let shop: CapturedDatabase
  /// A program that uses SQLite alone on the same file; nil where there is none.
  var other: Database?
  /// Values stay what their columns are declared for.
  var keepsTypes = false
  private var random: Seeded
  /// For a failure to be read.
  private(set) var done: [String] = []
  private var serial = 0

  init(_ shop: CapturedDatabase, other: Database? = nil, seed: UInt64) {
    (self.shop, self.other) = (shop, other)
    random = Seeded(seed)
  }

  private static let tables = ["a", "b", "c", "d"]
  private static let columns = ["u", "v", "w", "x", "y"]

  mutating func take(_ count: Int) throws {
    for _ in 0..<count { try step() }
  }

  private mutating func draw(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

  private mutating func run(_ statements: [String]) throws {
    guard !statements.isEmpty else { return }
    let isOther = draw(5) == 0
    if let other, isOther {
      done.append("other: " + statements.joined(separator: "; "))
      // The hooks of capture may refuse what SQLite would do.
      _ = try? other.transaction { for sql in statements { try other.execute(sql) } }
      return
    }
    let isWhole = statements.count > 1 && draw(2) == 0
    done.append((isWhole ? "whole: " : "") + statements.joined(separator: "; "))
    guard isWhole else {
      for sql in statements { try shop.execute(sql) }
      return
    }
    let isUndone = draw(6) == 0
    struct Undone: Error {}
    do {
      try shop.transaction { db in
        for sql in statements { try db.execute(sql) }
        if isUndone { throw Undone() }
      }
    } catch is Undone { done.append("undone") }
  }

  private mutating func step() throws {
    let there = try names("SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('a', 'b', 'c', 'd')")
    let free = Self.tables.filter { !there.contains($0) }
    guard let table = there.randomElement(using: &random) else { return try run(create(free[0])) }
    let kind = draw(22)
    switch kind {
    case 0, 1: try run(free.first.map { create($0) } ?? [])
    case 2: try run(there.count > 1 ? ["DROP TABLE \(table)"] : [])
    case 3: try run(free.randomElement(using: &random).map { ["ALTER TABLE \(table) RENAME TO \($0)"] } ?? [])
    case 4: try run(try swapped(there))
    case 5, 6: try run(try rebuilt(table))
    case 7...11: try run(try altered(table, kind - 7))
    case 12: try run(try index(table))
    case 13: try run(try droppedIndex())
    case 14: try shop.execute(["ANALYZE", "VACUUM"][draw(2)])
    default: try run(try rows(table))
    }
  }

  private func names(_ sql: String) throws -> [String] {
    try shop.query(sql).compactMap { try $0.decode(String.self) }
  }

  private func free(_ table: String) throws -> [String] {
    let there = try names("SELECT name FROM pragma_table_info('\(table)')")
    return Self.columns.filter { !there.contains($0) }
  }

  private func columns(_ table: String) throws -> [String] {
    try names("SELECT name FROM pragma_table_info('\(table)') WHERE pk = 0")
  }

  private mutating func create(_ table: String) -> [String] {
    serial += 1
    let key = draw(3) == 0 ? "id TEXT PRIMARY KEY NOT NULL" : "id INTEGER PRIMARY KEY"
    let create = "CREATE TABLE \(table)(\(key), u INTEGER, v TEXT)"
    switch draw(3) {
    case 0: return [create]
    case 1: return [create, "CREATE INDEX i\(serial) ON \(table)(u)", "INSERT INTO \(table) VALUES (1, 2, 'x')"]
    default:
      return [
        create, "INSERT INTO \(table) VALUES (1, 2, 'x')", "CREATE UNIQUE INDEX i\(serial) ON \(table)(id, v)",
      ]
    }
  }

  private mutating func swapped(_ there: [String]) throws -> [String] {
    guard there.count > 1 else { return [] }
    let two = Array(there.shuffled(using: &random).prefix(2))
    return [
      "ALTER TABLE \(two[0]) RENAME TO z", "ALTER TABLE \(two[1]) RENAME TO \(two[0])",
      "ALTER TABLE z RENAME TO \(two[1])",
    ]
  }

  /// https://sqlite.org/lang_altertable.html#otheralter, in both orders.
  private mutating func rebuilt(_ table: String) throws -> [String] {
    let columns = try columns(table)
    let key = try names("SELECT type FROM pragma_table_info('\(table)') WHERE pk = 1").first ?? ""
    let types = try names("SELECT type FROM pragma_table_info('\(table)') WHERE pk = 0")
    let list = zip(columns, types).map { "\($0) \(keepsTypes ? $1 : draw(2) == 0 ? "TEXT" : "INTEGER")" }
    let shape = "(id \(key) PRIMARY KEY\(key == "TEXT" ? " NOT NULL" : ""), \(list.joined(separator: ", ")))"
    guard !columns.isEmpty else { return [] }
    let (all, made) = ((["id"] + columns).joined(separator: ", "), "z")
    serial += 1
    let index = draw(2) == 0 ? ["CREATE INDEX i\(serial) ON \(table)(\(columns[0]))"] : []
    guard draw(2) == 0 else {
      return [
        "CREATE TABLE \(made)\(shape)", "INSERT INTO \(made)(\(all)) SELECT \(all) FROM \(table)",
        "DROP TABLE \(table)",
        "ALTER TABLE \(made) RENAME TO \(table)",
      ] + index
    }
    return [
      "ALTER TABLE \(table) RENAME TO \(made)", "CREATE TABLE \(table)\(shape)",
      "INSERT INTO \(table)(\(all)) SELECT \(all) FROM \(made)", "DROP TABLE \(made)",
    ] + index
  }

  private mutating func altered(_ table: String, _ kind: Int) throws -> [String] {
    let (there, free) = (try columns(table), try free(table))
    switch kind {
    case 0, 1:
      guard let new = free.first else { return [] }
      let text = ["\(new) INTEGER", "\(new) TEXT DEFAULT 'n'", "\(new) INTEGER NOT NULL DEFAULT 3"][draw(3)]
      return ["ALTER TABLE \(table) ADD COLUMN \(text)"]
    case 2:
      let used = try names(
        "SELECT DISTINCT i.name FROM pragma_index_list('\(table)') l, pragma_index_info(l.name) i WHERE i.name IS NOT NULL"
      )
      guard let old = there.first(where: { !used.contains($0) }), there.count > 1 else { return [] }
      return ["ALTER TABLE \(table) DROP COLUMN \(old)"]
    case 3:
      guard let old = there.randomElement(using: &random), let new = free.last else { return [] }
      return ["ALTER TABLE \(table) RENAME COLUMN \(old) TO \(new)"]
    default:
      guard there.count > 1 else { return [] }
      return [
        "ALTER TABLE \(table) RENAME COLUMN \(there[0]) TO z",
        "ALTER TABLE \(table) RENAME COLUMN \(there[1]) TO \(there[0])",
        "ALTER TABLE \(table) RENAME COLUMN z TO \(there[1])",
      ]
    }
  }

  private mutating func index(_ table: String) throws -> [String] {
    serial += 1
    guard let column = try columns(table).randomElement(using: &random) else { return [] }
    let name = "i\(draw(2) == 0 ? serial : 1000 + draw(3))"
    return ["DROP INDEX IF EXISTS \(name)", "CREATE INDEX \(name) ON \(table)(\(column))"]
  }

  private mutating func droppedIndex() throws -> [String] {
    try names("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").randomElement(using: &random)
      .map { ["DROP INDEX \($0)"] } ?? []
  }

  private mutating func rows(_ table: String) throws -> [String] {
    guard let column = try columns(table).randomElement(using: &random) else { return [] }
    let (id, value) = (draw(6), draw(100))
    return [
      ["INSERT OR REPLACE INTO \(table)(id, \(column)) VALUES (\(id), \(value))"],
      ["INSERT OR IGNORE INTO \(table)(id, \(column)) VALUES (\(id), \(value)), (\(id + 1), \(value))"],
      ["UPDATE \(table) SET \(column) = \(value) WHERE id = \(id)", "UPDATE \(table) SET \(column) = \(value + 1)"],
      ["DELETE FROM \(table) WHERE id = \(id)"],
      ["UPDATE OR IGNORE \(table) SET id = id + 10 WHERE id = \(id)"],
    ][draw(5)]
  }
}
