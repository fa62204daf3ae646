import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// Changes that apply has brought into a file that is captured too.
///
/// Every row that a program writes here says in `knows` how much of trail `b.x` the file had then.
@Suite struct VersionVectorTests {
  private static let setup = """
    PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, knows, a UNIQUE); INSERT INTO t VALUES (1, 0, 'first')
    """

  private func started() throws -> Replica {
    let replica = Replica(try TempFolder())
    try execute(replica.source, Self.setup)
    try replica.takeAndReplay()
    return replica
  }

  /// As an apply does it: without triggers, and with its note.
  private func bring(_ number: UInt64, clock: UInt64 = 0, of trail: String = "b.x", _ sql: String = "", to path: String)
    throws
  {
    let database = try Database(path: path)
    database.setTriggersEnabled(false)
    try database.transaction {
      if !sql.isEmpty { try database.executeScript(sql) }
      let note = AppliedNote(trail: trail, number: number, clock: clock, position: .start)
      #expect(try JournalNotes(database).write(note))
    }
  }

  /// Returns the rows of the trail, each with the knowledge that it claims and the knowledge in its transaction's
  /// header.
  private func told(_ trail: String) throws -> [(id: Value?, says: UInt64, header: UInt64)] {
    let reader = try TrailReader.open(folder: trail, at: nil)
    var header = TransactionHeader(commitTime: 0)
    var found: [(id: Value?, says: UInt64, header: UInt64)] = []
    while let record = try reader.next() {
      if case .begin(let begun) = record { header = begun }
      guard case .change(let change) = record, let image = try change.after?.values(),
        let schema = reader.schema(change.schemaID)
      else { continue }
      // Columns of an update that did not change are in its old image.
      let before = try change.before?.values()
      let index = try #require(schema.columns.firstIndex { $0.name == "knows" })
      guard case .integer(let says)? = image[index] ?? before?[index] else { continue }
      found.append(
        (image[0] ?? before?[0], UInt64(says), header.dependencies.first { $0.origin == "b.x" }?.number ?? 0))
    }
    return found
  }

  @Test(arguments: [NumberBounds.followedClock, NumberBounds.clocks - 1, 0], [true, false])
  func `a note moves the clock of the trail no further than an apply lets clocks in`(noted: UInt64, isRelayed: Bool)
    throws
  {
    let replica = Replica(try TempFolder())
    replica.options.relays = isRelayed
    replica.options.skewMicrosecondsMax = 5_000_000
    try execute(replica.source, Self.setup)
    try replica.takeAndReplay()
    let database = try Database(path: replica.source)
    let origin: TransactionHeader.Dependency? = isRelayed ? .init(origin: "c.y", number: 3) : nil
    let note = AppliedNote(trail: "b.x", number: 4, clock: noted, position: .start, origin: origin)
    let isNoted = try database.transaction { try JournalNotes(database).write(note) }
    #expect(isNoted)
    try execute(replica.source, "INSERT INTO t VALUES (2, 4, 'second')")
    try replica.take()
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    var clock: UInt64 = 0
    while let record = try reader.next() { if case .begin(let header) = record { clock = max(clock, header.clock) } }
    let now = UInt64(clamping: Clock.system.microseconds())
    #expect(clock <= now + 5_000_000 + 60_000_000 + 1)
    if noted > 0 { #expect(clock > now + 5_000_000, "and so far it does") }
  }

  private func expectTold(_ replica: Replica, _ ids: [Int64], sourceLocation: SourceLocation = #_sourceLocation) throws
  {
    let told = try told(replica.trail)
    #expect(told.map(\.id) == ids.map { .integer($0) }, sourceLocation: sourceLocation)
    for row in told { #expect(row.says == row.header, "row \(row)", sourceLocation: sourceLocation) }
  }

  @Test func `each row comes with what apply had brought before it`() throws {
    let replica = try started()
    let clock: UInt64 = 5_000_000_000_000_000
    try execute(replica.source, "INSERT INTO t VALUES (2, 0, 2)")
    try bring(3, "INSERT INTO t VALUES (100, 0, 100)", to: replica.source)
    replica.options.skewMicrosecondsMax = Int64(clock)
    replica.close()
    try bring(5, clock: clock, to: replica.source)
    try execute(replica.source, "INSERT INTO t VALUES (3, 5, 3); REPLACE INTO t VALUES (4, 5, 2)")
    try bring(4, of: "a.x", to: replica.source)
    try bring(50, of: Replica.name.description, to: replica.source)
    try bring(4, to: replica.source)
    try bring(0, of: "c.x", to: replica.source)
    try execute(replica.source, "UPDATE t SET a = 33 WHERE id = 3")
    try bring(9, to: replica.source)
    try replica.take()
    try expectTold(replica, [2, 3, 4, 3])
    let all = try transactions(of: replica.trail)
    let headers = all.filter { $0.records > 0 }.map(\.header)
    #expect(headers.count == 4)
    #expect(headers[1].clock < clock && headers[2].clock == clock + 1)
    #expect(headers[3].dependencies == [.init(origin: "a.x", number: 4), .init(origin: "b.x", number: 5)])
    // A capture that ends writes what is left.
    #expect(try #require(all.last).header.dependencies.last?.number == 9 && all.last?.records == 0)
    let count = all.count
    try replica.take()
    replica.close()
    try replica.take()
    #expect(try transactions(of: replica.trail).count == count)
    try execute(replica.source, "INSERT INTO t VALUES (5, 9, 5)")
    try replica.take()
    try expectTold(replica, [2, 3, 4, 3, 5])
  }

  @Test func `notes alone are written once a second at most, and a change at once`() throws {
    let replica = try started()
    let (source, trail) = (replica.source, replica.trail)
    let before = try transactions(of: trail).count
    let clock = Clock.monotonicMilliseconds
    let ended = try following(replica, seconds: 0) {
      for number in 1...30 { try bring(UInt64(number), "INSERT INTO t VALUES (\(100 + number), 0, NULL)", to: source) }
      try execute(source, "INSERT INTO t VALUES (2, 30, 2)")
      while try transactions(of: trail).last?.records != 1 { Clock.sleep(milliseconds: 1) }
      try bring(31, to: source)
      while try transactions(of: trail).last?.header.dependencies.first?.number != 31 { Clock.sleep(milliseconds: 5) }
    }
    #expect(ended == nil)
    try expectTold(replica, [2])
    let seconds = Int(Clock.monotonicMilliseconds - clock) / 1000
    #expect(try transactions(of: trail).count <= before + 3 + seconds)
  }

  @Test func `changes that an older cairn brought, or that have no note, are known from the checkpoint`() throws {
    let replica = Replica(try TempFolder())
    let checkpoint = """
      CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, number INTEGER, trail_id BLOB);
      INSERT INTO cairn_checkpoint VALUES ('b.x', 7, NULL)
      """
    try execute(replica.source, Self.setup + ";" + checkpoint)
    try replica.take()
    try execute(replica.source, "INSERT INTO t VALUES (2, 7, 2)")
    try replica.take()
    replica.close()
    // The journal of an older version.
    try execute(
      replica.source,
      "UPDATE cairn_control SET version = 2 WHERE id = 0; UPDATE cairn_checkpoint SET number = 8; INSERT INTO t VALUES (3, 7, 3)"
    )
    try replica.take()
    try execute(replica.source, "INSERT INTO t VALUES (4, 8, 4)")
    try replica.take()
    try expectTold(replica, [2, 3, 4])
  }

  @Test func `notes that were lost with the journal's oldest rows are known from the checkpoint`() throws {
    let replica = Replica(try TempFolder())
    replica.options.journalCapRows = 256
    try execute(
      replica.source,
      Self.setup + ";CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, number INTEGER, trail_id BLOB)")
    try replica.takeAndReplay()
    replica.close()
    for number in 1...1024 { try bring(UInt64(number), to: replica.source) }
    #expect(try #require(try hooks(replica).fill()).rows < 512)
    try execute(
      replica.source, "INSERT INTO cairn_checkpoint VALUES ('b.x', 1030, NULL); UPDATE t SET knows = 1, a = 'lost'")
    try replica.take()
    try execute(replica.source, "INSERT INTO t VALUES (2, 1030, 2)")
    try replica.takeAndReplay()
    try expectTold(replica, [2])
    #expect(try replica.differences() == [])
  }

  @Test func `an older cairn's journal gets no notes, nor does a file without capture`() throws {
    let replica = try started()
    let database = try Database(path: replica.source)
    let note = AppliedNote(trail: "b.x", number: 1, clock: 1, position: .start)
    let notes = JournalNotes(database)
    try database.execute("UPDATE cairn_control SET version = 2 WHERE id = 0")
    #expect(try !notes.write(note))
    try database.execute("UPDATE cairn_control SET version = 3 WHERE id = 0")
    #expect(try notes.write(note))
    replica.close()
    #expect(try Journal(database).detach())
    #expect(try !notes.write(note))
  }

  /// Invariants 1 and 4: a look becomes several transactions of the trail, and capture may end after any of them.
  @Test func `a look that was cut anywhere goes on exactly`() throws {
    let replica = try started()
    // A block for each record.
    replica.trailOptions.blockBytes = 1
    replica.close()
    func everywhere(_ number: UInt64, _ sql: String) throws {
      try bring(number, sql, to: replica.source)
      try execute(replica.target, sql)
    }
    try execute(replica.source, "CREATE INDEX i ON t(knows); INSERT INTO t VALUES (2, 0, 2)")
    try replica.takeAndReplay()
    replica.close()
    let folder = replica.folder
    try runTool("cp", ["-r", replica.trail, folder("before")])
    try execute(replica.target, "UPDATE t SET a = 'differs' WHERE id = 1")
    try execute(replica.source, "INSERT INTO t VALUES (3, 0, 3); DROP INDEX i; REPLACE INTO t VALUES (4, 0, 2)")
    try everywhere(5, "INSERT INTO t VALUES (100, 0, 100)")
    try hooks(replica).ask(.init(table: "t", keys: [[.integer(1)]]))
    try execute(replica.source, "INSERT INTO t VALUES (5, 5, 5); CREATE TABLE u(id INTEGER PRIMARY KEY, knows)")
    try everywhere(6, "UPDATE t SET a = 'brought' WHERE id = 100")
    let moments = Moments()
    let (source, image) = (replica.source, folder("image.db"))
    replica.clock = moments.clock
    moments.at { moment in
      // Later looks take the mark of a copy off, once it is durable in the trail: no cut trail goes with that source.
      guard moment == .snapshotTaken, !FileManager.default.fileExists(atPath: image) else { return }
      _ = try FileImage(source, as: image)
    }
    try execute(source, "UPDATE t SET knows = 6, a = 'again' WHERE id = 3")
    try replica.take()
    replica.close()
    #expect(try moments.looks() >= 1)
    replica.clock = .system
    try runTool("cp", ["-r", replica.trail, folder("after")])
    #expect(try transactions(of: folder("after")).count >= transactions(of: folder("before")).count + 4)
    let segment = try #require(
      FileManager.default.contentsOfDirectory(atPath: folder("after")).filter { $0.contains("00000001") }.first)
    func bytes(_ name: String) throws -> Data {
      try Data(contentsOf: URL(fileURLWithPath: folder(name + "/" + segment)))
    }
    let (old, new) = (try bytes("before"), try bytes("after"))
    let begin = try #require(old.lastIndex { $0 != 0 }) + 1
    let end = try #require(new.lastIndex { $0 != 0 }) + 1
    let target = try FileImage(replica.target, as: folder("target-image.db"))
    for cut in stride(from: begin, through: end, by: max(1, (end - begin) / 12)) {
      try runTool("rm", ["-rf", replica.trail])
      try runTool("cp", ["-r", folder("before"), replica.trail])
      var cutBytes = new
      cutBytes.replaceSubrange(cut..<cutBytes.count, with: Data(count: cutBytes.count - cut))
      try cutBytes.write(to: URL(fileURLWithPath: replica.trail + "/" + segment))
      try FileImage(source, existing: image).restore()
      try target.restore()
      try replica.takeAndReplay()
      try execute(source, "INSERT INTO u VALUES (1, 6)")
      try replica.takeAndReplay()
      #expect(try replica.differences() == [], "cut at \(cut) of \(begin) to \(end)")
      for row in try told(replica.trail) { #expect(row.says == row.header, "row \(row), cut at \(cut)") }
      replica.close()
    }
  }

  @Test func `a position of an older version is read as one without knowledge`() throws {
    var position = SourcePosition(
      mark: .init(taken: 9, nonce: -1), previous: .init(taken: 8, nonce: 7), checksum: 6,
      refresh: .init(layout: 5, rows: 4, cursor: [.integer(3)], isDone: false))
    var older = position.encoded.dropLast(2).map { $0 }
    older[0] = 1
    #expect(try SourcePosition(decoding: older) == position)
    position.knowledge.note("b.x", number: 7, clock: 8)
    position.look = .init(from: 1, through: 12)
    #expect(try SourcePosition(decoding: position.encoded) == position)
    // A position of version 2 has no byte after each entry for whether an id follows; `look` has three bytes.
    older = position.encoded
    older.remove(at: older.count - 4)
    older[0] = 2
    #expect(try SourcePosition(decoding: older) == position)
    position.knowledge.note("b.x", id: TrailID(hex: Self.id), number: 2, clock: 9)
    #expect(try SourcePosition(decoding: position.encoded) == position)
  }

  @Test func `a change that waits, or was put aside, is not known`() throws {
    let replica = Replica(try TempFolder())
    try execute(
      replica.source,
      """
      CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, number INTEGER, trail_id BLOB);
      INSERT INTO cairn_checkpoint VALUES ('b.x', 12, NULL), ('c.x', 12, NULL), ('d.x', 12, x'\(Self.id)');
      CREATE TABLE cairn_table(trail TEXT, wait_number INTEGER);
      INSERT INTO cairn_table VALUES ('b.x', 9), ('b.x', 7), ('b.x', NULL), ('c.x', 11), ('d.x', NULL);
      CREATE TABLE cairn_quarantine(trail TEXT, number INTEGER); INSERT INTO cairn_quarantine VALUES ('c.x', 11);
      """)
    let known = try Journal(Database(path: replica.source, mode: .readWrite)).applied(.system)
    #expect(known.map { "\($0.trail) \($0.number)" } == ["b.x 7", "c.x 10", "d.x 12"])
    #expect(known.map { $0.id?.description } == [nil, nil, Self.id])
  }

  private static let id = "000102030405060708090a0b0c0d0e0f"

  @Test func `notes of an earlier version get the ids of the checkpoints, and no more than they have`() throws {
    let replica = try started()
    for (trail, number) in [("b.x", 20), ("c.x", 5)] { try bring(UInt64(number), of: trail, to: replica.source) }
    try execute(replica.source, "INSERT INTO t VALUES (2, 20, 2)")
    try replica.take()
    replica.close()
    // Trail b.x was begun again before, and has been applied through 3.
    try execute(
      replica.source,
      """
      CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, number INTEGER, trail_id BLOB);
      INSERT INTO cairn_checkpoint VALUES ('b.x', 3, x'\(Self.id)'); INSERT INTO t VALUES (3, 3, 3)
      """)
    try replica.take()
    let last = try #require(transactions(of: replica.trail).last?.header.dependencies)
    #expect(last.map { "\($0.origin) \($0.number) \($0.id?.description ?? "-")" } == ["b.x 3 \(Self.id)", "c.x 5 -"])
  }

  @Test func `a note into the journal of an earlier version names no id`() throws {
    let replica = try started()
    let database = try Database(path: replica.source)
    let note = AppliedNote(trail: "b.x", id: TrailID(hex: Self.id), number: 1, clock: 1, position: .start)
    let sql = "SELECT v0 FROM cairn_journal WHERE code = 1 ORDER BY seq DESC LIMIT 1"
    for (version, text) in [(4, note.withoutID.text), (5, note.text)] {
      try database.execute("UPDATE cairn_control SET version = \(version) WHERE id = 0")
      #expect(try JournalNotes(database).write(note))
      #expect(try database.text(sql) == text)
    }
  }
}
