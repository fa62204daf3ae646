import Applying
import Changes
import Foundation
import TestServers
import Testing

/// Random programs at the source, as a trail records them, with copies in between: the target ends up equal.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresRandomTests {
  /// The rows of the source: by key, a unique number and a text.
  private typealias Rows = [Int64: (unique: Int64, text: String)]

  private static func image(_ id: Int64, _ row: (unique: Int64, text: String)) -> [Value] {
    [.integer(id), .integer(row.unique), .text(row.text)]
  }

  /// One change that the source's constraints allow, made in `rows` and written to the trail.
  private func change(_ rows: inout Rows, _ trail: Handmade, _ random: inout Seeded) throws {
    let id = Int64.random(in: 1...60, using: &random)
    let unique = Int64.random(in: 1...80, using: &random)
    let isFree = !rows.values.contains { $0.unique == unique }
    guard let old = rows[id] else {
      guard isFree else { return }
      rows[id] = (unique, "new \(unique)")
      return try trail.insert("t", Self.image(id, (unique, "new \(unique)")))
    }
    switch Int.random(in: 0..<5, using: &random) {
    case 0:
      rows[id] = nil
      try trail.delete("t", Self.image(id, old))
    case 1 where isFree:
      rows[id] = (unique, old.text)
      try trail.update("t", Self.image(id, old), [nil, .integer(unique), nil])
    case 2:
      let other = Int64.random(in: 1...60, using: &random)
      guard rows[other] == nil else { return }
      (rows[id], rows[other]) = (nil, old)
      try trail.update("t", Self.image(id, old), [.integer(other), nil, nil])
    default:
      rows[id] = (old.unique, "changed \(unique)")
      try trail.update("t", Self.image(id, old), [nil, nil, .text("changed \(unique)")])
    }
  }

  private func changes(_ rows: inout Rows, _ trail: Handmade, _ random: inout Seeded) throws {
    for _ in 0..<Int.random(in: 0...4, using: &random) {
      try trail.transaction {
        for _ in 0..<Int.random(in: 1...30, using: &random) { try change(&rows, trail, &random) }
      }
    }
  }

  private func copy(_ rows: inout Rows, _ trail: Handmade, _ reason: Refresh.Reason, _ random: inout Seeded) throws {
    try trail.transaction { try trail.refresh("t", .start(reason, .byKey, estimatedRows: 0)) }
    var from: Int64?
    while from != 60 {
      try changes(&rows, trail, &random)
      let through = min(60, (from ?? 0) + Int64.random(in: 5...40, using: &random))
      try trail.transaction {
        let bounds = [from, through == 60 ? nil : through].map { key in
          key.map { [Value?.some(.integer($0)), nil, nil] }
        }
        try trail.refresh("t", .chunk(.keys(after: bounds[0], through: bounds[1])))
        for (id, row) in rows.sorted(by: { $0.key < $1.key }) where id > from ?? .min && id <= through {
          try trail.row("t", Self.image(id, row))
        }
      }
      from = through
    }
    try trail.transaction { try trail.refresh("t", .end(rows: 0)) }
  }

  @Test(arguments: Seeds.drawn(reduced: 10))
  func `the target ends up equal`(seed: UInt64) throws {
    print("seed \(seed)")
    var random = Seeded(seed)
    let target = try PostgresTarget()
    target.options.commitRows = Int.random(in: 1...200, using: &random)
    let trail = target.trail
    if Bool.random(using: &random) {
      try target.psql(
        """
        CREATE TABLE t(id bigint PRIMARY KEY, u bigint UNIQUE, s text);
        INSERT INTO t SELECT n, 81 - n, 'stale' FROM generate_series(1, 70, 3) n
        """)
    }
    var rows: Rows = [:]
    for id in 1...20 { rows[Int64(id)] = (Int64(id), "first") }
    try trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, u INTEGER UNIQUE, s TEXT)")
    try trail.transaction { try trail.create("t") }
    try copy(&rows, trail, .firstCopy, &random)
    try changes(&rows, trail, &random)
    try target.replay()
    try check(target, rows)
    try changes(&rows, trail, &random)
    try copy(&rows, trail, .asked, &random)
    try target.replay()
    try changes(&rows, trail, &random)
    try target.replay()
    try check(target, rows)
  }

  private func check(_ target: PostgresTarget, _ rows: Rows) throws {
    let wanted = rows.sorted { $0.key < $1.key }.map { "\($0.key)|\($0.value.unique)|\($0.value.text)" }
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == wanted.joined(separator: "\n"))
  }
}
