import Applying
import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// The headers of a trail's transactions, and of each what it holds but progress.
func transactions(of trail: String) throws -> [(header: TransactionHeader, records: Int)] {
  let reader = try TrailReader.open(folder: trail, at: nil)
  var found: [(header: TransactionHeader, records: Int)] = []
  while let record = try reader.next() {
    if case .begin(let header) = record { found.append((header, 0)) }
    if record.isOfChanges { found[found.count - 1].records += 1 }
  }
  return found
}

extension PostgresCapturing {
  /// Changes that apply has brought into a database that is captured too.
  @Suite struct VersionVectorTests {
    private typealias Dependency = TransactionHeader.Dependency
    /// The clock of a node that is ahead by less than a capture takes over.
    private static let clock = UInt64(Clock.system.microseconds()) + 110_000_000

    private func emit(_ number: UInt64, clock: UInt64 = clock, of trail: String = "b.x") -> String {
      let note = AppliedNote(trail: trail, number: number, clock: clock, position: .start)
      return PostgresOrigin.message("cairn", "convert_to('\(note.text)', 'UTF8')")
    }

    private func origin() throws -> PostgresOrigin {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.makeKey()
      try origin.take()
      return origin
    }

    /// The headers of transactions that change something, after the first copy.
    private func changing(_ origin: PostgresOrigin, from number: UInt64) throws -> [TransactionHeader] {
      try transactions(of: origin.trailFolder).filter { $0.header.number > number && $0.records > 0 }.map(\.header)
    }

    @Test func `each transaction says what apply had brought before it`() throws {
      let origin = try origin()
      let known = try origin.lastNumber
      try origin.run(
        """
        BEGIN; INSERT INTO t VALUES (1); COMMIT; BEGIN; \(emit(0)) \(emit(5)) INSERT INTO t VALUES (2); \(emit(7, clock: Self.clock + 9)) COMMIT;
        BEGIN; INSERT INTO t VALUES (3); COMMIT; BEGIN; \(emit(9)) ROLLBACK; BEGIN; \(emit(0)) COMMIT; BEGIN; \(emit(3, of: "a.y")) COMMIT;
        BEGIN; \(emit(50, of: "local.origin")) COMMIT; BEGIN; \(emit(6)) COMMIT;
        INSERT INTO t VALUES (4);
        """)
      try origin.take()
      #expect(try origin.lines(from: known) == ["insert t id=1", "insert t id=3", "insert t id=4"])
      let headers = try changing(origin, from: known)
      let b = Dependency(origin: "b.x", number: 7)
      #expect(headers.map(\.dependencies) == [[], [b], [.init(origin: "a.y", number: 3), b]])
      #expect(headers[0].clock < Self.clock)
      #expect(headers[1].clock == Self.clock + 10)
    }

    @Test func `knowledge outlives capture, also if nothing followed it`() throws {
      let origin = try origin()
      try origin.run("BEGIN; \(emit(7)) INSERT INTO t VALUES (1); COMMIT")
      try origin.take()
      let known = try origin.lastNumber
      // A server that crashed sends again what the trail has passed.
      try origin.server.restart(.immediate)
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.take()
      let headers = try changing(origin, from: known)
      #expect(headers.map(\.dependencies) == [[.init(origin: "b.x", number: 7)]])
    }

    @Test func `a lost slot forgets nothing that is known`() throws {
      let origin = try origin()
      try origin.run("BEGIN; \(emit(7)) COMMIT")
      try origin.take()
      try origin.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
      try origin.take(copiesAgain: true)
      #expect(try transactions(of: origin.trailFolder).last?.header.dependencies.first?.number == 7)
    }

    @Test func `the changes of apply before the first start are known, exactly as the slot sees them`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(id int PRIMARY KEY); CREATE SCHEMA cairn;
        CREATE TABLE cairn.checkpoint(trail text PRIMARY KEY, number bigint, trail_id bytea);
        INSERT INTO cairn.checkpoint VALUES ('b.x', 12)
        """)
      try origin.take()
      #expect(
        try transactions(of: origin.trailFolder).first?.header.dependencies == [.init(origin: "b.x", number: 12)])
    }

    @Test func `a change that waits, or was put aside, is not known`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(id int PRIMARY KEY); CREATE SCHEMA cairn;
        CREATE TABLE cairn.checkpoint(trail text PRIMARY KEY, number bigint, trail_id bytea);
        INSERT INTO cairn.checkpoint VALUES ('b.x', 12), ('c.x', 12), ('d.x', 12);
        CREATE TABLE cairn.waiting(trail text, number bigint);
        INSERT INTO cairn.waiting VALUES ('b.x', 9), ('b.x', 7), ('c.x', 11);
        CREATE TABLE cairn.quarantine(trail text, number bigint); INSERT INTO cairn.quarantine VALUES ('c.x', 11)
        """)
      try origin.take()
      let known = try transactions(of: origin.trailFolder).first?.header.dependencies
      #expect(known == [("b.x", 7), ("c.x", 10), ("d.x", 12)].map { .init(origin: $0.0, number: $0.1) })
    }

    @Test func `many notes are recorded by few transactions, and soon`() throws {
      let origin = try origin()
      let before = try origin.lastNumber
      let (server, database, trail) = (origin.server, origin.database, origin.trailFolder)
      let statements = (1...60).map { "BEGIN; \(emit(UInt64($0))) INSERT INTO t VALUES (\($0)); COMMIT;" }
      let stop = StopSignal()
      let writer = try WorkerThread<Bool> {
        defer { stop.set() }
        _ = try? server.psql(statements.joined(), database)
        for _ in 0..<400 {
          if let last = try? transactions(of: trail).last, last.header.dependencies.first?.number == 60 { return true }
          Clock.sleep(milliseconds: 10)
        }
        return false
      }
      try origin.with { try $0.run(stop: stop, untilCaughtUp: false) }
      #expect(writer.join() == true)
      let told = try transactions(of: trail).filter { $0.header.number > before }
      #expect(told.allSatisfy { $0.records == 0 })
      #expect(told.count <= 4, "\(told.count) transactions")
    }

    @Test func `apply notes the last transaction of a group, and none that changes nothing`() throws {
      let origin = try origin()
      let replica = Replica(try TempFolder())
      try execute(replica.source, "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 1)")
      for id in 2..<5 {
        try replica.take()
        try execute(replica.source, "INSERT INTO s VALUES (\(id), \(id))")
      }
      try replica.take()
      let last = try #require(try transactions(of: replica.trail).last { $0.records > 0 }?.header)
      let options = PostgresApply.Options()
      func replay() throws {
        let drain = StopSignal()
        drain.set()
        try PostgresApply(uri: origin.uri, trail: replica.trail, name: Replica.name, options: options)
          .run(stop: StopSignal(), drain: drain)
      }
      try replay()
      try origin.take(TablePatterns(["t"]))
      let noted = [
        Dependency(origin: "local.source", number: last.number, id: try Trail.info(folder: replica.trail).id)
      ]
      #expect(try transactions(of: origin.trailFolder).last?.header.dependencies == noted)
      replica.close()
      let writer = try TrailWriter.open(folder: replica.trail, name: Replica.name, now: { 0 })
      _ = try writer.begin(TransactionHeader(commitTime: 0))
      try writer.commit()
      try writer.close()
      try replay()
      try origin.take(TablePatterns(["t"]))
      #expect(try transactions(of: origin.trailFolder).last?.header.dependencies == noted)
      #expect(try transactions(of: replica.trail).last?.header.number == last.number + 1)
    }

    /// A standby that confirms commits only while it runs; a commit that waits for it is in the log, but not visible yet.
    private final class SlowStandby {
      private let process = Process()
      private let folder: TempFolder
      private let server: PostgresServer

      init(_ server: PostgresServer) throws {
        self.server = server
        folder = try TempFolder()
        process.executableURL = URL(fileURLWithPath: server.path(of: "pg_receivewal"))
        process.arguments = ["-D", folder.path, "--synchronous", "-d", server.url() + "&application_name=slow"]
        process.standardError = FileHandle.nullDevice
        try process.run()
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'slow' AND state = 'streaming'"
        for _ in 0..<200 where try server.psql(streams) == "0" { Clock.sleep(milliseconds: 50) }
        #expect(try server.psql(streams) == "1")
        try server.psql("ALTER SYSTEM SET synchronous_standby_names = 'slow'")
        try server.psql("SELECT pg_reload_conf()")
      }

      func pause() { kill(process.processIdentifier, SIGSTOP) }
      func resume() { kill(process.processIdentifier, SIGCONT) }

      func end() {
        resume()
        _ = try? server.psql("ALTER SYSTEM RESET synchronous_standby_names")
        _ = try? server.psql("SELECT pg_reload_conf()")
        // Tests may have blocked the signals that a child inherits.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
      }

      deinit { if process.isRunning { end() } }
    }

    @Test func `a commit that waits for a standby is captured, and what apply had brought is known`() throws {
      let server = try PostgresServer()
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)", server: server)
      try origin.take()
      let replica = Replica(try TempFolder())
      try execute(replica.source, "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 1)")
      try replica.take()
      let (uri, trail) = (origin.uri, replica.trail)
      @Sendable func replay() throws {
        let drain = StopSignal()
        drain.set()
        try PostgresApply(uri: uri, trail: trail, name: Replica.name, options: PostgresApply.Options())
          .run(stop: StopSignal(), drain: drain)
      }
      try replay()
      try origin.take()
      let known = try origin.lastNumber
      for id in 2...40 {
        try execute(replica.source, "INSERT INTO s VALUES (\(id), \(id))")
        try replica.take()
      }
      let last = try #require(try transactions(of: replica.trail).last { $0.records > 0 }?.header.number)

      let standby = try SlowStandby(server)
      standby.pause()
      let database = origin.database
      let program = try WorkerThread<Bool> { (try? server.psql("INSERT INTO t VALUES (1)", database)) != nil }
      let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
      for _ in 0..<200 where try server.psql(waits) == "0" { Clock.sleep(milliseconds: 50) }
      #expect(try server.psql(waits) == "1")
      #expect(try origin.run("SELECT count(*) FROM t") == "0")
      // The backlog is applied while the program's commit waits; then the program writes one of its rows.
      let apply = try WorkerThread<Bool> { (try? replay()) != nil }
      Clock.sleep(milliseconds: 500)
      standby.resume()
      #expect(apply.join() == true && program.join() == true)
      standby.end()
      try origin.run("UPDATE s SET a = 0 WHERE id = 40")
      try origin.take()
      let lines = try origin.lines(from: known).filter { !$0.hasPrefix("sequence") }
      #expect(lines == ["insert t id=1", "update s id=40 a=0"])
      let update = try #require(try changing(origin, from: known).last)
      #expect(update.dependencies.map(\.number) == [last], "\(update.dependencies)")
    }

    @Test func `without a copy, rows that were there are not sent, and every change from then on is`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
      origin.copiesRows = false
      try origin.take()
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.run("CREATE TABLE late(id int PRIMARY KEY); INSERT INTO late VALUES (1)")
      try origin.take()
      #expect(
        try origin.lines()
          == [
            "create t", "insert t id=2", "create late", "start late firstCopy", "chunk late", "row late id=1",
            "end late",
          ])
    }

    @Test func `a schema change of apply's is recorded at its place, and copies nothing`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, a int); CREATE TABLE gone(id int PRIMARY KEY); INSERT INTO t VALUES (1, 1)")
      try origin.makeKey()
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(
        """
        BEGIN; \(emit(5)) ALTER TABLE t ADD COLUMN b timestamptz DEFAULT clock_timestamp(); INSERT INTO t VALUES (2, 2);
        DROP TABLE gone; COMMIT;
        BEGIN; UPDATE t SET a = 3, b = NULL WHERE id = 2; COMMIT;
        BEGIN; \(emit(6)) ALTER TABLE t ALTER a TYPE text USING a || 'x'; COMMIT;
        BEGIN; UPDATE t SET b = NULL WHERE id = 2; COMMIT
        """)
      try origin.take()
      #expect(
        try origin.lines(from: known)
          == ["reshape t t", "drop gone", "update t id=2 a=3 b=NULL", "reshape t t", "update t id=2 a=3x b=NULL"])
    }

    @Test(arguments: [true, false])
    func `a table that apply makes is not copied back, and no change of it is missed`(isTold: Bool) throws {
      let origin = try origin()
      // As if capture's role were no superuser.
      if !isTold {
        for trigger in ["ddl_command_end", "sql_drop", "table_rewrite"] {
          try origin.run("ALTER EVENT TRIGGER cairn_\(trigger) DISABLE")
        }
      }
      let known = try origin.lastNumber
      let replica = Replica(try TempFolder())
      try execute(replica.source, "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 1)")
      try replica.take()
      let drain = StopSignal()
      drain.set()
      try PostgresApply(uri: origin.uri, trail: replica.trail, name: Replica.name, options: PostgresApply.Options())
        .run(stop: StopSignal(), drain: drain)
      // Before capture has looked.
      try origin.run("INSERT INTO s VALUES (2, 2); UPDATE s SET a = 3 WHERE id = 1")
      try origin.take()
      #expect(try origin.run("SELECT count(*) FROM s") == "2")
      let lines = try origin.lines(from: known).filter { !$0.hasPrefix("sequence") }
      #expect(lines == ["create s", "insert s id=2 a=2", "update s id=1 a=3"])
      // A table that no apply makes is copied.
      let then = try origin.lastNumber
      try origin.run("CREATE TABLE u(id int PRIMARY KEY)")
      try origin.take()
      #expect(try origin.lines(from: then).contains("start u firstCopy"))
    }

    /// A role that is no superuser cannot make the event triggers that record schema changes.
    @Test func `without a superuser's rights, and with no rows to copy, a table that apply makes is not sent`() throws {
      let origin = try PostgresOrigin()
      let role = "low_\(origin.database)"
      try origin.run(
        """
        CREATE ROLE \(role) LOGIN REPLICATION; GRANT SET ON PARAMETER session_replication_role TO \(role);
        GRANT CREATE ON DATABASE \(origin.database) TO \(role); GRANT ALL ON SCHEMA public TO \(role); SET ROLE \(role);
        CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)
        """)
      (origin.role, origin.copiesRows, origin.goesBothWays) = (role, false, true)
      try origin.take()
      #expect(try origin.run("SELECT count(*) FROM pg_event_trigger WHERE evtname LIKE 'cairn%'") == "0")
      let replica = Replica(try TempFolder())
      try execute(replica.source, "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 1)")
      try replica.take()
      let drain = StopSignal()
      drain.set()
      let uri = origin.server.url(origin.database, user: role)
      try PostgresApply(uri: uri, trail: replica.trail, name: Replica.name, options: PostgresApply.Options())
        .run(stop: StopSignal(), drain: drain)
      try origin.take()
      try origin.run("INSERT INTO s VALUES (2, 2); UPDATE s SET a = 3 WHERE id = 1; INSERT INTO t VALUES (2)")
      try origin.take()
      #expect(try origin.run("SELECT count(*) FROM s") == "2")
      let lines = try origin.lines().filter { !$0.hasPrefix("sequence") }
      #expect(lines == ["create t", "create s", "insert s id=2 a=2", "update s id=1 a=3", "insert t id=2"])
    }

    @Test func `a position of an older version is read as one without knowledge`() throws {
      var position = PostgresPosition(system: 1, timeline: 2, reached: LSN(3))
      position.last = .init(commit: LSN(2), xid: 4, time: 5)
      position.refresh = .init(relation: 6, epoch: 7, rows: 8, cursor: ["9"], isDone: true)
      position.witness = position.last
      // A position of version 1: without knowledge, `quiet` and `witness`.
      var older = Array(position.encoded.dropLast(1 + 8 + 17))
      older[1] = 1
      #expect(try PostgresPosition(decoding: older) == position)
      (position.quiet, position.witness) = (LSN(5), .init(commit: LSN(3), xid: 5, time: 6))
      position.knowledge.note("b.x", number: 7, clock: 8)
      #expect(try PostgresPosition(decoding: position.encoded) == position)
      #expect(try PostgresPosition(decoding: older) != position)
      // A position of version 3: without the byte after each entry that says whether an id follows.
      older = position.encoded
      older.remove(at: older.count - 21 - 8 - 1)
      older[1] = 3
      #expect(try PostgresPosition(decoding: older) == position)
      position.knowledge.note("b.x", id: TrailID(Array(0..<16)), number: 2, clock: 9)
      #expect(try PostgresPosition(decoding: position.encoded) == position)
    }
  }
}
