import Applying
import Changes
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Transactions of a source that need more table definitions than a segment of the trail may have.
  @Suite struct RoomTests {
    private static let columns = (0..<30).map { "c\($0) int" }.joined(separator: ", ")

    private static func create(_ name: String) -> String {
      "CREATE TABLE \(name)(id int PRIMARY KEY, \(columns)); INSERT INTO \(name)(id) VALUES (1), (2)"
    }

    /// A source with tables whose definitions take some 6 KB each. A segment of its trail has room for 100 KB.
    private func origin(_ tables: [String]) throws -> PostgresOrigin {
      let origin = try PostgresOrigin(tables.map(Self.create).joined(separator: "; "))
      (origin.trailOptions.schemaBytes, origin.trailOptions.schemaBytesMax) = (30 << 10, 100 << 10)
      return origin
    }

    /// Checks that a target which follows the whole trail has the tables and rows of the source.
    private func expectEqual(_ origin: PostgresOrigin, _ seed: UInt64 = 0) throws {
      let (path, drain) = (origin.folder("target.db"), StopSignal())
      drain.set()
      try SQLiteApply(path: path, trail: origin.trailFolder, name: origin.name, options: ApplyOptions()).run(
        stop: StopSignal(), drain: drain)
      let database = try Database(path: path)
      let tables = try origin.run(
        "SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
      )
      #expect(
        try database.text(
          "SELECT group_concat(name, ',') FROM (SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'cairn%' AND name NOT LIKE 'sqlite%' ORDER BY name)"
        ) == tables, "seed \(seed)")
      for table in tables.split(separator: ",") {
        let columns = try origin.run(
          "SELECT string_agg(format('coalesce(%s, -1)', attname), ' || '' '' || ' ORDER BY attname) FROM pg_attribute WHERE attrelid = '\(table)'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        let there = try origin.run("SELECT string_agg(\(columns), ',' ORDER BY id) FROM \(table)")
        let here = try database.text(
          "SELECT group_concat(\(columns), ',') FROM (SELECT * FROM \(table) ORDER BY id)")
        #expect(here ?? "" == there, "\(table), seed \(seed)")
      }
    }

    @Test func `a transaction that alters too many tables ends no capture`() throws {
      let tables = (0..<4).map { "t\($0)" }
      let origin = try origin(tables)
      try origin.take()
      let alters = (0..<40).map { "ALTER TABLE t\($0 % 4) ADD COLUMN x\($0) int DEFAULT \($0)" }
      try origin.run(
        "BEGIN; \(alters.joined(separator: "; ")); INSERT INTO t0(id, x36) VALUES (3, 7); DROP TABLE t3; \(Self.create("t3")); \(Self.create("made")); COMMIT"
      )
      try origin.run("UPDATE t1 SET c0 = 5 WHERE id = 1; INSERT INTO made(id) VALUES (9)")
      let said = Notices()
      try origin.take(said: said.add)
      #expect(said.all.count { $0.contains("alters more tables than a segment of the trail has room for") } == 1)
      try origin.run("UPDATE t1 SET c0 = 6 WHERE id = 2; DELETE FROM made WHERE id = 9")
      try origin.take()
      try expectEqual(origin)
    }

    @Test func `a transaction that writes to too many tables ends no capture`() throws {
      let tables = (0..<30).map { "t\($0)" }
      let origin = try origin(tables)
      try origin.take()
      try origin.run(
        "BEGIN; \(tables.map { "UPDATE \($0) SET c0 = 8 WHERE id = 1; DELETE FROM \($0) WHERE id = 2" }.joined(separator: "; ")); COMMIT"
      )
      let said = Notices()
      try origin.take(said: said.add)
      #expect(said.all.contains { $0.contains("uses more table definitions") }, "\(said.all)")
      try expectEqual(origin)
    }

    @Test(arguments: Seeds.range(reduced: 5))
    func `whatever transactions alter, the target has it in the end`(_ seed: UInt64) throws {
      var random = Seeded(seed)
      var tables = (0..<5).map { "t\($0)" }
      let origin = try origin(tables)
      try origin.take()
      if seed % 3 == 0 { try origin.disableTriggers() }
      var count = 10
      for _ in 0..<4 {
        var statements: [String] = []
        for _ in 0..<(4 + random.below(30)) {
          count += 1
          let table = tables[random.below(tables.count)]
          let other = tables[random.below(tables.count)]
          switch random.below(9) {
          case 0, 1: statements.append("ALTER TABLE \(table) ADD COLUMN x\(count) int DEFAULT \(count)")
          case 2, 3: statements.append("INSERT INTO \(table)(id, c0) VALUES (\(count), \(count))")
          case 4: statements.append("UPDATE \(table) SET c1 = \(count) WHERE id < \(count - random.below(8))")
          case 5: statements.append("DELETE FROM \(table) WHERE id = \(1 + random.below(count))")
          case 6: statements.append("DROP TABLE \(table); \(Self.create(table))")
          case 7 where table != other:
            statements.append(
              "ALTER TABLE \(table) RENAME TO swap; ALTER TABLE \(other) RENAME TO \(table); ALTER TABLE swap RENAME TO \(other)"
            )
          case 8 where tables.count < 12:
            tables.append("n\(count)")
            statements.append(Self.create("n\(count)"))
          default: statements.append("ALTER TABLE \(table) DROP COLUMN IF EXISTS x\(count - 1 - random.below(5))")
          }
        }
        try origin.run("BEGIN; \(statements.joined(separator: "; ")); COMMIT")
        if random.below(3) > 0 { try origin.take() }
      }
      try origin.take()
      try expectEqual(origin, seed)
    }
  }
}
