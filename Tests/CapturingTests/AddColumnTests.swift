import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import Synchronization
import TestServers
import Testing
import Trails

/// ALTER TABLE ADD COLUMN without a copy of the whole table: only rows whose new columns are not their default are sent.
@Suite struct AddColumnTests {
  private static let seq =
    "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 3000) SELECT i FROM s"
  private static let tables = """
    CREATE TABLE k(id INTEGER PRIMARY KEY, a, u UNIQUE);
    CREATE TABLE w(a TEXT COLLATE NOCASE, b INT, c, PRIMARY KEY(a, b)) WITHOUT ROWID;
    CREATE TABLE seq AS \(seq);
    INSERT INTO k SELECT i * 2, 'a' || i, i FROM seq; INSERT INTO w SELECT 'Key' || (i % 40), i, i FROM seq; DROP TABLE seq;
    """

  private func started(_ folder: TempFolder, _ tables: String = AddColumnTests.tables) throws -> Replica {
    let replica = Replica(folder)
    try execute(replica.source, "PRAGMA journal_mode = WAL; " + tables)
    try replica.takeAndReplay()
    return replica
  }

  /// Rows sent and how, since a number of records.
  private struct Sent {
    var rows: UInt64 = 0
    var methods: [Refresh.Method] = []
    var origins: [[Int?]?] = []
    var isRefreshed: [Bool] = []
  }

  private func sent(_ replica: Replica, behind count: Int) throws -> Sent {
    var sent = Sent()
    for record in try records(replica).dropFirst(count) {
      switch record {
      case .refresh(let refresh):
        if case .start(_, let method, _) = refresh.event { sent.methods.append(method) }
        if case .end(let rows) = refresh.event { sent.rows += rows }
      case .ddl(let ddl):
        sent.origins.append(ddl.origins)
        sent.isRefreshed.append(ddl.isRefreshed)
      default: break
      }
    }
    return sent
  }

  @Test(
    "rows that were written before capture saw their new column are sent as updates where an apply writes too",
    arguments: [true, false])
  func outOfOrderRows(isTarget: Bool) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    if isTarget { try makeTarget(replica, folder) }
    try execute(
      replica.source,
      """
      DELETE FROM k WHERE id = 20; UPDATE k SET a = 'early' WHERE id = 30; ALTER TABLE k ADD COLUMN b INTEGER DEFAULT 3;
      UPDATE k SET b = 4 WHERE id = 1000; UPDATE k SET a = 'y' WHERE id IN (1000, 1002);
      INSERT INTO k(id, a, u) VALUES (1, 'x', -1); UPDATE k SET id = 9001 WHERE id = 10; DELETE FROM k WHERE id = 12;
      INSERT INTO w VALUES ('late', -1, 0)
      """)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    var sent: [String] = []
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    while let record = try reader.next() {
      guard case .change(let change) = record, let before = try change.before?.values(), before.count == 4,
        let after = try change.after?.values()
      else { continue }
      #expect(change.operation == .update && before[3] == nil && after[0..<3].allSatisfy { $0 == nil })
      sent.append("\(before[0]?.shown ?? "-")=\(after[3]?.shown ?? "-")")
    }
    #expect(sent.sorted() == (isTarget ? ["1000=4", "1002=3", "1=3", "30=3", "9001=3"] : []))
  }

  @Test func `only rows whose new column is not its default are sent`() throws {
    let replica = try started(TempFolder())
    let before = try records(replica).count
    try execute(
      replica.source,
      """
      ALTER TABLE k ADD COLUMN b INTEGER NOT NULL DEFAULT 3;
      UPDATE k SET b = 4 WHERE id % 1000 = 0; INSERT INTO k VALUES (1,'x',-1,3),(3,'x',-2,5);
      DELETE FROM k WHERE id = 8; UPDATE k SET id = 9001, b = 7 WHERE id = 10; REPLACE INTO k VALUES (12,'r',2000,9)
      """)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    let sent = try sent(replica, behind: before)
    #expect(sent.rows == 8, "\(sent)")
    #expect(sent.methods.allSatisfy { $0 == .rows })
    #expect(sent.origins == [[0, 1, 2, nil]] && sent.isRefreshed == [false])
  }

  @Test func `a renamed column is found by its place, and a rebuilt table by its names`() throws {
    let replica = try started(TempFolder())
    let before = try records(replica).count
    try execute(replica.source, "ALTER TABLE k RENAME COLUMN a TO aa; ALTER TABLE k ADD COLUMN a")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    let sent = try sent(replica, behind: before)
    #expect(sent.origins == [[0, 1, 2, nil]] && sent.methods.allSatisfy { $0 == .rows })
    let again = try records(replica).count
    try execute(
      replica.source,
      """
      BEGIN; CREATE TABLE new_k(u UNIQUE, id INTEGER PRIMARY KEY, fresh, aa);
      INSERT INTO new_k SELECT u, id, 1, aa FROM k; DROP TABLE k; ALTER TABLE new_k RENAME TO k; COMMIT
      """)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    let rebuilt = try self.sent(replica, behind: again)
    #expect(rebuilt.origins == [[2, 0, nil, 1]] && rebuilt.isRefreshed == [true])
  }

  @Test(arguments: [
    "b REAL DEFAULT 0", "b REAL DEFAULT -0.0", "b DEFAULT 0.0", "b TEXT DEFAULT 'A' COLLATE NOCASE",
    "b TEXT DEFAULT 'x' COLLATE RTRIM", "b INT DEFAULT '1'", "b TEXT DEFAULT 1", "b BLOB DEFAULT x'00ff'",
    "b NUMERIC DEFAULT 1.0", "b DEFAULT NULL", "b DEFAULT TRUE", "b INTEGER DEFAULT +5", "b TEXT DEFAULT ''",
    "b VARCHAR(3) DEFAULT 'a''b'", "b TEXT DEFAULT \"quoted\"", "b DEFAULT bare", "b INT DEFAULT (7)",
    "b DATETIME DEFAULT '2024-01-01 00:00:00'", "b TEXT DEFAULT 1e20",
  ])
  func `a value that differs from a default in as little as its sign or class is sent`(column: String) throws {
    let replica = try started(TempFolder())
    try execute(
      replica.source,
      "ALTER TABLE k ADD COLUMN \(column);"
        + [
          "0.0", "-0.0", "0", "1", "1.0", "'1'", "'1.0'", "'a'", "'A'", "'x '", "''", "NULL", "x''", "x'00ff'", "x'31'",
          "'quoted'", "5", "7", "'7'", "1e20", "'1e20'", "'2024-01-01'",
        ].enumerated().map { "UPDATE k SET b = \($1) WHERE id = \(100 + $0 * 2)" }.joined(separator: ";"))
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test(arguments: [
    // No key, or one with NULL; a default of the moment; another unique key.
    ("CREATE TABLE t(a); INSERT INTO t VALUES (1),(1)", "ALTER TABLE t ADD COLUMN b DEFAULT 2"),
    ("CREATE TABLE t(a TEXT PRIMARY KEY); INSERT INTO t VALUES (NULL),('x')", "ALTER TABLE t ADD COLUMN b DEFAULT 2"),
    (
      "CREATE TABLE t(a INTEGER PRIMARY KEY)",
      "ALTER TABLE t ADD COLUMN b DEFAULT CURRENT_TIMESTAMP; INSERT INTO t(a) VALUES (1)"
    ),
    (
      "CREATE TABLE t(a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)",
      "ALTER TABLE t ADD COLUMN b DEFAULT 2; CREATE UNIQUE INDEX tb ON t(b)"
    ),
  ])
  func `in doubt the whole table is copied`(table: String, change: String) throws {
    let replica = try started(TempFolder(), table)
    let before = try records(replica).count
    try execute(replica.source, change)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    #expect(try sent(replica, behind: before).methods.contains { $0 != .rows })
  }

  @Test func `rows that are asked for while some are sent come too, and the table goes on leniently`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let moments = Moments()
    replica.clock = moments.clock
    try execute(replica.target, "DELETE FROM k WHERE id IN (2000, 5990)")
    let source = replica.source
    try execute(source, "ALTER TABLE k ADD COLUMN b DEFAULT 1; UPDATE k SET b = 2 WHERE id % 500 = 0")
    let script = Script([
      "",
      "UPDATE k SET b = 3 WHERE id IN (4, 5990)", "UPDATE k SET id = 7000 - id WHERE id > 3000 AND b = 2",
    ])
    let asked = Atomic(0)
    moments.at { moment in
      guard moment == .snapshotTaken, let sql = script.next() else { return }
      if sql.isEmpty {
        try Journal(Database(path: source)).ask(.init(table: "k", keys: [[.integer(2000)], [.integer(5990)]]))
        asked.add(1, ordering: .relaxed)
      } else {
        try execute(source, sql)
      }
    }
    try replica.take()
    #expect(asked.load(ordering: .relaxed) == 1)
    try replica.replay()
    #expect(try replica.differences() == [])
  }

  /// Applies another trail to the source of the replica, so that it has the tables of an apply.
  private func makeTarget(_ replica: Replica, _ folder: TempFolder) throws {
    let other = Replica(folder, source: "other.db", target: "source.db", trail: "other")
    other.name = TrailName(origin: "far", name: "other")
    try execute(other.source, "CREATE TABLE z(id INTEGER PRIMARY KEY); INSERT INTO z VALUES (1)")
    try other.takeAndReplay()
    try replica.takeAndReplay()
  }

  static let seeds = Seeds.range(reduced: 6)

  @Test(arguments: RestartTests.Loss.allCases, AddColumnTests.seeds)
  func `random programs that add columns and write at once arrive, whenever capture ends`(
    loss: RestartTests.Loss, seed: UInt64
  ) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    // An apply at the source, for whose sake early rows are sent as updates.
    if seed % 2 == 0 { try makeTarget(replica, folder) }
    replica.close()
    let moments = Moments()
    replica.clock = moments.clock
    var random = Seeded(seed)
    let program = Program(&random)
    let rest = Script(program.statements)
    let image = folder("image.db")
    let source = replica.source
    var rounds = 0
    while true {
      let stop = StopSignal()
      let looks = Atomic(1 + rounds % 3)
      moments.at { moment in
        switch moment {
        case .snapshotTaken: if let sql = rest.next() { try execute(source, sql) }
        case .everythingRead:
          guard looks.subtract(1, ordering: .relaxed).newValue <= 0 else { return }
          if loss == .power { _ = try FileImage(source, as: image) }
          stop.set()
        }
      }
      try replica.take(until: stop)
      replica.close()
      if try moments.looks() == 0 {
        guard let sql = rest.next() else { break }
        try execute(source, sql)
        continue
      }
      if loss == .power, stop.isSet { try FileImage(source, existing: image).restore() }
      if rounds % 3 == 0 { try replica.replay() }
      rounds += 1
      try #require(rounds < 300, "capture does not come to an end")
    }
    try replica.replay()
    let differences = try replica.differences()
    #expect(differences.isEmpty, "\(differences) after \(program.statements)")
  }

  /// A random program: each statement adds or renames a column and writes at once, or only writes.
  private struct Program {
    private(set) var statements: [String] = []

    init(_ random: inout Seeded) {
      func any(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
      let defaults = [
        "", "DEFAULT 5", "INT NOT NULL DEFAULT 0", "TEXT DEFAULT 'x'", "REAL DEFAULT 1.5", "REAL DEFAULT 0",
        "DEFAULT x'01'", "TEXT DEFAULT NULL", "DEFAULT -1",
      ]
      var added: [String: [String]] = ["k": [], "w": []]
      for number in 0..<12 {
        let table = any(3) == 0 ? "w" : "k"
        let place = table == "k" ? "id" : "b"
        var parts: [String] = []
        switch any(5) {
        case 0...2:
          let name = "n\(number)"
          parts.append("ALTER TABLE \(table) ADD COLUMN \(name) \(defaults[any(defaults.count)])")
          added[table]?.append(name)
        case 3:
          if let old = added[table]?.last {
            parts.append("ALTER TABLE \(table) RENAME COLUMN \(old) TO r\(number)")
            added[table]?.removeLast()
            added[table]?.append("r\(number)")
          }
        default: break
        }
        for _ in 0..<(1 + any(3)) {
          if let column = added[table]?.randomElement(using: &random) {
            let value = ["7", "'t'", "x'02'", "1.5", "-0.0", "5"][any(6)]
            parts.append("UPDATE \(table) SET \(column) = \(value) WHERE \(place) % 97 = \(any(97))")
          }
          switch any(4) {
          case 0: parts.append("DELETE FROM \(table) WHERE \(place) % 89 = \(any(89))")
          case 1:
            parts.append(
              "UPDATE OR REPLACE \(table) SET \(place) = \(place) + \(any(4000) - 2000) WHERE \(place) % 83 = \(any(83))"
            )
          case 2:
            parts.append(
              table == "k"
                ? "INSERT OR REPLACE INTO k(id,a,u) VALUES (\(any(6000)),'i',\(any(3000)))"
                : "INSERT OR REPLACE INTO w(a,b,c) VALUES ('KEY\(any(40))',\(any(3000)),'i')")
          default: parts.append("UPDATE \(table) SET \(table == "k" ? "a" : "c") = \(any(9)) WHERE \(place) % 71 = 3")
          }
        }
        statements.append(
          any(2) == 0 ? "BEGIN; \(parts.joined(separator: "; ")); COMMIT" : parts.joined(separator: "; "))
      }
    }
  }

  @Test func `views, triggers and virtual tables are reported once`() throws {
    let replica = try started(TempFolder(), "CREATE TABLE t(a INTEGER PRIMARY KEY); CREATE VIEW old AS SELECT 1")
    try execute(
      replica.source,
      "CREATE VIEW recent AS SELECT * FROM t; CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1; END; CREATE VIRTUAL TABLE fts USING fts5(x)"
    )
    try replica.takeAndReplay()
    try execute(replica.source, "ALTER TABLE t ADD COLUMN b")
    try replica.takeAndReplay()
    #expect(
      replica.notices == [
        "views are not replicated: old",
        "view recent was created: views are not replicated",
        "trigger tr was created: triggers are not replicated, what they write is",
        "virtual table fts was created: virtual tables are not replicated",
      ])
  }
}
