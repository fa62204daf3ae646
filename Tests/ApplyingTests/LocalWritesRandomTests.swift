import Changes
import Conflicts
import Foundation
import SQLiteKit
import TestServers
import Testing
@testable import Applying

/// The source writes at random, and so do others at the target: a row that the source has written to is as it has it.
@Suite struct LocalWritesRandomTests {
  private static let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)"
  private static let keys: ClosedRange<Int64> = 1...12

  /// The rows of the source, and the keys that it has written since the target was looked at last.
  private struct Source {
    var rows: [Int64: [Value]] = [:]
    var touched: Set<Int64> = []

    /// One change that fits, as a record of the trail.
    mutating func write(_ made: Handmade, _ random: inout some RandomNumberGenerator) throws {
      let key = Int64.random(in: keys, using: &random)
      touched.insert(key)
      let value = Value.integer(.random(in: 0...3, using: &random))
      guard let row = rows[key] else {
        rows[key] = [.integer(key), value, 0]
        return try made.insert("t", [.integer(key), value, 0])
      }
      switch Int.random(in: 0...3, using: &random) {
      case 0:
        rows[key] = nil
        try made.delete("t", row)
      case 1:
        let other = Int64.random(in: keys, using: &random)
        guard rows[other] == nil else { return try update(key, row, value, made) }
        touched.insert(other)
        rows[key] = nil
        rows[other] = [.integer(other), row[1], row[2]]
        try made.update("t", row, [.integer(other), nil, nil])
      default: try update(key, row, value, made)
      }
    }

    private mutating func update(_ key: Int64, _ row: [Value], _ value: Value, _ made: Handmade) throws {
      rows[key] = [row[0], value, row[2]]
      try made.update("t", row, [nil, value, nil])
    }
  }

  private func localWrite(_ random: inout some RandomNumberGenerator) -> String {
    let key = Int64.random(in: Self.keys, using: &random)
    return switch Int.random(in: 0...2, using: &random) {
    case 0: "DELETE FROM t WHERE id = \(key);"
    case 1: "UPDATE t SET b = b + 1 WHERE id = \(key);"
    default: "INSERT INTO t VALUES (\(key), 9, 9) ON CONFLICT DO NOTHING;"
    }
  }

  /// `run` executes at the target, `rows` are those there in the order of their keys.
  private func play(
    seed: UInt64, rounds: Int, _ made: Handmade, run: (String) throws -> Void, replay: () throws -> Void,
    undo: () throws -> Void, rows: () throws -> [[Int64]]
  ) throws {
    var random = Seeded(seed)
    var source = Source()
    func wanted(_ key: Int64) -> [Int64]? { source.rows[key]?.map { Int64($0.shown) ?? -1 } }
    for _ in 0..<rounds {
      let before = try Dictionary(uniqueKeysWithValues: rows().map { ($0[0], $0) })
      source.touched = []
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        try made.transaction {
          for _ in 0..<Int.random(in: 1...5, using: &random) { try source.write(made, &random) }
        }
      }
      try replay()
      let after = try Dictionary(uniqueKeysWithValues: rows().map { ($0[0], $0) })
      for key in Self.keys {
        let expected = source.touched.contains(key) ? wanted(key) : before[key]
        #expect(after[key] == expected, "seed \(seed), key \(key)")
      }
      try run((0..<3).map { _ in localWrite(&random) }.joined())
    }
    try made.transaction { try made.copy("t", source.rows.keys.sorted().map { source.rows[$0] ?? [] }, reason: .asked) }
    try undo()
    #expect(try rows() == source.rows.keys.sorted().compactMap(wanted), "seed \(seed)")
  }

  @Test(arguments: Seeds.range(reduced: 30)) func `in SQLite`(seed: UInt64) throws {
    let made = try Handmade(TempFolder())
    made.options.localWrites = LocalWritesPlan(.allow)
    try made.begin(Self.sql, "t", [])
    try play(
      seed: seed, rounds: 30, made, run: made.run, replay: made.replay,
      undo: {
        made.options.localWrites = LocalWritesPlan(.undo)
        try made.replay()
      },
      rows: { try made.rows("SELECT * FROM t ORDER BY id").map { $0.map { Int64($0.shown) ?? -1 } } })
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server")) func `in PostgreSQL`() throws {
    let target = try PostgresTarget()
    target.options.localWrites = LocalWritesPlan(.allow)
    try target.begin(Self.sql, "t", [])
    try play(
      seed: 5, rounds: 12, target.trail, run: { try target.psql($0) }, replay: target.replay,
      undo: {
        target.options.localWrites = LocalWritesPlan(.undo)
        try target.replay()
      },
      rows: {
        try target.psql("SELECT concat_ws(' ', id, a, b) FROM t ORDER BY id").split(separator: "\n").map { line in
          line.split(separator: " ").map { Int64($0) ?? -1 }
        }
      })
  }
}
