import Changes
import Conflicts
import TestServers
import Testing

@testable import Applying

/// The source writes at random, and so do others at the target: a row that the source has written to is as it has it.
@Suite struct LocalWritesRandomTests {
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

  /// Three writes of applications that fit the target's rows.
  private func localWrites(_ rows: [Int64: [Int64]], _ random: inout some RandomNumberGenerator) -> [EngineTarget.Write]
  {
    var rows = rows
    return (0..<3).compactMap { _ in
      let key = Int64.random(in: Self.keys, using: &random)
      let kind = Int.random(in: 0...2, using: &random)
      guard let row = rows[key] else {
        rows[key] = [key, 9, 9]
        return kind == 2 ? .insert([.integer(key), 9, 9]) : nil
      }
      switch kind {
      case 0:
        rows[key] = nil
        return .delete(.integer(key))
      case 1:
        rows[key]?[2] += 1
        return .update(.integer(key), "b", .integer(row[2] + 1))
      default: return nil
      }
    }
  }

  private func rows(_ target: EngineTarget) throws -> [Int64: [Int64]] {
    let rows = try target.numbers().values.map { $0.map { Int64($0.shown) ?? -1 } }
    return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0) })
  }

  /// Returns the target's rows after each round.
  private func play(seed: UInt64, rounds: Int, _ engine: TargetEngine) throws -> [[Int64: [Int64]]] {
    let target = try EngineTarget(engine)
    let made = target.made
    target.options.localWrites = LocalWritesPlan(.allow)
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)", [])
    var random = Seeded(seed)
    var (source, history) = (Source(), [[Int64: [Int64]]]())
    func wanted(_ key: Int64) -> [Int64]? { source.rows[key]?.map { Int64($0.shown) ?? -1 } }
    for _ in 0..<rounds {
      let before = try rows(target)
      source.touched = []
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        try made.transaction {
          for _ in 0..<Int.random(in: 1...5, using: &random) { try source.write(made, &random) }
        }
      }
      try target.replay()
      let after = try rows(target)
      for key in Self.keys {
        let expected = source.touched.contains(key) ? wanted(key) : before[key]
        #expect(after[key] == expected, "\(engine), seed \(seed), key \(key)")
      }
      history.append(after)
      try target.write(localWrites(after, &random))
    }
    try made.transaction { try made.copy("t", source.rows.keys.sorted().map { source.rows[$0] ?? [] }, reason: .asked) }
    target.options.localWrites = LocalWritesPlan(.undo)
    try target.replay()
    let last = try rows(target)
    #expect(last == source.rows.keys.reduce(into: [:]) { $0[$1] = wanted($1) }, "\(engine), seed \(seed)")
    return history + [last]
  }

  @Test(arguments: Seeds.range(reduced: 30)) func `SQLite ends as the model`(seed: UInt64) throws {
    #expect(try play(seed: seed, rounds: 30, .sqlite) == play(seed: seed, rounds: 30, .memory), "seed \(seed)")
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `PostgreSQL ends as the model`() throws {
    #expect(try play(seed: 5, rounds: 12, .postgres) == play(seed: 5, rounds: 12, .memory))
  }
}
