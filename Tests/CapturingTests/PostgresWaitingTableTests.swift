import Changes
import PostgresKit
import Synchronization
import SystemKit
import TestServers
import Testing

@testable import Capturing

/// The owner of one captured table can hold up that table only.
@Suite(.serialized, .enabled(if: PostgresServer.isAvailable)) struct PostgresWaitingTableTests {
  private static let schema = """
    DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
    CREATE SCHEMA app; GRANT CREATE, USAGE ON SCHEMA app TO low;
    CREATE TABLE app.item(id integer PRIMARY KEY, v text);
    CREATE TABLE app.low(id integer PRIMARY KEY, u integer NOT NULL, v text); ALTER TABLE app.low OWNER TO low;
    INSERT INTO app.item VALUES (1, 'a'); INSERT INTO app.low VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')
    """

  /// A capture that follows its source on a thread of its own.
  private final class Following: @unchecked Sendable {
    let origin: PostgresOrigin
    private let said = Mutex<[String]>([])
    private let progress = Mutex<CaptureProgress?>(nil)
    private let stop = StopSignal()
    private var worker: WorkerThread<(any Error)?>?

    init(_ origin: PostgresOrigin) throws {
      self.origin = origin
      worker = try WorkerThread { [self] in
        do { try run() } catch { return error }
        return nil
      }
    }

    private func run() throws {
      // The progress, which is kept here, keeps this closure.
      try origin.with(said: { [weak self] text in self?.said.withLock { $0.append(text) } }) { capture in
        progress.withLock { $0 = capture.session.progress }
        try capture.run(stop: stop, untilCaughtUp: false)
      }
    }

    var notices: [String] { said.withLock { $0 } }
    var waits: [TableWait] { progress.withLock { $0?.snapshot.waits ?? [] } }

    /// Waits until the trail has a line, or the run ends.
    func see(_ line: String, from number: UInt64 = 0, seconds: Int64 = 45) throws {
      try until(seconds) { try self.origin.lines(from: number).contains(line) }
      let lines = try origin.lines(from: number)
      #expect(lines.contains(line), "\(line) is not in \(lines.suffix(20)); \(notices)")
    }

    func until(_ seconds: Int64, _ condition: () throws -> Bool) throws {
      let end = Clock.monotonicMilliseconds + seconds * 1000
      while try !condition(), Clock.monotonicMilliseconds < end { Clock.sleep(milliseconds: 50) }
    }

    func end() throws {
      stop.set()
      let error = worker?.join()
      worker = nil
      if let error, let error { throw error }
    }
  }

  private func role(_ origin: PostgresOrigin) throws -> PostgresConnection {
    try PostgresConnection(origin.server.url(origin.database, user: "low"))
  }

  // MARK: Large definitions

  /// An expression that takes some 28 MB in the catalog.
  private static let large = "v <> repeat('x', 8) || '\(String(repeating: "y", count: 7_000_000))'"

  @Test(.timeLimit(.minutes(20)), arguments: [true, false])
  func `definitions of a role's tables that are too large end the capture of these tables only`(_ hasTriggers: Bool)
    throws
  {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    if !hasTriggers { try origin.disableTriggers() }
    let following = try Following(origin)
    let low = try role(origin)
    // A captured table, and one that is new.
    try low.executeScript(
      "ALTER TABLE app.low ADD CONSTRAINT big CHECK (\(Self.large)) NOT VALID; CREATE TABLE app.own(id integer PRIMARY KEY, v text CHECK (\(Self.large)))"
    )
    try following.until(60) { following.waits.count == 2 }
    #expect(
      following.waits.map(\.table) == ["app.low", "app.own"] && following.waits.allSatisfy { $0.code == .tableRefused })
    #expect(following.waits.first?.message.contains("MiB in the catalog") == true, "\(following.waits)")
    let known = try origin.lastNumber
    try origin.run("INSERT INTO app.item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    try low.executeScript("UPDATE app.low SET v = 'missed' WHERE id = 1")
    try following.end()
    // A restart changes nothing, and the table comes back by a copy.
    let restarted = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (3, 'c')")
    try restarted.see("insert item id=3 v=c")
    try low.executeScript("ALTER TABLE app.low DROP CONSTRAINT big; DROP TABLE app.own")
    try restarted.until(60) { restarted.waits.isEmpty }
    try restarted.until(60) { try origin.lines(from: known).contains { $0.contains("missed") } }
    #expect(try origin.lines(from: known).contains { $0.contains("missed") })
    #expect(restarted.waits.isEmpty, "\(restarted.waits)")
    try restarted.end()
  }

  /// A default of some KB that prints as more than 32 MB.
  private static let numbers: String = {
    let some = "concat(\(Array(repeating: "1e131000::numeric", count: 90).joined(separator: ",")))"
    return "concat(\(Array(repeating: some, count: 3).joined(separator: ",")))"
  }()

  private static let array =
    "'{\(Array(repeating: "1e131000", count: 270).joined(separator: ","))}'::numeric[]::text"

  /// Statements that give a captured table and a new one such a default, CHECK or type.
  private static let printed = [
    "ALTER TABLE app.low ALTER v SET DEFAULT \(numbers); CREATE TABLE app.own(id integer PRIMARY KEY, v text DEFAULT \(array))",
    "CREATE DOMAIN app.word AS text DEFAULT \(numbers); CREATE TABLE app.own(id integer PRIMARY KEY, v app.word); "
      + "ALTER TABLE app.low ADD CHECK (v <> \(numbers)) NOT VALID",
  ]

  @Test(.timeLimit(.minutes(20)), arguments: printed, [true, false])
  func `definitions that print much longer than they are stored end the capture of these tables only`(
    _ statements: String, _ hasTriggers: Bool
  ) throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    if !hasTriggers { try origin.disableTriggers() }
    let following = try Following(origin)
    try role(origin).executeScript(statements)
    try following.until(60) { following.waits.count == 2 }
    #expect(
      following.waits.map(\.table) == ["app.low", "app.own"] && following.waits.allSatisfy { $0.code == .tableRefused })
    #expect(following.waits.first?.message.contains("MiB is the most that is read") == true, "\(following.waits)")
    try origin.run("INSERT INTO app.item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    try following.end()
    let restarted = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (3, 'c')")
    try restarted.see("insert item id=3 v=c")
    try restarted.end()
  }

  // MARK: Tables that cannot be captured any more

  /// The statements of the owner of a table that take its identity, and those that give it one again.
  private static let losses = [
    ("ALTER TABLE app.low DROP CONSTRAINT low_pkey", "ALTER TABLE app.low ADD PRIMARY KEY (id)"),
    ("ALTER TABLE app.low REPLICA IDENTITY NOTHING", "ALTER TABLE app.low REPLICA IDENTITY DEFAULT"),
    (
      "ALTER TABLE app.low DROP CONSTRAINT low_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
      "ALTER TABLE app.low REPLICA IDENTITY FULL"
    ),
    (
      "CREATE UNIQUE INDEX low_u ON app.low(u); ALTER TABLE app.low REPLICA IDENTITY USING INDEX low_u; DROP INDEX app.low_u",
      "ALTER TABLE app.low REPLICA IDENTITY DEFAULT"
    ),
    (
      "ALTER TABLE app.low DROP CONSTRAINT low_pkey, ADD g integer GENERATED ALWAYS AS (id) STORED, ADD PRIMARY KEY (g)",
      "ALTER TABLE app.low REPLICA IDENTITY FULL"
    ),
  ]

  @Test(.timeLimit(.minutes(20)), arguments: losses, [true, false])
  func `a table that loses its identity waits, all others go on, and a copy brings it back`(
    _ statements: (String, String), _ hasTriggers: Bool
  ) throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    if !hasTriggers { try origin.disableTriggers() }
    let following = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    let low = try role(origin)
    try low.executeScript(statements.0)
    try following.until(30) { !following.waits.isEmpty }
    #expect(following.waits.map(\.table) == ["app.low"] && following.waits.first?.code == .tableRefused)
    #expect(following.waits.first?.hint.contains("REPLICA IDENTITY FULL") == true)
    #expect(following.notices.count { $0.contains("app.low") && $0.contains("REPLICA IDENTITY FULL") } == 1)
    // The owner's own statements work, and the other table is captured.
    let known = try origin.lastNumber
    try low.executeScript(
      "UPDATE app.low SET v = 'x' WHERE id = 1; DELETE FROM app.low WHERE id = 2; INSERT INTO app.low VALUES (4, 4, 'd')"
    )
    try origin.run("INSERT INTO app.item VALUES (3, 'c')")
    try following.see("insert item id=3 v=c")
    // A restart changes nothing.
    try following.end()
    let restarted = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (4, 'd')")
    try restarted.see("insert item id=4 v=d")
    try restarted.until(30) { !restarted.waits.isEmpty }
    #expect(restarted.waits.map(\.table) == ["app.low"])
    let before = try origin.lines(from: known)
    #expect(!before.contains { $0.hasSuffix(" low") || $0.contains(" low id") }, "\(before)")
    try low.executeScript(statements.1)
    try restarted.see("end low", from: known)
    let rows = try origin.lines(from: known).filter { $0.hasPrefix("row low") }
    #expect(Set(rows.map { $0.dropFirst(8).prefix(4) }) == ["id=1", "id=3", "id=4"], "\(rows)")
    #expect(try origin.ddl().allSatisfy { $0.action != .drop })
    try restarted.until(30) { restarted.waits.isEmpty }
    #expect(restarted.waits.isEmpty)
    try low.executeScript("UPDATE app.low SET v = 'y' WHERE id = 3")
    try restarted.until(30) { try origin.lines(from: known).contains { $0.hasPrefix("update low") } }
    #expect(try origin.lines(from: known).last?.hasPrefix("update low") == true)
    try restarted.end()
  }

  @Test(.timeLimit(.minutes(20))) func `a new table without identity ends no restart`() throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    try origin.run("SET ROLE low; CREATE TABLE app.loose(a integer); INSERT INTO app.loose VALUES (1)")
    let following = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    try following.until(30) { !following.waits.isEmpty }
    #expect(following.waits.map(\.table) == ["app.loose"])
    try origin.run("UPDATE app.loose SET a = 2; ALTER TABLE app.loose REPLICA IDENTITY FULL")
    try following.see("row loose a=2")
    try following.end()
  }

  @Test(.timeLimit(.minutes(20))) func `a run that ends reports a table that waits, after all others`() throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    try origin.run("ALTER TABLE app.low DROP CONSTRAINT low_pkey; INSERT INTO app.item VALUES (2, 'b')")
    #expect(origin.code { try origin.take() } == .tableRefused)
    #expect(try origin.lines().contains("insert item id=2 v=b"))
    #expect(origin.code { try origin.take() } == .tableRefused)
    try origin.run("ALTER TABLE app.low ADD PRIMARY KEY (id)")
    let known = try origin.lastNumber
    try origin.take()
    #expect(try origin.lines(from: known).count { $0.hasPrefix("row low") } == 3)
  }

  // MARK: Tables that are locked

  @Test(.timeLimit(.minutes(20)), arguments: ["LOCK TABLE app.low", "REINDEX INDEX app.low_pkey"])
  func `a table that its owner keeps locked holds up no other`(_ lock: String) throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    // Both tables are to be copied, the locked one first.
    try origin.run(
      "ALTER TABLE app.low ALTER u TYPE bigint USING u + 1; ALTER TABLE app.item ADD n integer GENERATED BY DEFAULT AS IDENTITY"
    )
    let known = try origin.lastNumber
    let low = try role(origin)
    try low.execute("BEGIN")
    try low.execute(lock)
    let holder = "process \(low.backendPID) of low"
    let following = try Following(origin)
    try following.see("end item", from: known)
    try origin.run("CREATE TABLE app.made(id integer PRIMARY KEY); INSERT INTO app.item VALUES (2, 'b')")
    try following.see("create made")
    try following.see("insert item id=2 v=b n=2")
    try following.until(25) { following.waits.contains { $0.table == "app.low" && $0.message.contains(holder) } }
    #expect(following.notices.contains { $0.contains("app.low") && $0.contains(holder) }, "\(following.notices)")
    // A copy of a new table waits for all transactions that were open, and says so.
    try following.until(25) { following.waits.contains { $0.table == "app.made" && $0.message.contains(holder) } }
    // The first report may name another transaction, which has ended since.
    #expect(following.notices.contains { $0.contains("app.made waits for") }, "\(following.notices)")
    #expect(try !origin.lines(from: known).contains("end low"))
    low.rollback()
    try following.see("end low", from: known)
    try following.see("end made")
    try following.until(20) { following.waits.isEmpty }
    #expect(following.waits.isEmpty)
    try origin.run("INSERT INTO app.low VALUES (9, 9, 'z')")
    try following.see("insert low id=9 u=9 v=z")
    try following.end()
  }

  @Test(.timeLimit(.minutes(20))) func `a capture begins once a table that is vacuumed or altered is free`() throws {
    let origin = try PostgresOrigin(Self.schema)
    // As VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY lock it: programs may write to it.
    nonisolated(unsafe) let program = try PostgresConnection(origin.server.url(origin.database))
    try program.executeScript("BEGIN; LOCK TABLE app.low IN SHARE UPDATE EXCLUSIVE MODE")
    let said = Mutex<[String]>([])
    try origin.take(said: { text in
      said.withLock { $0.append(text) }
      if text.contains("app.low") { try? program.executeScript("ROLLBACK") }
    })
    let notices = said.withLock { $0 }
    #expect(notices.contains { $0.contains("app.low") && $0.contains("process ") }, "\(notices)")
    #expect(try origin.lines().contains("end low"))
  }

  @Test(.timeLimit(.minutes(20))) func `a new table that is locked at once is published later`() throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.take()
    let following = try Following(origin)
    try origin.run("INSERT INTO app.item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    let low = try role(origin)
    try low.executeScript("CREATE TABLE app.mine(id integer PRIMARY KEY)")
    try low.execute("BEGIN")
    // Blocks ALTER PUBLICATION, and no reading of definitions.
    try low.execute("LOCK TABLE app.mine IN SHARE UPDATE EXCLUSIVE MODE")
    try origin.run("CREATE TABLE app.made(id integer PRIMARY KEY); INSERT INTO app.item VALUES (3, 'c')")
    try following.see("insert item id=3 v=c")
    try following.see("end made")
    low.rollback()
    try following.see("end mine")
    try following.end()
  }

  @Test func `a table with an unlogged partition is refused at the first start`() throws {
    let origin = try PostgresOrigin(
      """
      CREATE TABLE part(id integer PRIMARY KEY, v text) PARTITION BY RANGE (id);
      CREATE UNLOGGED TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100); INSERT INTO part VALUES (1, 'a')
      """)
    do {
      try origin.take()
      Issue.record("it was captured: \(try origin.lines())")
    } catch let error as CairnError {
      #expect(error.code == .tableRefused && error.hint.contains("SET LOGGED"), "\(error)")
    }
  }

  @Test(.timeLimit(.minutes(20)))
  func `a table with an unlogged partition waits, and is copied after that`() throws {
    let origin = try PostgresOrigin(
      """
      CREATE TABLE item(id integer PRIMARY KEY, v text); INSERT INTO item VALUES (1, 'a');
      CREATE TABLE part(id integer PRIMARY KEY, v text) PARTITION BY RANGE (id);
      CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100); INSERT INTO part VALUES (1, 'a'), (2, 'b')
      """)
    try origin.take()
    let following = try Following(origin)
    try origin.run("INSERT INTO part VALUES (3, 'c')")
    try following.see("insert part id=3 v=c")
    try origin.run("ALTER TABLE part1 SET UNLOGGED")
    try origin.run("UPDATE part SET v = 'z' WHERE id = 1; INSERT INTO part VALUES (4, 'd')")
    try following.until(30) { !following.waits.isEmpty }
    #expect(following.waits.map(\.table) == ["part"])
    #expect(following.waits.first?.hint.contains("SET LOGGED") == true)
    try origin.run("INSERT INTO item VALUES (2, 'b')")
    try following.see("insert item id=2 v=b")
    let known = try origin.lastNumber
    try origin.run("ALTER TABLE part1 SET LOGGED")
    try following.see("end part", from: known)
    let lines = try origin.lines(from: known)
    #expect(lines.contains("row part id=1 v=z") && lines.contains("row part id=4 v=d"), "\(lines)")
    try following.until(30) { following.waits.isEmpty }
    #expect(following.waits.isEmpty)
    try following.end()
  }

  @Test(.timeLimit(.minutes(20))) func `a table that this role may no longer read holds up no other`() throws {
    let origin = try PostgresOrigin(Self.schema)
    try origin.run(
      """
      DO $$ BEGIN CREATE ROLE cap LOGIN REPLICATION; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      GRANT CREATE ON DATABASE \(origin.database) TO cap; GRANT USAGE ON SCHEMA app TO cap; GRANT low TO cap;
      ALTER TABLE app.item OWNER TO cap
      """)
    origin.role = "cap"
    try origin.take()
    // The table stays published, and cannot be read.
    try origin.run("REVOKE low FROM cap; ALTER TABLE app.low ADD x uuid DEFAULT gen_random_uuid()")
    let following = try Following(origin)
    try origin.run("CREATE TABLE app.made(id integer PRIMARY KEY); ALTER TABLE app.made OWNER TO cap")
    try following.see("end made")
    try following.until(30) { !following.waits.isEmpty }
    #expect(following.waits.map(\.table) == ["app.low"])
    #expect(following.waits.first?.code == .privilegeMissing)
    let known = try origin.lastNumber
    try origin.run("GRANT SELECT ON app.low TO cap")
    try following.see("end low", from: known)
    try following.until(30) { following.waits.isEmpty }
    #expect(following.waits.isEmpty)
    try following.end()
  }
}

extension PostgresOrigin {
  func disableTriggers() throws {
    try run(
      """
      DO $$ DECLARE name text; BEGIN FOR name IN SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^cairn_' LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I DISABLE', name); END LOOP; END $$
      """)
  }
}
