import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Applying
@testable import Capturing

/// Two files, each captured and each the target of the other's trail.
@Suite struct BothWaysTests {
  private struct Pair {
    let there: Replica
    let back: Replica

    init(_ setup: String) throws {
      let folder = try TempFolder()
      there = Replica(folder)
      try execute(there.source, "PRAGMA journal_mode = WAL;" + setup)
      try there.takeAndReplay()
      // As another run, which finds the file captured.
      there.close()
      back = Replica(folder, source: "target.db", target: "source.db", trail: "back")
      back.name = TrailName(origin: "b", name: "back")
      back.options.place = folder("state of b")
      back.options.copiesRows = false
      for replica in [there, back] {
        let trail = replica.name
        replica.applyOptions.ddl = .follow
        replica.applyOptions.schemaFollower = SchemaFollower(
          release: { try AppliedSchema.release($0, in: $1, since: $2) },
          adopt: { try AppliedSchema.adopt(in: $0, since: $1, of: trail) })
      }
      try back.takeAndReplay()
    }

    func settle() throws {
      for _ in 0..<2 {
        try there.takeAndReplay()
        try back.takeAndReplay()
      }
    }

    /// Returns the records of the way back: rows, and changes of tables.
    func told() throws -> [String] { try BothWaysTests.told(back.trail) }
  }

  private static func told(_ trail: String) throws -> [String] {
    let reader = try TrailReader.open(folder: trail, at: nil)
    var lines: [String] = []
    while let record = try reader.next() {
      switch record {
      case .change(let change):
        lines.append("\(change.operation) \(reader.schema(change.schemaID)?.name ?? "?")")
      case .refresh(let refresh):
        if case .start = refresh.event { lines.append("copy \(reader.schema(refresh.schemaID)?.name ?? "?")") }
      case .refreshRow: lines.append("row")
      case .ddl(let ddl):
        lines.append("\(ddl.action) \(reader.schema(ddl.after == 0 ? ddl.before : ddl.after)?.name ?? "?")")
      default: break
      }
    }
    return lines
  }

  @Test func `without a copy, a table that comes after a start that captured nothing is copied`() throws {
    let replica = Replica(try TempFolder())
    replica.options.copiesRows = false
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    let stop = StopSignal()
    stop.set()
    try replica.take(until: stop)
    replica.close()
    try #require(Trail.info(folder: replica.trail).lastTransaction == 0)
    try execute(replica.source, "CREATE TABLE late(id INTEGER PRIMARY KEY); INSERT INTO late VALUES (1)")
    try replica.take()
    #expect(try Self.told(replica.trail) == ["create t", "create late", "copy late", "row"])
  }

  @Test func `without a copy, rows that were there are not sent, and every change from then on is`() throws {
    let pair = try Pair("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, 2)")
    try execute(pair.back.source, "UPDATE t SET a = 3 WHERE id = 1")
    try pair.settle()
    #expect(try pair.told() == ["create t", "update t"])
    // The row of a table that comes later was written before capture looked, so it is copied.
    try execute(pair.back.source, "CREATE TABLE late(id INTEGER PRIMARY KEY); INSERT INTO late VALUES (1)")
    try pair.settle()
    try execute(pair.back.source, "INSERT INTO late VALUES (2)")
    try pair.settle()
    #expect(try pair.told() == ["create t", "update t", "create late", "copy late", "row", "insert late"])
    #expect(try pair.there.differences() == [])
  }

  @Test func `a schema change that apply makes copies nothing back, and loses nothing`() throws {
    let pair = try Pair(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, u); CREATE TABLE gone(x); INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    let changes = [
      "ALTER TABLE t ADD COLUMN b DEFAULT 5; UPDATE t SET b = 6 WHERE id = 2", "ALTER TABLE t RENAME COLUMN a TO c",
      "CREATE TABLE made(id INTEGER PRIMARY KEY, v); INSERT INTO made VALUES (1, 'x')",
      "CREATE INDEX i ON t(u)", "ALTER TABLE made RENAME TO other", "DROP TABLE gone",
    ]
    let known = try pair.told().count
    for (index, change) in changes.enumerated() {
      try execute(pair.there.source, change)
      try pair.there.takeAndReplay()
      try execute(pair.back.source, "INSERT INTO t(id, u) VALUES (\(10 + index), \(index))")
      if index == 2 { try execute(pair.back.source, "UPDATE made SET v = 'y'") }
      if index == 4 { try execute(pair.back.source, "UPDATE other SET v = 'z'") }
      try pair.settle()
      #expect(try pair.there.differences() == [], "\(change)")
    }
    let told = try pair.told().dropFirst(known)
    #expect(told.filter { $0.hasPrefix("copy") || $0 == "row" } == [])
    #expect(told.filter { $0 == "insert t" }.count == changes.count)
    #expect(told.filter { $0 == "update made" || $0 == "update other" }.count == 2)
    let count = try [pair.there, pair.back].map { try transactions(of: $0.trail).filter { $0.records > 0 }.count }
    try pair.settle()
    let later = try [pair.there, pair.back].map { try transactions(of: $0.trail).filter { $0.records > 0 }.count }
    #expect(count == later)
  }

  /// A capture with room for some ten tables in a segment, and the file's apply.
  private func narrow() throws -> Pair {
    let pair = try Pair("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    pair.back.close()
    (pair.back.trailOptions.schemaBytes, pair.back.trailOptions.schemaBytesMax) = (30 << 10, 100 << 10)
    pair.there.close()
    pair.there.applyOptions.followedDefinitionBytesMax = 25 << 10
    return pair
  }

  private static let columns = (0..<40).map { "c\($0) INTEGER" }.joined(separator: ", ")

  private static func create(_ names: [String]) -> String {
    names.map { "CREATE TABLE \($0)(id INTEGER PRIMARY KEY, \(columns))" }.joined(separator: "; ")
  }

  @Test(.timeLimit(.minutes(20)))
  func `a peer's transaction with more definitions than the file's capture has room for ends no capture`() throws {
    let pair = try narrow()
    let names = (0..<30).map { "made\($0)" }
    let rows = names.map { "INSERT INTO \($0)(id) VALUES (1)" }.joined(separator: "; ")
    try execute(pair.there.source, "BEGIN; \(Self.create(names)); \(rows); COMMIT")
    try pair.there.takeAndReplay()
    try pair.back.take()
    let target = try Database(path: pair.there.target)
    let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'made%'"
    let end = Clock.monotonicMilliseconds + 60_000
    while try target.integer(count) != 30, Clock.monotonicMilliseconds < end {
      Clock.sleep(milliseconds: 500)
      try pair.there.replay()
      try pair.back.take()
    }
    #expect(try target.integer(count) == 30)
    #expect(try pair.there.differences() == [])
    try execute(pair.back.source, "INSERT INTO t VALUES (7, 7)")
    try pair.back.take()
    #expect(try pair.told().last == "insert t")
    // Most were suspended, and followed one by one.
    #expect(try countMaking("made", in: pair.back.trail) > 5)
  }

  /// A peer may ask for rows of any tables that it may read.
  @Test func `requests for rows of more tables than a transaction has room for end no capture`() throws {
    let pair = try narrow()
    let names = (0..<30).map { "asked\($0)" }
    for name in names {
      try execute(pair.back.source, Self.create([name]) + "; INSERT INTO \(name)(id) VALUES (1)")
      try pair.back.take()
    }
    let known = try pair.told().count
    for name in names {
      try Journal(Database(path: pair.back.source, mode: .readWrite)).ask(
        RowRequest(table: name, keys: [[.integer(1)]]))
    }
    try pair.back.take()
    let sent = try pair.told().dropFirst(known).filter { $0 == "row" }.count
    #expect(sent > 0 && sent < names.count)
    try execute(pair.back.source, "INSERT INTO t VALUES (7, 7)")
    try pair.back.takeAndReplay()
    #expect(try pair.told().last == "insert t")
    #expect(try pair.back.differences() == [])
  }

  /// The number of transactions with tables of this prefix that were made.
  private func countMaking(_ prefix: String, in trail: String) throws -> Int {
    let reader = try TrailReader.open(folder: trail, at: nil)
    var (count, isMaking) = (0, false)
    while let record = try reader.next() {
      switch record {
      case .ddl(let ddl): if let name = reader.schema(ddl.after)?.name, name.hasPrefix(prefix) { isMaking = true }
      case .commit:
        if isMaking { count += 1 }
        isMaking = false
      default: break
      }
    }
    return count
  }

  @Test func `a transaction that writes to more tables than a segment has room for is copied`() throws {
    let pair = try narrow()
    let names = (0..<30).map { "own\($0)" }
    for name in names {
      try execute(pair.back.source, Self.create([name]))
      try pair.back.take()
    }
    let rows = names.map { "INSERT INTO \($0)(id) VALUES (1)" }.joined(separator: "; ")
    try execute(pair.back.source, "BEGIN; \(rows); COMMIT")
    try pair.back.takeAndReplay()
    #expect(try pair.back.differences() == [])
  }

  @Test func `two ends send each other what they have, and then nothing more`() throws {
    let pair = try Pair("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    try execute(pair.there.source, "INSERT INTO t VALUES (1, 1)")
    try execute(pair.back.source, "INSERT INTO t VALUES (2, 2)")
    try pair.settle()
    let counts = try [pair.there, pair.back].map { try transactions(of: $0.trail).count }
    for (one, other) in [(pair.there, pair.back), (pair.back, pair.there)] {
      let changed = try #require(try transactions(of: other.trail).last { $0.records > 0 }?.header.number)
      let known = try #require(try transactions(of: one.trail).last?.header.dependencies.first)
      #expect(known.origin == other.name.description && known.number >= changed)
    }
    for _ in 0..<3 { try pair.settle() }
    #expect(try [pair.there, pair.back].map { try transactions(of: $0.trail).count } == counts)
  }
}
