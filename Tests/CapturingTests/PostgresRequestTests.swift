import Applying
import Changes
import Foundation
import SQLiteKit
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Rows that are asked for by their keys.
  @Suite struct RequestTests {
    private func ask(
      _ origin: PostgresOrigin, _ table: String, _ keys: [[String]], namespace: String = "public"
    ) throws {
      try PostgresSource.ask(
        RowRequest(
          namespace: namespace, table: table, keys: keys.map { $0.map { .exact(Array($0.utf8)) } }),
        on: PostgresConnection(origin.uri), trail: try trail(of: origin))
    }

    private func trail(of origin: PostgresOrigin) throws -> TrailID {
      let writer = try TrailWriter.open(folder: origin.trailFolder, name: origin.name, now: { 0 })
      let id = writer.id
      try writer.close()
      return id
    }

    @Test func `both rows of two keys that look alike are sent`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(a text PRIMARY KEY, v int); INSERT INTO t VALUES ('caf\u{e9}', 1), ('cafe\u{301}', 2)")
      try origin.take()
      let copied = try origin.lastNumber
      try ask(origin, "t", [["caf\u{e9}"], ["cafe\u{301}"]])
      try origin.take()
      let rows = try origin.lines(from: copied).filter { $0.hasPrefix("row") }
      #expect(rows.map { $0.suffix(3) }.sorted() == ["v=1", "v=2"])
    }

    @Test func `each key is a chunk with the row as it is now, or with none`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(a int, b text, v numeric, PRIMARY KEY (b, a));
        INSERT INTO t VALUES (1, 'x', 1.10), (2, 'it''s', NULL), (3, 'z', 3)
        """)
      try origin.take()
      let copied = try origin.lastNumber
      try ask(origin, "t", [["it's", "2"], ["x", "1"], ["gone", "9"]])
      try origin.run("UPDATE t SET v = 2 WHERE a = 2")
      try origin.take()
      let lines = try origin.lines(from: copied)
      #expect(lines.prefix(2) == ["start t repair", "update t a=2 b=it's v=2"])
      #expect(lines.filter { $0 == "chunk t" }.count == 3)
      #expect(
        lines.filter { $0.hasPrefix("row") }.sorted() == ["row t a=1 b=x v=1.10", "row t a=2 b=it's v=2"])
      #expect(lines.last == "end t")
      // Done once.
      let sent = try origin.lastNumber
      try origin.take()
      #expect(try origin.lines(from: sent) == [])
    }

    @Test func `keys of every kind find their row`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN code AS varchar(5);
        CREATE TABLE t(e mood, d code, t timestamptz, n numeric(10,2), c char(4), b bytea, u uuid, r int4range, l int[], i citext,
          PRIMARY KEY (e, d, t, n, c, b, u, r, l, i));
        INSERT INTO t VALUES ('glad', 'ab', '2024-01-02 03:04:05.678901+00', 1.5, 'xy', '\\x00ff',
          '11111111-2222-3333-4444-555555555555', '[1,5)', '{1,NULL}', 'Case')
        """)
      try origin.take()
      let copied = try origin.lastNumber
      try ask(
        origin, "t",
        [
          [
            "glad", "ab", "2024-01-02 03:04:05.678901+00", "1.50", "xy  ", "\\x00ff",
            "11111111-2222-3333-4444-555555555555",
            "[1,5)", "{1,NULL}", "cASE",
          ]
        ])
      try origin.take()
      #expect(try origin.lines(from: copied).filter { $0.hasPrefix("row") }.count == 1)
    }

    /// To find its place, capture casts the key of a row to the type of the column.
    @Test(arguments: [("low.num", "i", "7"), ("low.wide", "i", "7"), ("low.num[]", "ARRAY[i]::low.num[]", "{7}")])
    func `a key of a type of another role runs none of its code`(type: String, value: String, asked: String) throws {
      let origin = try PostgresOrigin(
        """
        DO $$ BEGIN CREATE ROLE low; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
        CREATE SCHEMA low AUTHORIZATION low; SET ROLE low;
        CREATE FUNCTION low.f(v int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
          IF current_user <> 'low' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN true; END $$;
        CREATE DOMAIN low.num AS integer CHECK (low.f(VALUE)); CREATE DOMAIN low.wide AS low.num;
        CREATE TABLE low.t(id \(type) PRIMARY KEY, v text);
        INSERT INTO low.t SELECT \(value), 'x' FROM generate_series(1, 12000) AS i
        """)
      try origin.take()
      #expect(try origin.lines().filter { $0.hasPrefix("row") }.count == 12_000)
      let copied = try origin.lastNumber
      try ask(origin, "t", [[asked]], namespace: "low")
      let said = Said()
      try origin.take(said: said.add)
      let isRefused = type.hasSuffix("[]")
      #expect(try origin.lines(from: copied).filter { $0.hasPrefix("row") }.count == (isRefused ? 0 : 1))
      #expect(said.all.contains { $0.contains("type low.num is part of column id") } == isRefused, "\(said.all)")
    }

    @Test func `a request that does not fit is dropped with a word, and ends what it began`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(a int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
      try origin.take()
      let copied = try origin.lastNumber
      try ask(origin, "t", [["no number"], ["1"]])
      try ask(origin, "t", [["1", "2"]])
      try ask(origin, "nothing", [["1"]])
      var other = RequestMessage(slot: "cairn_else", namespace: "public", table: "t", isWhole: true, keys: [])
      try other.emit(try PostgresConnection(origin.uri))
      other.slot = ""
      let said = Said()
      try origin.take(said: said.add)
      #expect(said.all.count == 3, "\(said.all)")
      let lines = try origin.lines(from: copied)
      #expect(lines.filter { $0.hasPrefix("row") } == ["row t a=1 v=1"])
      #expect(lines.filter { $0.hasPrefix("start") }.count == lines.filter { $0.hasPrefix("end") }.count)
    }

    @Test func `a table without key is copied whole`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(a int); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1), (1)")
      try origin.take()
      let copied = try origin.lastNumber
      try ask(origin, "t", [["1"]])
      try origin.take()
      #expect(try origin.lines(from: copied) == ["start t asked", "chunk t", "row t a=1", "row t a=1", "end t"])
      let trail = try trail(of: origin)
      try PostgresSource.askForCopy(of: "t", namespace: "public", on: PostgresConnection(origin.uri), trail: trail)
      let again = try origin.lastNumber
      try origin.take()
      #expect(try origin.lines(from: again).count == 5)
    }

    @Test func `a role that may read the key can ask, another one gets a hint what it needs`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(a int PRIMARY KEY); INSERT INTO t VALUES (1)")
      try origin.take()
      let copied = try origin.lastNumber
      let role = "asker_\(origin.database)"
      try origin.run("CREATE ROLE \(role) LOGIN")
      defer { _ = try? origin.run("DROP ROLE \(role)") }
      let connection = try PostgresConnection(origin.uri)
      try connection.execute("SET ROLE \(role)")
      let request = RowRequest(namespace: "public", table: "t", keys: [[.exact(Array("1".utf8))]])
      let id = try trail(of: origin)
      #expect(origin.code { try PostgresSource.ask(request, on: connection, trail: id) } == .privilegeMissing)
      try origin.makeKey()
      try origin.run(MessageKey.grantText(.own, to: role))
      defer { _ = try? origin.run("DROP OWNED BY \(role)") }
      try PostgresSource.ask(request, on: connection, trail: id)
      try origin.take()
      #expect(try origin.lines(from: copied).contains("row t a=1"))
    }

    @Test func `a file of requests that were not sent is carried out by the next run`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(a int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)")
      try origin.take()
      let copied = try origin.lastNumber
      let file = RequestsFile(folder: origin.folder("state"))
      var requests = try file.load()
      requests.add(["2"], of: .init(namespace: "public", table: "t"))
      try file.save(requests)
      try origin.take()
      #expect(try origin.lines(from: copied) == ["start t repair", "chunk t", "row t a=2 v=2", "end t"])
      #expect(try file.load().isEmpty)
    }

    @Test func `rows are mended under a writer's load, whenever capture ends`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, v int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; INSERT INTO t SELECT i, i, repeat('x', 2500) FROM generate_series(1, 400) AS i"
      )
      try origin.take()
      let target = origin.folder("target.db")
      func apply() throws {
        let drain = StopSignal()
        drain.set()
        try SQLiteApply(path: target, trail: origin.trailFolder, name: origin.name, options: ApplyOptions()).run(
          stop: StopSignal(), drain: drain)
      }
      try apply()
      let isOver = StopSignal()
      // Held while rows are spoilt: a change of one that was made before it was asked for stops apply, and is to.
      let pause = NSLock()
      let (server, database) = (origin.server, origin.database)
      let writer = Thread {
        var round = 0
        while !isOver.isSet {
          round += 1
          pause.lock()
          defer { pause.unlock() }
          _ = try? server.psql(
            """
            UPDATE t SET v = v + 1 WHERE id % 13 = \(round % 13); UPDATE t SET id = id + 1000 WHERE id = \(round % 400 + 1);
            UPDATE t SET id = id - 1000 WHERE id % 7 = \(round % 7) AND id > 1000; DELETE FROM t WHERE id = \(round % 400);
            INSERT INTO t VALUES (\(round % 400), -1, repeat('y', 2500)) ON CONFLICT DO NOTHING
            """, database)
        }
      }
      pause.lock()
      writer.start()
      for round in 0..<6 {
        try Database(path: target).executeScript(
          "DELETE FROM t WHERE id % 5 = \(round % 5); UPDATE t SET v = -7 WHERE id % 5 = \((round + 1) % 5)")
        let keys = (0...1400).filter { $0 % 5 == round % 5 || $0 % 5 == (round + 1) % 5 }
        try ask(origin, "t", keys.map { [String($0)] })
        pause.unlock()
        let stop = StopSignal()
        Thread.detachNewThread {
          Clock.sleep(milliseconds: 300 + round * 150)
          stop.set()
        }
        try origin.with { try $0.run(stop: stop, untilCaughtUp: false) }
        pause.lock()
        try origin.take()
        try apply()
      }
      pause.unlock()
      isOver.set()
      while !writer.isFinished { Clock.sleep(milliseconds: 10) }
      try origin.take()
      try apply()
      let there = try origin.run("SELECT string_agg(id || ' ' || v || ' ' || length(big), ',' ORDER BY id) FROM t")
      let here = try Database(path: target).text(
        "SELECT group_concat(id || ' ' || v || ' ' || length(big), ',') FROM (SELECT * FROM t ORDER BY id)")
      #expect(here == there.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    @Test func `too many keys become a copy`() {
      var requests = PostgresRequests()
      let name = PostgresRequests.Name(namespace: "public", table: "t")
      for number in 0...PostgresRequests.keysMax { requests.add([String(number)], of: name) }
      #expect(requests.keys.isEmpty && requests.copies == [name])
      requests.add(["1"], of: name)
      #expect(requests.keys.isEmpty)
    }
  }
}

private final class Said: @unchecked Sendable {
  private let lock = NSLock()
  private var texts: [String] = []
  var all: [String] { lock.withLock { texts } }
  func add(_ text: String) { lock.withLock { texts.append(text) } }
}
