import Changes
import PostgresKit
import TestServers
import Testing

@testable import Capturing

extension PostgresCapturing {
  /// Tables and sequences whose names no target takes: any role that may create them could otherwise stop the trail.
  @Suite struct ReservedNameTests {
    private static let reserved = ["sqlite_y", "cairn_y", #""CAIRN_z""#, "cairn_x.y", "cairn_x.item"]

    private func isFreeOfReserved(_ lines: [String]) -> Bool {
      !lines.contains { $0.contains("cairn_") || $0.contains("sqlite_") || $0.contains("CAIRN_") || $0.hasSuffix(" y") }
    }

    @Test(arguments: [true, false])
    func `tables with reserved names are left out, at the start and later`(hasTriggers: Bool) throws {
      let origin = try PostgresOrigin(
        """
        CREATE SCHEMA cairn_x; CREATE TABLE item(id int PRIMARY KEY); INSERT INTO item VALUES (1);
        CREATE TABLE sqlite_old(id int PRIMARY KEY); INSERT INTO sqlite_old VALUES (1)
        """)
      let said = Notices()
      try origin.take(said: said.add)
      if !hasTriggers { try origin.disableTriggers() }
      for name in Self.reserved {
        try origin.run("CREATE TABLE \(name)(id int PRIMARY KEY); INSERT INTO \(name) VALUES (1)")
      }
      try origin.run("INSERT INTO item VALUES (2)")
      try origin.take(said: said.add)
      for name in Self.reserved { try origin.run("UPDATE \(name) SET id = 2; ALTER TABLE \(name) ADD v text") }
      try origin.run("INSERT INTO item VALUES (3)")
      try origin.take(said: said.add)
      let lines = try origin.lines()
      #expect(isFreeOfReserved(lines), "\(lines)")
      for id in 1...3 { #expect(lines.contains { $0.hasSuffix("item id=\(id)") }, "\(lines)") }
      for name in ["sqlite_old", "sqlite_y", "cairn_y", "CAIRN_z", "cairn_x.y", "cairn_x.item"] {
        #expect(
          said.all.contains { $0.contains("table \(name) is not captured") && $0.contains("RENAME TO") },
          "\(name): \(said.all)")
      }
    }

    @Test(arguments: [true, false], ["ALTER TABLE t RENAME TO cairn_p", "ALTER TABLE t SET SCHEMA cairn_x"])
    func `a table that gets a reserved name leaves the capture, and comes back by a copy`(
      hasTriggers: Bool, change: String
    ) throws {
      let origin = try PostgresOrigin(
        "CREATE SCHEMA cairn_x; CREATE TABLE t(id int PRIMARY KEY); CREATE TABLE item(id int PRIMARY KEY); INSERT INTO t VALUES (1)"
      )
      let isMoved = change.contains("SCHEMA")
      let (name, back) =
        isMoved
        ? ("cairn_x.t", "ALTER TABLE cairn_x.t SET SCHEMA public") : ("cairn_p", "ALTER TABLE cairn_p RENAME TO t")
      try origin.take()
      if !hasTriggers { try origin.disableTriggers() }
      var known = try origin.lastNumber
      let said = Notices()
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.run(change)
      try origin.run("INSERT INTO \(name) VALUES (3); INSERT INTO item VALUES (1)")
      try origin.take(said: said.add)
      var lines = try origin.lines(from: known)
      #expect(lines.contains("drop t") && lines.contains("insert item id=1"), "\(lines)")
      #expect(isFreeOfReserved(lines) && !lines.contains { $0.contains("id=3") }, "\(lines)")
      #expect(said.all.contains { $0.contains("table \(name) is not captured") }, "\(said.all)")
      if !hasTriggers { try origin.disableTriggers() }
      known = try origin.lastNumber
      try origin.run(back)
      try origin.run("INSERT INTO t VALUES (4)")
      try origin.take()
      lines = try origin.lines(from: known)
      #expect(lines.contains("create t"), "\(lines)")
      for id in 1...4 { #expect(lines.contains { $0.hasSuffix("t id=\(id)") }, "\(id): \(lines)") }
      // There and back while capture does not run.
      if !hasTriggers { try origin.disableTriggers() }
      known = try origin.lastNumber
      try origin.run(change)
      try origin.run("INSERT INTO \(name) VALUES (5)")
      try origin.run(back)
      try origin.run("INSERT INTO t VALUES (6)")
      try origin.take()
      lines = try origin.lines(from: known)
      #expect(isFreeOfReserved(lines), "\(lines)")
      for id in 5...6 { #expect(lines.contains { $0.hasSuffix("t id=\(id)") }, "\(id): \(lines)") }
    }

    @Test func `the values of sequences with reserved names are left out`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE SCHEMA cairn_x; CREATE SEQUENCE cairn_seq; CREATE SEQUENCE cairn_x.seq; CREATE SEQUENCE good;
        CREATE TABLE t(id int PRIMARY KEY DEFAULT nextval('cairn_seq'), a int DEFAULT nextval('cairn_x.seq'),
          b int DEFAULT nextval('good')); INSERT INTO t DEFAULT VALUES
        """)
      let said = Notices()
      try origin.take(said: said.add)
      try origin.run("INSERT INTO t DEFAULT VALUES")
      try origin.take(said: said.add)
      let lines = try origin.lines().filter { $0.hasPrefix("sequence") }
      #expect(lines.last == "sequence good 2" && lines.allSatisfy { $0.hasPrefix("sequence good") }, "\(lines)")
      #expect(said.all.contains { $0.contains("sequence cairn_seq is not captured") }, "\(said.all)")
      #expect(said.all.contains { $0.contains("sequence cairn_x.seq is not captured") }, "\(said.all)")
    }
  }
}
