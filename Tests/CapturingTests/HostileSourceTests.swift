import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// A captured file that its own program, or a user who may write to its folder, has prepared against the daemon.
@Suite(.timeLimit(.minutes(20))) struct HostileSourceTests {
  private func started(_ folder: TempFolder, mode: String = "WAL") throws -> Replica {
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA journal_mode = \(mode); CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1, 'tea')"
    )
    try replica.takeAndReplay()
    return replica
  }

  private func changes(_ replica: Replica) throws -> Int {
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    var count = 0
    while let record = try reader.next() {
      if case .change = record { count += 1 }
    }
    return count
  }

  @Test(arguments: [true, false])
  func `a journal that names a file of the daemon stops capture and deletes nothing`(isRunning: Bool) throws {
    let folder = try TempFolder()
    let replica = try started(folder, mode: "DELETE")
    if !isRunning { replica.close() }
    for victim in [folder("revoked"), folder("tenant.db"), replica.trail + "/segment"] {
      try Data("x".utf8).write(to: URL(fileURLWithPath: victim))
      try ForgedJournal.write(for: replica.source, naming: victim)
      #expect(code { try replica.take() } == .databaseUnsafe)
      #expect(Folder.exists(victim))
    }
    unlink(replica.source + "-journal")
    try execute(replica.source, "INSERT INTO item VALUES (2, 'milk')")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a link that takes the place of the file stops capture, at work and at its start`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    for suffix in ["", "-wal", "-shm"] {
      try? FileManager.default.moveItem(atPath: replica.source + suffix, toPath: folder("moved.db") + suffix)
    }
    try FileManager.default.createSymbolicLink(atPath: replica.source, withDestinationPath: folder("moved.db"))
    #expect(code { try replica.follow(until: StopSignal()) } == .sourceWentBack)
    replica.close()
    #expect(code { try replica.take() } == .databaseUnsafe)
  }

  @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
  func `a file that is given to another user stops capture`() throws {
    let replica = try started(TempFolder())
    chown(replica.source, 54_321, 54_321)
    #expect(code { try replica.follow(until: StopSignal()) } == .databaseUnsafe)
  }

  @Test(arguments: ["cairn_control", "cairn_journal", "cairn_layout", "cairn_unhooked"], [true, false])
  func `a view that never ends in the place of one of our tables is not read`(table: String, isRunning: Bool) throws {
    let replica = try started(TempFolder())
    if !isRunning { replica.close() }
    try execute(
      replica.source,
      """
      DROP TABLE \(table); CREATE VIEW \(table)(id, seq, taken, nonce, name, trail, place, version) AS
      WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x, x, x, x, x, x, x, x FROM n
      """)
    let found = code { try replica.take() }
    #expect(found == .databaseUnsafe || found == .sourceWentBack, "\(found.map(String.init(describing:)) ?? "taken")")
  }

  /// An expression that a program may put on the tables of capture. A statement of Cairn would compute it for days or
  /// with gigabytes.
  static let slow = "instr(zeroblob(20000000), CAST(zeroblob(10000000) || coalesce(%, 1) AS BLOB))"
  static let loads =
    [
      ("cairn_control", "taken"), ("cairn_journal", "seq"), ("cairn_layout", "id"), ("cairn_stage", "layout"),
      ("cairn_unhooked", "name"),
    ].flatMap { table, column in
      [
        "CREATE INDEX zz ON \(table)(\(slow.replacing("%", with: column))) WHERE \(column) > 1000000",
        "CREATE INDEX zz ON \(table)(length(hex(zeroblob(400000000)))) WHERE \(column) > 1000000",
        "ALTER TABLE \(table) ADD COLUMN zz CHECK (\(slow.replacing("%", with: column)) IS NULL OR 1)",
        "ALTER TABLE \(table) ADD COLUMN zz AS (\(slow.replacing("%", with: column)))",
        "ALTER TABLE \(table) ADD COLUMN zz",
        "CREATE TRIGGER zz AFTER UPDATE ON \(table) WHEN \(slow.replacing("%", with: "NEW.\(column)")) BEGIN SELECT 1; END",
        "CREATE INDEX zz ON \(table)(\(column))",
      ]
    }

  @Test(.timeLimit(.minutes(20)), arguments: loads, [true, false])
  func `an expression from a program on the tables of capture is not computed`(load: String, isRunning: Bool) throws {
    let replica = try started(TempFolder())
    if !isRunning { replica.close() }
    // SQLite computes a new column's CHECK for the rows that are there.
    let isSlow = load.contains("CHECK")
    try execute(replica.source, isSlow ? load.replacing("20000000", with: "2").replacing("10000000", with: "1") : load)
    #expect(code { try replica.take() } == .databaseUnsafe)
    replica.close()
    // The other readers and writers of the same tables.
    let database = try Database(path: replica.source)
    database.forbidForeignCode()
    _ = code { _ = try Journal(database).fill() }
    _ = code { try Journal(database).askForRefresh() }
    _ = code { try Journal(database).askForCopy(of: "item") }
    try Journal(Database(path: replica.source)).detach()
    try execute(replica.source, "INSERT INTO item VALUES (7, 'free')")
  }

  @Test(arguments: [Int64.min, -1, .max]) func `a forged version of the schema stops nothing`(version: Int64) throws {
    let replica = try started(TempFolder())
    try execute(replica.source, "INSERT INTO item VALUES (2, 'milk')")
    try execute(
      replica.source,
      "UPDATE cairn_control SET schema_version = \(version) WHERE id = 0; CREATE TABLE more(id INTEGER PRIMARY KEY)")
    let database = try Database(path: replica.source)
    let journal = Journal(database)
    let written = try journal.writtenLayouts()
    _ = try database.transaction { try journal.adopt(TablePatterns(), written: written) }
    _ = code { try replica.take() }
    replica.close()
    _ = code { try replica.take() }
  }

  @Test func `a trigger of a program that is named as one of capture's has no number of a table`() throws {
    #expect(CaptureTriggers.layout(ofTrigger: CaptureTriggers.name(7, "ai")) == 7)
    for number in ["0", "-1", "+7", "1152921504606846976", "9223372036854775807"] {
      #expect(CaptureTriggers.layout(ofTrigger: "cairn_\(number)_ai") == nil, "\(number)")
    }
    let replica = try started(TempFolder())
    // SQLite gives triggers of such a table a wrong OLD, so that capture looks at all its triggers.
    try execute(
      replica.source,
      """
      CREATE TABLE child(id INTEGER PRIMARY KEY, parent TEXT REFERENCES item(id) ON UPDATE CASCADE);
      CREATE TRIGGER cairn_1152921504606846976_x AFTER INSERT ON item BEGIN SELECT 1; END;
      INSERT INTO item VALUES (2, 'milk')
      """)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test(.timeLimit(.minutes(20))) func `an index that comes between capture's look and its write is not computed`()
    throws
  {
    let replica = try started(TempFolder())
    replica.close()
    let database = try Database(path: replica.source)
    database.forbidForeignCode()
    for load in [Self.slow.replacing("%", with: "taken"), "length(hex(zeroblob(400000000)))"] {
      try execute(replica.source, "CREATE INDEX zz ON cairn_control(\(load)) WHERE taken > 1000000")
      #expect(
        code { try database.run("UPDATE cairn_control SET taken = 2000000 WHERE id = 0") } == .databaseUnsafe, "\(load)"
      )
      try execute(replica.source, "DROP INDEX zz")
    }
  }

  @Test func `a file whose own tables call any function of SQLite is captured`() throws {
    let replica = Replica(try TempFolder())
    try execute(
      replica.source,
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT DEFAULT (hex(randomblob(4))), size AS (length(trim(name))) STORED,
        twice AS (replace(name, 'a', 'aa')), CHECK (instr(name, '!') = 0), CHECK (name NOT LIKE '%' || printf('%d', 777) || '%'),
        CHECK (name NOT GLOB '*zzzz*'));
      CREATE INDEX low ON item(lower(name)); CREATE UNIQUE INDEX hexed ON item(hex(name)) WHERE substr(name, 1, 1) <> '_';
      CREATE TABLE log(id INTEGER PRIMARY KEY, day TEXT DEFAULT (strftime('%Y')));
      CREATE TRIGGER t AFTER INSERT ON item BEGIN INSERT INTO log(id) VALUES (NEW.id * 10 + length(quote(NEW.name))); END;
      INSERT INTO item(id, name) VALUES (1, 'tea')
      """)
    try replica.takeAndReplay()
    try execute(
      replica.source,
      "INSERT INTO item(id, name) VALUES (2, 'milk'); UPDATE item SET name = 'cocoa' WHERE id = 1; INSERT INTO item(id) VALUES (3)"
    )
    // Another width of the journal, by a column that comes.
    try execute(replica.source, "ALTER TABLE item ADD COLUMN more DEFAULT 5; ALTER TABLE log ADD COLUMN more")
    try replica.takeAndReplay()
    for sql in ["SELECT id, name, more FROM item ORDER BY id", "SELECT id, day, more FROM log ORDER BY id"] {
      let rows = try Database(path: replica.target).query(sql)
      #expect(try rows == Database(path: replica.source).query(sql) && rows.count == 3)
    }
  }

  @Test func `functions of the program in views, triggers, columns and indexes neither stop capture nor are called`()
    throws
  {
    let folder = try TempFolder()
    let replica = Replica(folder)
    func program(_ sql: String) throws {
      try runTool(
        "python3",
        [
          "-c",
          """
          import sqlite3, sys
          c = sqlite3.connect(sys.argv[1])
          c.create_function('mine', 1, lambda x: x * 2, deterministic=True)
          c.executescript(sys.argv[2])
          """, replica.source, sql,
        ])
    }
    try program(
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE item(id INTEGER PRIMARY KEY, n, twice AS (mine(n)), CHECK (mine(n) > 0));
      CREATE TABLE log(id INTEGER PRIMARY KEY, n);
      CREATE INDEX half ON item(n) WHERE mine(n) > 4; CREATE INDEX whole ON item(mine(n));
      CREATE VIEW look AS SELECT mine(n) FROM item;
      CREATE TRIGGER note AFTER INSERT ON item BEGIN INSERT INTO log(n) VALUES (mine(NEW.n)); END;
      INSERT INTO item(id, n) VALUES (1, 1), (2, 5)
      """)
    try replica.take()
    let before = try changes(replica)
    try program(
      "INSERT INTO item(id, n) VALUES (3, 7); UPDATE item SET n = 9 WHERE id = 1; DELETE FROM item WHERE id = 2")
    try replica.take()
    // Three changes, and one by the program's trigger.
    #expect(try changes(replica) == before + 4)
  }

  /// Capture and comparison read what they can, or end with an error: no crash, no endless loop.
  @Test func `random damage ends in an error or in rows, never in a crash`() throws {
    let folder = try TempFolder()
    let (fresh, captured) = (folder("fresh.db"), folder("captured.db"))
    for path in [fresh, captured] {
      try execute(
        path,
        """
        PRAGMA page_size = 1024; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, n REAL); CREATE INDEX byname ON item(name);
        CREATE TABLE k(a, b, PRIMARY KEY (a, b)) WITHOUT ROWID; CREATE TABLE bare(x);
        CREATE VIRTUAL TABLE words USING fts5(w); INSERT INTO words VALUES ('tea'), ('milk');
        CREATE VIEW look AS SELECT * FROM item; CREATE TRIGGER t AFTER INSERT ON item BEGIN INSERT INTO bare VALUES (1); END;
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
        INSERT INTO item SELECT i, hex(zeroblob(i * 20)), i / 3.0 FROM n;
        INSERT INTO k SELECT name, id FROM item; INSERT INTO bare SELECT randomblob(3000) FROM item LIMIT 5
        """)
    }
    let replica = Replica(folder, source: "captured.db")
    try replica.take()
    replica.close()
    try execute(captured, "UPDATE item SET n = n + 1; DELETE FROM bare")
    let images = try [fresh, captured].map { [UInt8](try Data(contentsOf: URL(fileURLWithPath: $0))) }
    var (read, refused) = (0, 0)
    for seed in 0..<(isSoak ? 20_000 : 400) {
      var random = Seeded(UInt64(seed))
      var bytes = images[seed % 2]
      Self.damage(&bytes, &random)
      let other = Replica(folder, source: "damaged.db", trail: "trail\(seed)")
      for suffix in ["-wal", "-shm", "-journal"] { unlink(other.source + suffix) }
      try Data(bytes).write(to: URL(fileURLWithPath: other.source))
      do {
        try other.take()
        for table in try Database(path: other.source).userTables() where table.refusal == nil {
          _ = try Database(path: other.source).query("SELECT * FROM \(table.name.quotedName)")
        }
        read += 1
      } catch {
        #expect(code { throw error } != .bug, "seed \(seed): \(error)")
        refused += 1
      }
      other.close()
      try? FileManager.default.removeItem(atPath: other.trail)
    }
    #expect(read > 0 && refused > 0, "\(read) read, \(refused) refused")
  }

  /// Statements that a program runs on the tables of capture in its file.
  static let forgeries = [
    "INSERT INTO cairn_journal(seq, code) VALUES (9223372036854775807, 0)",
    "INSERT INTO cairn_journal(seq, code) VALUES (-9223372036854775808, 0)",
    "UPDATE cairn_control SET taken = -9223372036854775808",
    "UPDATE cairn_control SET taken = 9223372036854775807, nonce = -9223372036854775808, cap = 9223372036854775807",
    "UPDATE cairn_layout SET id = 9223372036854775807 WHERE id = 1",
    "UPDATE cairn_layout SET id = -9223372036854775808 WHERE id = 1",
    "UPDATE cairn_layout SET id = 2147483648 WHERE id = 2; CREATE TABLE more(id INTEGER PRIMARY KEY)",
    "UPDATE cairn_layout SET since = 9223372036854775807, ended = -9223372036854775808",
    "UPDATE cairn_layout SET previous = -9223372036854775808, action = 9223372036854775807, refresh = 9223372036854775807",
    "UPDATE cairn_layout SET refresh = 9223372036854775793, action = -9223372036854775808",
    "UPDATE cairn_layout SET schema = x'00'", "UPDATE cairn_layout SET schema = zeroblob(2000)",
    // The second half of an update, without the first, and of another table.
    "INSERT INTO cairn_journal(code) SELECT max(id) * 8 + 4 FROM cairn_layout",
    "INSERT INTO cairn_journal(code) SELECT code * 8 + 4 FROM (SELECT max(id) AS code FROM cairn_layout)",
    """
    INSERT INTO cairn_journal(code, v0) SELECT id * 8 + 3, 1 FROM cairn_layout WHERE instr(schema, 'bare');
    INSERT INTO cairn_journal(code, v0, v1) SELECT id * 8 + 4, 1, 2 FROM cairn_layout WHERE instr(schema, 'item')
    """,
    "INSERT INTO cairn_journal(code) SELECT 8 + value FROM json_each('[0,1,2,3,4,5,6,7]')",
    "INSERT INTO cairn_journal(code) VALUES (9223372036854775807), (-9223372036854775808), (-1), ('x'), (x'ff'), (1e300)",
    "INSERT INTO cairn_journal(code, v0) VALUES (1, '1 far.shop 4611686018427387904 18446744073709551615 1:1')",
    "INSERT INTO cairn_journal(code, v0) VALUES (1, '1 far.shop 1 4611686018427387903 281474976710655:4611686018427387903')",
    "INSERT INTO cairn_journal(code, v0) VALUES (2, x'01ffffffffffffffffff01ffffffffffffffffff01')",
    "INSERT INTO cairn_control(id) VALUES (2); INSERT INTO cairn_journal(code, v0) VALUES (2, x'0101ffffffffffffffffff0100')",
    "INSERT INTO cairn_control(id) VALUES (2); INSERT INTO cairn_journal(code, v0) VALUES (2, zeroblob(40))",
    anew("cairn_layout", "INSERT INTO cairn_layout SELECT * FROM cairn_layout"),
    anew("cairn_layout", "UPDATE cairn_layout SET id = NULL"),
    anew("cairn_layout", "CREATE TABLE more(id INTEGER PRIMARY KEY)"),
    anew("cairn_journal", "INSERT INTO cairn_journal SELECT * FROM cairn_journal"),
    anew("cairn_journal", "UPDATE cairn_journal SET seq = -9223372036854775808; DROP TABLE bare"),
    anew(
      "cairn_journal",
      "INSERT INTO cairn_journal(seq, code) VALUES (9223372036854775807, 0), ('9223372036854775807', 0)"),
    anew("cairn_control", "INSERT INTO cairn_control SELECT * FROM cairn_control"),
    anew("cairn_control", "UPDATE cairn_control SET taken = 1e300, version = 'x', schema_version = x'00'"),
  ]

  /// The table with its rows, made again by the program: without its key.
  private static func anew(_ table: String, _ more: String) -> String {
    """
    CREATE TEMP TABLE kept AS SELECT * FROM \(table); DROP TABLE \(table); CREATE TABLE \(table) AS SELECT * FROM kept;
    DROP TABLE kept; \(more)
    """
  }

  @Test(arguments: forgeries, [true, false])
  func `numbers and duplicates in our tables end that capture at most`(forgery: String, isRunning: Bool) throws {
    let replica = Replica(try TempFolder())
    try execute(
      replica.source,
      """
      PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name, n); INSERT INTO item VALUES (1, 'tea', 2);
      CREATE TABLE bare(x); INSERT INTO bare VALUES (1)
      """)
    try replica.take()
    if !isRunning { replica.close() }
    try execute(replica.source, forgery)
    let position = try Self.sourcePosition(replica)
    let found = code { try replica.take() }
    #expect(
      found == nil
        || [.databaseDamaged, .databaseUnsafe, .sourceWentBack, .databaseFailed, .trailVersion].contains(found))
    replica.close()
    // The other readers of the same tables.
    let database = try Database(path: replica.source)
    _ = code { _ = try UncapturedRows.read(database, behind: position) { _, _ in } }
    _ = code { _ = try UncapturedRows.count(database, behind: position) }
    _ = code { _ = try EmbeddedCapture(database).waiting() }
    _ = code { _ = try Journal(database).fill() }
    _ = code { _ = try Journal(database).unhook(nil) }
    _ = code { try EmbeddedCapture(database).install() }
    _ = code { try EmbeddedCapture(database).forgetWaiting() }
    _ = code { try Journal(database).detach() }
    // The content of the trail can be read.
    _ = try Trail.verify(folder: replica.trail)
  }

  /// The source position of the last progress record.
  private static func sourcePosition(_ replica: Replica) throws -> [UInt8] {
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    while try reader.next() != nil {}
    return reader.lastSourcePosition ?? []
  }

  private static func damage(_ bytes: inout [UInt8], _ random: inout Seeded) {
    switch random.below(5) {
    case 0:
      // Anywhere.
      for _ in 0...random.below(40) { bytes[random.below(bytes.count)] = UInt8(random.below(256)) }
    case 1:
      // Heads of pages: kinds, counts, first cells.
      for _ in 0...random.below(10) {
        let page = random.below(bytes.count / 1024)
        bytes[page * 1024 + (page == 0 ? 100 : 0) + random.below(40)] = UInt8(random.below(256))
      }
    case 2:
      // A page in the place of another one.
      let (from, to) = (random.below(bytes.count / 1024), random.below(bytes.count / 1024))
      bytes.replaceSubrange(to * 1024..<to * 1024 + 1024, with: bytes[from * 1024..<from * 1024 + 1024])
    case 3:
      // The schema: letters of statements, numbers of root pages.
      for _ in 0...random.below(8) { bytes[108 + random.below(900)] ^= UInt8(1 << random.below(8)) }
    default: bytes.removeLast(random.below(bytes.count - 512))
    }
  }
}
