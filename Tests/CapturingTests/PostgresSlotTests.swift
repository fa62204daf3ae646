import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Disagreements of the slot, the server and the trail.
  @Suite struct SlotTests {
    private func origin() throws -> PostgresOrigin {
      try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    }

    private var slot: String {
      "(SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database())"
    }

    @Test func `a slot that is gone is reported, and a copy of everything is the way back`() throws {
      let origin = try origin()
      try origin.take()
      try origin.run("SELECT pg_drop_replication_slot(\(slot)); INSERT INTO t VALUES (2)")
      #expect(origin.code { try origin.take() } == .slotLost)
      let known = try origin.lastNumber
      try origin.take(copiesAgain: true)
      #expect(try origin.lines(from: known).filter { $0.hasPrefix("row") } == ["row t id=1", "row t id=2"])
      try origin.run("INSERT INTO t VALUES (3)")
      try origin.take()
      #expect(try origin.lines().last == "insert t id=3")
    }

    @Test func `a slot that another program moved on is reported`() throws {
      let origin = try origin()
      try origin.take()
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.run("SELECT pg_replication_slot_advance(\(slot), pg_current_wal_lsn())")
      #expect(origin.code { try origin.take() } == .slotLost)
    }

    @Test func `a slot of another plugin is not taken for ours`() throws {
      let origin = try origin()
      try origin.take()
      let name = try origin.run("SELECT \(slot)")
      try origin.run("SELECT pg_drop_replication_slot('\(name)')")
      try origin.run("SELECT pg_create_logical_replication_slot('\(name)', 'test_decoding')")
      #expect(origin.code { try origin.take() } == .slotLost)
    }

    @Test func `a publication that is gone is reported, and created again with a copy of everything`() throws {
      let origin = try origin()
      try origin.take()
      let name = try origin.run("SELECT \(slot)")
      try origin.run("DROP PUBLICATION \(name)")
      try origin.run("INSERT INTO t VALUES (2)")
      #expect(origin.code { try origin.take() } == .slotLost)
      try origin.take(copiesAgain: true)
      #expect(try origin.lines().contains("row t id=2"))
    }

    @Test func `a table that was taken out of the publication is put back and copied again`() throws {
      let origin = try origin()
      try origin.take()
      let known = try origin.lastNumber
      try origin.run("ALTER PUBLICATION \(try origin.run("SELECT \(slot)")) DROP TABLE t")
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.take()
      #expect(try origin.lines(from: known).filter { $0.hasPrefix("row") } == ["row t id=1", "row t id=2"])
      try origin.run("INSERT INTO t VALUES (3)")
      try origin.take()
      #expect(try origin.lines().last == "insert t id=3")
    }

    @Test(arguments: ["SET (publish = 'insert')", "SET TABLE t WHERE (id > 100)", "SET TABLE t (id)"])
    func `a publication that leaves something out is set right, and the table copied again`(change: String) throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run("ALTER PUBLICATION \(try origin.run("SELECT \(slot)")) \(change)")
      try origin.run("DELETE FROM t WHERE id = 1")
      try origin.run("INSERT INTO t VALUES (3, 3)")
      try origin.take()
      #expect(
        try origin.lines(from: known).filter { $0.hasPrefix("row") } == ["row t id=2 a=2", "row t id=3 a=3"])
      let then = try origin.lastNumber
      try origin.run("DELETE FROM t WHERE id = 2")
      try origin.take()
      #expect(try origin.lines(from: then).contains { $0.hasPrefix("delete t id=2") })
    }

    @Test func `nothing is confirmed before it is in the trail`() throws {
      let origin = try origin()
      try origin.take()
      try origin.run("INSERT INTO t SELECT generate_series(2, 100)")
      try origin.take()
      let lsn = try origin.run(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()")
      let last = try lastPosition(origin)
      #expect(try #require(LSN(lsn)) <= last.reached)
    }

    private func lastPosition(_ origin: PostgresOrigin) throws -> PostgresPosition {
      var position: PostgresPosition?
      try origin.with { position = $0.session.slot.position }
      return try #require(position)
    }

    @Test func `a transaction of the trail is not taken again when the server sends it again`() throws {
      let origin = try origin()
      try origin.take()
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.take()
      // A server that crashed has forgotten what was confirmed last.
      try origin.server.restart(.immediate)
      try origin.run("INSERT INTO t VALUES (3)")
      try origin.take()
      #expect(try origin.lines().filter { $0.hasPrefix("insert") } == ["insert t id=2", "insert t id=3"])
    }

    @Test func `capture ends in good order when it is stopped`() throws {
      let origin = try origin()
      try origin.take()
      let stop = StopSignal()
      try origin.with { capture in
        let worker = try WorkerThread<Void>({
          Clock.sleep(milliseconds: 300)
          stop.set()
        })
        try capture.run(stop: stop, untilCaughtUp: false)
        _ = worker.join()
      }
      #expect(try origin.run("SELECT active FROM pg_replication_slots WHERE database = current_database()") == "f")
    }

    @Test func `detach leaves nothing`() throws {
      let origin = try origin()
      let before = try origin.server.schema(origin.database)
      try origin.take()
      let connection = try PostgresConnection(origin.uri)
      #expect(try PostgresSource.detach(connection))
      #expect(try !PostgresSource.detach(connection))
      #expect(try origin.server.schema(origin.database) == before)
      #expect(try origin.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == "0")
    }
  }

  /// Copies while programs write.
  @Suite struct CopyTests {
    /// The rows that a reader of the trail ends with, by key; the trail's rules and nothing else.
    private func replay(_ origin: PostgresOrigin) throws -> [String: String] {
      var rows: [String: String] = [:]
      for line in try origin.lines() {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        switch words[0] {
        case "start": rows = [:]
        case "row", "insert": rows[key(words[2])] = words[2]
        case "update":
          let parts = words[2].split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
          let fresh = parts[parts.count - 1]
          if parts.count == 2 { rows[key(parts[0])] = nil }
          rows[key(fresh)] = fresh
        case "delete": rows[key(words[2])] = nil
        default: break
        }
      }
      return rows
    }

    /// Up to the next column.
    private func key(_ row: String) -> String { row.components(separatedBy: " v=")[0] }

    @Test(arguments: ["int", "text", "numeric", "timestamptz"])
    func `a copy in many chunks under writes ends equal`(type: String) throws {
      let cast = ["timestamptz": "timestamptz '2024-01-01' + interval '1 s' * "][type] ?? ""
      @Sendable func make(_ n: String) -> String { cast.isEmpty ? "(\(n))::\(type)" : "\(cast) (\(n))" }
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id \(type) PRIMARY KEY, v int); INSERT INTO t SELECT \(make("i * 7")), i FROM generate_series(1, 30000) AS i"
      )
      let (server, database) = (origin.server, origin.database)
      let writer = try WorkerThread<Void>({
        for i in 0..<60 {
          let n = i * 491 % 30000 + 1
          _ = try? server.psql(
            "INSERT INTO t VALUES (\(make("\(n) * 7 + 1")), 0); UPDATE t SET v = v + 1000000 WHERE id = \(make("\(n) * 7")); UPDATE t SET id = \(make("\((n * 13) % 30000 + 1) * 7 + 3")) WHERE id = \(make("\(n + 5) * 7")); DELETE FROM t WHERE id = \(make("\(n + 9) * 7"))",
            database)
        }
      })
      try origin.take()
      _ = writer.join()
      try origin.take()
      let found = try replay(origin)
      let expected = try origin.run("SELECT 'id=' || id || ' v=' || v FROM t ORDER BY 1")
        .split(separator: "\n").map(String.init)
      #expect(Set(found.values).symmetricDifference(expected).prefix(5).sorted() == [])
      #expect(found.count == expected.count)
    }

    @Test func `a change that a chunk shows does not come again after it, whatever happens later`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      var inserted = LSN(0)
      try origin.with { capture in
        // In the stream, and left out of the trail: the copy is still to come.
        inserted = try #require(LSN(origin.run("INSERT INTO t VALUES (1); SELECT pg_current_wal_insert_lsn()")))
        try capture.run(stop: StopSignal(), untilCaughtUp: true)
      }
      let reader = try TrailReader.open(folder: origin.trailFolder, at: nil)
      var (hasChunk, chunks) = (false, 0)
      while let record = try reader.next() {
        if case .refresh(let refresh) = record, case .chunk = refresh.event { hasChunk = true }
        guard case .progress(let bytes, _) = record, hasChunk else { continue }
        #expect(try PostgresPosition(decoding: bytes).reached >= inserted)
        chunks += 1
      }
      #expect(chunks > 0)
    }

    @Test func `a copy that is cut goes on by its cursor`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 60000) AS i"
      )
      let stop = StopSignal()
      try origin.with { capture in
        let progress = capture.session.progress
        let worker = try WorkerThread<Void>({
          while progress.snapshot.rowsCopied == 0 { Clock.sleep(milliseconds: 1) }
          stop.set()
        })
        try capture.run(stop: stop, untilCaughtUp: true)
        _ = worker.join()
      }
      #expect(try !origin.lines().contains("end t"))
      try origin.take()
      let lines = try origin.lines()
      #expect(lines.filter { $0.hasPrefix("start") }.count == 1)
      #expect(lines.filter { $0 == "end t" }.count == 1)
      #expect(try replay(origin).count == 60000)
    }
  }
}
