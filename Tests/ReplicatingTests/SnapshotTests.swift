import Changes
import CodecKit
import Endpoints
import Foundation
import SQLiteKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Replicating

/// Snapshots of databases in use, beside a model of their rows at each moment.
@Suite(.timeLimit(.minutes(30)))
struct SnapshotTests {
  private static let schema = """
    CREATE TABLE shop(id INTEGER PRIMARY KEY, code TEXT UNIQUE, note TEXT);
    CREATE TABLE item(id INTEGER PRIMARY KEY, shop INTEGER REFERENCES shop(id), price INTEGER);
    CREATE INDEX item_shop ON item(shop);
    CREATE TABLE plain(a, b);
    CREATE VIEW dear AS SELECT * FROM item WHERE price > 100;
    CREATE TRIGGER shop_note AFTER UPDATE OF code ON shop BEGIN UPDATE shop SET note = 'new code' WHERE id = new.id; END
    """

  private static func rows(_ database: Database) throws -> [String] {
    try ["shop", "item", "plain"].flatMap { table in
      try [table] + database.query("SELECT * FROM \(table) ORDER BY rowid").map { "\($0)" }
    }
  }

  private static func names(_ path: String) throws -> [String] {
    try Database(path: path, mode: .readOnly).query("SELECT name FROM sqlite_schema ORDER BY name").map(\.[0].string)
      .filter { !$0.hasPrefix("sqlite_") }
  }

  static func sum(_ path: String) throws -> String {
    let hash = try SHA256()
    hash.update([UInt8](try Data(contentsOf: URL(fileURLWithPath: path))))
    return hash.finalize().hex
  }

  static func left(_ folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder).filter {
      $0.contains(".cairn-snapshot") || $0.contains(".cairn-packed") || $0.hasSuffix(".new")
    }
  }

  private static func step(_ random: inout Seeded, _ count: Int) -> String {
    let id = random.below(40)
    return switch random.below(8) {
    case 0, 1: "INSERT OR REPLACE INTO shop VALUES (\(id), 'c\(count)', 'n')"
    case 2: "UPDATE shop SET code = 'd\(count)' WHERE id = \(id)"
    case 3: "INSERT OR IGNORE INTO item SELECT \(count), id, \(id) FROM shop WHERE id <= \(id) LIMIT 3"
    case 4: "UPDATE item SET price = price + \(id) WHERE id % 3 = \(id % 3)"
    case 5: "DELETE FROM item WHERE id % 7 = \(id % 7)"
    case 6: "INSERT INTO plain VALUES (\(count), hex(randomblob(200)))"
    default: "DELETE FROM shop WHERE id = \(id)"
    }
  }

  /// A program that writes to a database, and what it saw after each of its transactions: by the last journal row.
  private final class Program: Sendable {
    let path: String
    let history = Mutex<[Int64: [String]]>([:])
    let stop = StopSignal()
    let isReady = StopSignal()

    init(_ path: String) { self.path = path }

    func run(_ seed: UInt64) throws {
      var random = Seeded(seed)
      let database = try Database(path: path)
      var count = 0
      while !stop.isSet {
        try database.transaction {
          for _ in 0...random.below(3) {
            count += 1
            try database.execute(SnapshotTests.step(&random, count))
          }
          let last = try database.integer("SELECT max(seq) FROM cairn_journal") ?? 0
          let rows = try SnapshotTests.rows(database)
          history.withLock { $0[last] = rows }
        }
        if count > 20 { isReady.set() }
        Clock.sleep(milliseconds: 1)
      }
    }
  }

  @Test(arguments: Seeds.drawn(reduced: 2), ["wal", "delete"])
  func `a snapshot beside writers is the model at its position`(_ seed: UInt64, _ mode: String) throws {
    let mesh = try Mesh("s", schema: Self.schema, rows: ["INSERT INTO shop VALUES (1, 'a', 'b')"], isCaptured: false)
    let node = mesh.nodes[0]
    guard case .sqlite(let path) = node.url else { return }
    if mode == "delete" { try node.execute("PRAGMA journal_mode = DELETE") }
    node.goesBothWays = false
    try node.startCapture()
    let program = Program(path)
    let writer = try WorkerThread<String?> {
      do {
        try program.run(seed)
        return nil
      } catch { return "\(error)" }
    }
    while !program.isReady.wait(milliseconds: 100), writer.outcome == nil {}
    for round in 0..<(isSoak ? 100 : 6) {
      let file = "\(mesh.folder)/now\(round).db"
      let before = try Trail.info(folder: node.folder).lastTransaction
      let made = try Snapshot(of: node.url, to: file).make()
      let position = try #require(made.note.positions.first)
      guard case .journal(let last) = position.place else {
        Issue.record("no journal row")
        continue
      }
      let expected = program.history.withLock { $0[last] }
      #expect(expected != nil, "seed \(seed): no transaction ended at row \(last)")
      let database = try Database(path: file, mode: .readOnly)
      try #expect(Self.rows(database) == expected, "seed \(seed), row \(last)")
      #expect(position.trail == node.trail)
      #expect(try position.id == Trail.info(folder: node.folder).id)
      #expect(position.transaction ?? 0 >= before)
      #expect(try database.text("PRAGMA integrity_check") == "ok")
      #expect(try database.text("PRAGMA journal_mode") == "delete")
      #expect(try SnapshotNote.read(from: database) == made.note)
      #expect(try Self.names(file) == ["cairn_snapshot", "dear", "item", "item_shop", "plain", "shop", "shop_note"])
      #expect(try Self.sum(file) == made.sha256)
      #expect(try String(contentsOfFile: file + ".sha256", encoding: .utf8) == "\(made.sha256)  now\(round).db\n")
      #expect(made.notices.contains { $0.contains("is not in WAL mode") } == (mode == "delete"))
    }
    program.stop.set()
    let problem = writer.join() ?? nil
    #expect(problem == nil)
    #expect(try Self.left(mesh.folder) == [])
    try mesh.close()
  }

  @Test func `a snapshot of an apply has its checkpoint, and only the tables that it writes`() throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
    try mesh.nodes[0].execute("INSERT INTO t VALUES (1, 'a')")
    try mesh.settle()
    let target = mesh.nodes[1]
    try target.execute("CREATE TABLE own(x); INSERT INTO own VALUES (1)")
    var snapshot = Snapshot(of: target.url, to: mesh.folder + "/t.db")
    snapshot.trail = mesh.nodes[0].trail
    let made = try snapshot.make()
    #expect(made.note.tables == ["t"])
    #expect(try Self.names(snapshot.path) == ["cairn_snapshot", "t"])
    let stored = try TargetDatabase(target.url).checkpoint(of: mesh.nodes[0].trail)
    let position = made.note.positions.first { $0.trail == mesh.nodes[0].trail }
    #expect(position?.place == stored.map { .checkpoint($0) })
    #expect(try Database(path: snapshot.path, mode: .readOnly).query("SELECT * FROM t") == [[.integer(1), .text("a")]])
    // The database itself is as it was.
    #expect(try Detaching.isAttached(sqlite: target.url.place))
    try mesh.close()
  }

  func plain(_ script: String) throws -> (folder: String, url: DatabaseURL) {
    let folder = NSTemporaryDirectory() + "cairn-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let database = try Database(path: folder + "/a.db", mode: .create)
    try database.executeScript("PRAGMA journal_mode = WAL;" + script)
    return (folder, .sqlite(path: folder + "/a.db"))
  }

  @Test func `a snapshot or a restored database is not made where another user may exchange it`() throws {
    let (folder, url) = try plain(Self.schema)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(mkdir(folder + "/open", 0o777) == 0 && chmod(folder + "/open", 0o777) == 0)
    let error = #expect(throws: CairnError.self) { try Snapshot(of: url, to: folder + "/open/b.db").make() }
    #expect(error?.code == .usage && error?.message.contains("/open") == true)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/open") == [])
    #expect(chmod(folder + "/open", 0o1777) == 0)
    _ = try Snapshot(of: url, to: folder + "/open/b.db").make()
  }

  @Test func `tables and rows that are not taken leave no byte in the file`() throws {
    let (folder, url) = try plain(
      Self.schema + """
        ; INSERT INTO shop VALUES (1, 'kept', 'x'), (2, 'SECRETSHOP', 'y'), (3, NULL, 'z');
        INSERT INTO item VALUES (1, 1, 5), (2, 2, 7); INSERT INTO plain VALUES ('SECRETPLAIN', 1);
        CREATE VIRTUAL TABLE words USING fts5(w); INSERT INTO words VALUES ('SECRETWORD')
        """)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var snapshot = Snapshot(of: url, to: folder + "/b.db")
    snapshot.tables = TablePatterns(["shop", "item"])
    snapshot.condition = "id = 1 AND coalesce(id, 0) < 2"
    let made = try snapshot.make()
    #expect(made.note.tables == ["shop", "item"])
    #expect(made.note.positions.isEmpty)
    #expect(made.notices.contains { $0.contains("has no position") })
    #expect(try Self.names(folder + "/b.db") == ["cairn_snapshot", "item", "item_shop", "shop"])
    let database = try Database(path: folder + "/b.db", mode: .readOnly)
    #expect(try database.query("SELECT id, code FROM shop") == [[.integer(1), .text("kept")]])
    let bytes = try Data(contentsOf: URL(fileURLWithPath: folder + "/b.db"))
    #expect(bytes.range(of: Data("SECRET".utf8)) == nil)
    #expect(try SnapshotNote.read(from: database)?.condition == snapshot.condition)
    // Without a choice, everything of the application is there.
    let whole = try Snapshot(of: url, to: folder + "/c.db").make()
    #expect(whole.note.tables == ["shop", "item", "plain", "words"])
    let copy = try Database(path: folder + "/c.db", mode: .readOnly)
    #expect(try copy.query("SELECT w FROM words WHERE words MATCH 'secretword'").count == 1)
  }

  @Test(arguments: [["item"], nil] as [[String]?], ["store = 7", nil])
  func `statistics and counters do not show rows that are left out`(_ tables: [String]?, _ condition: String?) throws {
    let (folder, url) = try plain(
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY AUTOINCREMENT, store, code); CREATE INDEX item_code ON item(code);
      CREATE TABLE bin("rowid" INTEGER PRIMARY KEY AUTOINCREMENT, store);
      CREATE TABLE shop(id INTEGER PRIMARY KEY AUTOINCREMENT, store, name); CREATE INDEX shop_name ON shop(name);
      INSERT INTO item VALUES (3, 7, 'kept'), (4711, 8, 'b'); INSERT INTO bin VALUES (2, 8), (815, 8);
      INSERT INTO shop VALUES (5, 7, 's'), (1234, 8, 't'); ANALYZE;
      INSERT INTO sqlite_stat1 VALUES ('item', 'SECRETITEM', '1'), ('SECRETOTHER', 'x', '1');
      INSERT INTO sqlite_sequence VALUES ('SECRETTABLE', 9)
      """)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var snapshot = Snapshot(of: url, to: folder + "/b.db")
    snapshot.tables = tables.map { TablePatterns($0) }
    snapshot.condition = condition
    _ = try snapshot.make()
    let made = try Database(path: folder + "/b.db", mode: .readOnly)
    let statistics = try made.integer("SELECT count(*) FROM sqlite_stat1") ?? -1
    let counters = try made.query("SELECT name, CAST(seq AS TEXT) FROM sqlite_sequence ORDER BY name").map {
      "\($0[0].string) \($0[1].string)"
    }
    let bytes = try Data(contentsOf: URL(fileURLWithPath: folder + "/b.db"))
    switch (tables, condition) {
    case (nil, nil):
      // Nothing is left out.
      #expect(statistics > 0)
      #expect(counters == ["SECRETTABLE 9", "bin 815", "item 4711", "shop 1234"])
      return
    case (_, nil): #expect(counters == ["item 4711"])
    case (nil, _): #expect(counters == ["bin 0", "item 3", "shop 5"])
    default: #expect(counters == ["item 3"])
    }
    #expect(statistics == 0)
    #expect(bytes.range(of: Data("SECRET".utf8)) == nil)
  }

  @Test func `deleted rows of the source are not in the file`() throws {
    let (folder, url) = try plain(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'SECRET' || hex(zeroblob(9000))), (2, 'b');"
        + "PRAGMA secure_delete = OFF; DELETE FROM t WHERE id = 1")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    _ = try Snapshot(of: url, to: folder + "/b.db").make()
    #expect(try Data(contentsOf: URL(fileURLWithPath: folder + "/b.db")).range(of: Data("SECRET".utf8)) == nil)
  }

  @Test func `wrong orders are refused with the next step, and leave nothing`() throws {
    let (folder, url) = try plain("CREATE TABLE item(id INTEGER PRIMARY KEY, price); CREATE TABLE shop(id, name)")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    func refusal(_ path: String, from: DatabaseURL? = nil, _ change: (inout Snapshot) -> Void = { _ in })
      -> CairnError?
    {
      var snapshot = Snapshot(of: from ?? url, to: path)
      change(&snapshot)
      let changed = snapshot
      return #expect(throws: CairnError.self) { try changed.make() }
    }
    let file = folder + "/b.db"
    #expect(refusal(folder + "/no/b.db")?.code == .databaseMissing)
    #expect(refusal(file, from: .sqlite(path: folder + "/no.db"))?.code == .databaseMissing)
    #expect(refusal(folder + "/a.db") { $0.replaces = true }?.code == .sameDatabase)
    #expect(refusal(file, from: .postgres(uri: "postgresql://x/y"))?.code == .unsupported)
    let near = refusal(file) { $0.tables = TablePatterns(["itme"]) }
    #expect(near?.code == .tableMissing && near?.hint.contains("'item'") == true)
    #expect(refusal(file) { $0.tables = TablePatterns(["x*"]) }?.code == .noTables)
    #expect(refusal(file) { $0.condition = "price > 1" }?.message.contains("shop") == true)
    for text in ["1); DROP TABLE item; --", "1) OR (1", "'", "", "id, 2", "/* id"] {
      let error = refusal(file) {
        $0.condition = text
        $0.tables = TablePatterns(["item"])
      }
      #expect(error?.code == .usage, "\(text)")
    }
    _ = try Data("mine".utf8).write(to: URL(fileURLWithPath: file))
    #expect(refusal(file)?.message.contains("exists") == true)
    #expect(refusal(file) { $0.replaces = true }?.message.contains("is not a snapshot") == true)
    #expect(try String(contentsOfFile: file, encoding: .utf8) == "mine")
    try FileManager.default.removeItem(atPath: file)
    var snapshot = Snapshot(of: url, to: file)
    let first = try snapshot.make()
    #expect(refusal(file)?.code == .targetDiffers)
    try Database(path: folder + "/a.db").execute("INSERT INTO item VALUES (1, 2)")
    snapshot.replaces = true
    let second = try snapshot.make()
    #expect(first.sha256 != second.sha256)
    #expect(try Self.sum(file) == second.sha256)
    #expect(try Self.left(folder) == [])
  }

  @Test func `what an ended run left is removed, and a run that goes on is not disturbed`() throws {
    let (folder, url) = try plain("CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let file = folder + "/b.db"
    for name in [".cairn-snapshot", ".cairn-packed"] {
      for suffix in ["", "-journal", "-wal", "-shm"] {
        try Data("left".utf8).write(to: URL(fileURLWithPath: file + name + suffix))
      }
    }
    // A link in place of the copy is not followed.
    try FileManager.default.removeItem(atPath: file + ".cairn-packed")
    try Data("other".utf8).write(to: URL(fileURLWithPath: folder + "/other"))
    try FileManager.default.createSymbolicLink(
      atPath: file + ".cairn-packed", withDestinationPath: folder + "/other")
    _ = try Snapshot(of: url, to: file).make()
    #expect(try Self.left(folder) == [])
    #expect(try String(contentsOfFile: folder + "/other", encoding: .utf8) == "other")
    let other = try File(file + "2.cairn-snapshot", .create)
    #expect(try other.tryLock())
    let error = #expect(throws: CairnError.self) { try Snapshot(of: url, to: file + "2").make() }
    #expect(error?.code == .busy)
    try other.close()
    _ = try Snapshot(of: url, to: file + "2").make()
  }

  @Test func `a note that Cairn did not write is refused`() throws {
    let (folder, url) = try plain("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    _ = try Snapshot(of: url, to: folder + "/b.db").make()
    let database = try Database(path: folder + "/b.db")
    #expect(try SnapshotNote.read(from: database)?.tables == ["item"])
    for change in ["trail_id = x'00'", "tables = '7'", "version = 9", "made_at = 'x'", "trail_id = 5", "trail = '/'"] {
      try database.execute("SAVEPOINT s")
      try database.execute("UPDATE cairn_snapshot SET trail_id = zeroblob(16), journal_row = 1")
      try database.execute("UPDATE cairn_snapshot SET \(change)")
      #expect(throws: CairnError.self, "\(change)") { try SnapshotNote.read(from: database) }
      try database.execute("ROLLBACK TO s")
    }
  }
}
