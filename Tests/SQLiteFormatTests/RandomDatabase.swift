import CSQLite
import CShims
import Changes
import Foundation
import SQLiteFormat
import TestServers
import Testing

@testable import SQLiteKit

/// A database file with random rows, and random writes to it.
final class RandomDatabase {
  /// The settings that change the format of a file.
  struct Kind: CustomStringConvertible, Sendable {
    var seed: UInt64
    var pageSize = 4096
    var encoding = "UTF-8"
    var autoVacuum = 0
    var reserved: Int32 = 0
    var isSecure = false
    var isLegacy = false
    var isWAL = false
    /// The size of the largest value in bytes.
    var valueMax = 20_000

    var description: String {
      "seed \(seed): \(pageSize) \(encoding) auto_vacuum \(autoVacuum) reserved \(reserved) secure \(isSecure) "
        + "legacy \(isLegacy) wal \(isWAL)"
    }

    /// The settings of a seed. Neighbouring seeds differ in the page size, and so on.
    init(_ seed: UInt64) {
      self.seed = seed
      var random = Seeded(seed &* 77)
      pageSize = 512 << Int(seed % 8)
      encoding = ["UTF-8", "UTF-16le", "UTF-16be"][random.below(3)]
      autoVacuum = random.below(3)
      reserved = [0, 0, 8, 32][random.below(4)]
      isSecure = random.below(3) == 0
      isLegacy = random.below(4) == 0
    }
  }

  let path: String
  let kind: Kind
  let database: Database
  private var random: Seeded

  init(_ kind: Kind) throws {
    self.kind = kind
    random = Seeded(kind.seed)
    path = FileManager.default.temporaryDirectory.path + "/cairn-format-\(UUID().uuidString).db"
    database = try Database(ofProgram: path)
    if kind.isLegacy { cairn_db_config_int(database.handle, 1016, 1) }
    if kind.reserved > 0 {
      var reserved = kind.reserved
      sqlite3_file_control(database.handle, "main", 38, &reserved)
    }
    try database.executeScript(
      """
      PRAGMA page_size = \(kind.pageSize); PRAGMA encoding = '\(kind.encoding)'; PRAGMA synchronous = OFF;
      PRAGMA auto_vacuum = \(kind.autoVacuum); PRAGMA secure_delete = \(kind.isSecure ? 1 : 0);
      PRAGMA journal_mode = \(kind.isWAL ? "WAL" : "MEMORY");
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, image BLOB, price REAL, other);
      CREATE INDEX item_name ON item(name);
      CREATE TABLE word(key TEXT PRIMARY KEY, value);
      CREATE TABLE place(town TEXT, number INTEGER, note BLOB, PRIMARY KEY(number, town)) WITHOUT ROWID;
      CREATE TABLE late(first);
      INSERT INTO late VALUES (1), (NULL), ('short');
      ALTER TABLE late ADD COLUMN second DEFAULT 'more';
      ALTER TABLE late ADD COLUMN third REAL DEFAULT 7;
      INSERT INTO late VALUES (2, 3, 4);
      """)
  }

  deinit { for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) } }

  func bytes(_ suffix: String = "") throws -> [UInt8] {
    Array(try Data(contentsOf: URL(fileURLWithPath: path + suffix)))
  }

  // MARK: Writes

  private static let integers: [Int64] = [
    0, 1, 2, -1, 127, 128, -128, -129, 32767, 32768, -32769, 8_388_607, 8_388_608, -8_388_609, 2_147_483_647,
    2_147_483_648, -2_147_483_649, 140_737_488_355_327, 140_737_488_355_328, -140_737_488_355_329, .max, .min,
  ]

  private func size() -> Int {
    switch random.below(20) {
    case 0: random.below(kind.valueMax)
    case 1...4: random.below(kind.pageSize * 2)
    default: random.below(60)
    }
  }

  private func text() -> Value {
    var part = ""
    for _ in 0..<random.below(12) {
      let code =
        switch random.below(5) {
        case 0: 0x1f600 + random.below(64)
        case 1: 0x3b1 + random.below(20)
        case 2: 0x4e00 + random.below(500)
        default: 1 + random.below(126)
        }
      part.unicodeScalars.append(Unicode.Scalar(UInt32(code)) ?? "?")
    }
    return .text(String(repeating: part, count: 1 + size() / 30))
  }

  private func blob() -> Value {
    let part = random.bytes(1 + random.below(60))
    return .blob(Array(repeatElement(part, count: size() / part.count).joined()) + part.prefix(random.below(9)))
  }

  private func value() -> Value {
    switch random.below(6) {
    case 0: .null
    case 1: .integer(Self.integers[random.below(Self.integers.count)])
    case 2: .real([0, 1, -1.5, 1e300, .infinity, -.infinity, 0.1][random.below(7)])
    case 3: blob()
    default: text()
    }
  }

  /// Executes one random statement.
  func write() throws {
    switch random.below(16) {
    case 0...4:
      for _ in 0..<[1, 1, 5, 60][random.below(4)] {
        let id = random.below(3) == 0 ? Value.integer(Int64(random.below(4000) - 1000)) : .null
        try database.run(
          "INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?)", [id, text(), blob(), value(), value()])
      }
    case 5: try database.run("UPDATE item SET price = price + 1, name = ? WHERE id % ? = 0", [text(), number(9)])
    case 6: try database.run("UPDATE item SET image = randomblob(length(image)) WHERE id % ? = 1", [number(9)])
    case 7: try database.run("DELETE FROM item WHERE id % ? = 2", [number(6)])
    case 8: try database.run("DELETE FROM item WHERE id > ?", [.integer(Int64(random.below(4000)))])
    case 9, 10:
      for _ in 0..<[1, 30][random.below(2)] {
        try database.run("INSERT OR REPLACE INTO word VALUES (?, ?)", [.text("k\(random.below(300))"), value()])
      }
    case 11: try database.run("DELETE FROM word WHERE rowid % ? = 0", [number(5)])
    case 12, 13:
      for _ in 0..<[1, 30][random.below(2)] {
        let town = Value.text("town " + String(repeating: "x", count: random.below(80)))
        try database.run(
          "INSERT OR REPLACE INTO place VALUES (?, ?, ?)", [town, number(40), blob()])
      }
    case 14: try database.run("DELETE FROM place WHERE number = ?", [number(40)])
    default: try database.run("INSERT INTO late VALUES (?, ?, ?)", [value(), value(), value()])
    }
  }

  private func number(_ below: Int) -> Value { .integer(Int64(random.below(below) + 2)) }

  func below(_ count: Int) -> Int { random.below(count) }

  // MARK: Comparison

  /// Compares all rows that the decoder finds with those that SQLite returns.
  func compare(_ decoded: DecodedDatabase, at step: String) throws {
    let roots = try decoded.roots()
    #expect(roots.count >= 6, "\(kind) \(step)")
    for (type, name, root) in roots {
      let rows = try decoded.rows(root: root, name)
      let expected = type == "table" ? try shown(name) : []
      let found = type == "table" ? rows.map { Self.columns($0.rowid, $0.values, of: name) } : []
      if found != expected {
        let index = zip(found, expected).enumerated().first { $1.0 != $1.1 }?.offset ?? min(found.count, expected.count)
        Issue.record("\(kind) \(step): row \(index) of \(name), \(found.count) rows and not \(expected.count)")
      }
      if name == "item_name" { #expect(try database.integer("SELECT count(*) FROM item") == Int64(rows.count)) }
    }
    #expect(try database.integer("PRAGMA freelist_count") == Int64(try decoded.readFreePages()), "\(kind) \(step)")
    #expect(decoded.unknownPages() == [], "\(kind) \(step)")
  }

  /// The rows of a table in the order of its tree, with the columns in the order in which they are stored.
  private func shown(_ table: String) throws -> [[Value]] {
    switch table {
    case "place": try database.query("SELECT number, town, note FROM place ORDER BY number, town")
    default: try database.query("SELECT rowid, * FROM \(table) ORDER BY rowid")
    }
  }

  /// Makes the values of a table of the record: the rowid first, the key in place of NULL, defaults of late columns.
  private static func columns(_ rowid: Int64?, _ stored: [Value], of table: String) -> [Value] {
    var values = stored
    if table == "late" { values += [.text("more"), .real(7)].suffix(max(0, 3 - values.count)) }
    if table == "item", let rowid { values[0] = .integer(rowid) }
    let realColumn = ["item": 3, "late": 2][table]
    if let realColumn, case .integer(let number) = values[realColumn] { values[realColumn] = .real(Double(number)) }
    return (rowid.map { [.integer($0)] } ?? []) + values
  }
}
