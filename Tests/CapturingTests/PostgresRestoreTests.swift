import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// A server that was restored to an earlier moment, or whose standby was promoted.
  @Suite struct RestoreTests {
    private func captured() throws -> PostgresOrigin {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)", server: PostgresServer())
      try origin.server.createDatabase("other")
      try origin.take()
      return origin
    }

    /// Runs a program of the system; its files keep their owners.
    private func run(_ program: String, _ arguments: String...) throws {
      let process = try Process.run(URL(fileURLWithPath: program), arguments: arguments)
      process.waitUntilExit()
      #expect(process.terminationStatus == 0)
    }

    private func save(_ server: PostgresServer) throws {
      try server.stop()
      try run("/bin/cp", "-a", server.folder + "/data", server.folder + "/saved")
      try server.start()
    }

    private func restore(_ server: PostgresServer) throws {
      try server.stop(.immediate)
      try run("/bin/rm", "-rf", server.folder + "/data")
      try run("/bin/mv", server.folder + "/saved", server.folder + "/data")
    }

    /// Starts the server, which ends recovery on a timeline of its own.
    private func promote(_ server: PostgresServer) throws {
      try run("/usr/bin/touch", server.folder + "/data/recovery.signal")
      try server.start()
      for _ in 0..<500 where try server.psql("SELECT pg_is_in_recovery()", "postgres") == "t" {
        Clock.sleep(milliseconds: 20)
      }
    }

    /// Fills the log without a word for capture.
    private func makeNoise(_ origin: PostgresOrigin) throws {
      try origin.server.psql("CREATE TABLE IF NOT EXISTS noise(t text)", "other")
      try origin.server.psql("INSERT INTO noise SELECT repeat('x', 500) FROM generate_series(1, 2000)", "other")
    }

    /// Returns the fault of the server that `cairn check` reports.
    private func fault(_ origin: PostgresOrigin) throws -> String? {
      try PostgresCapture.fault(of: origin.uri, folder: origin.trailFolder)
    }

    @Test func `a server restored to an earlier moment is noticed, though the slot had passed the last row`() throws {
      let origin = try captured()
      try save(origin.server)
      try makeNoise(origin)
      try origin.take()
      #expect(try fault(origin) == nil)
      try restore(origin.server)
      try origin.server.start()
      #expect(try fault(origin)?.contains("its WAL ends at") == true)
      try origin.run("INSERT INTO t VALUES (3)")
      for _ in 0..<3 { try makeNoise(origin) }
      #expect(try fault(origin)?.contains("is not the one that the trail has") == true)
      var refusal: CairnError?
      do { try origin.take() } catch let error as CairnError { refusal = error }
      #expect(refusal?.code == .sourceWentBack)
      #expect(refusal?.hint.contains("the end whose rows to keep") == true)
    }

    @Test func `a commit after the moment to which a server was restored is captured`() throws {
      let origin = try captured()
      try origin.server.restart(.immediate)
      try origin.run("INSERT INTO t VALUES (3)")
      #expect(try fault(origin) == nil)
      try origin.take()
      #expect(try origin.lines().last == "insert t id=3")
      let position = try position(origin)
      #expect(position.witness != nil && position.reached <= position.quiet)
    }

    @Test func `a promoted server goes on if it has all that the trail has, and only then`() throws {
      let origin = try captured()
      try origin.run("ALTER SYSTEM SET restore_command = '/bin/false'")
      try save(origin.server)
      try origin.run("INSERT INTO t VALUES (2)")
      try origin.take()
      // The server itself, promoted at the end of its log.
      try origin.server.stop()
      try promote(origin.server)
      #expect(try fault(origin) == nil)
      try origin.run("INSERT INTO t VALUES (3)")
      try origin.take()
      #expect(try origin.lines().last == "insert t id=3")
      #expect(try position(origin).timeline == 2)
      // An earlier state of it, promoted, with a longer log.
      try restore(origin.server)
      try promote(origin.server)
      try makeNoise(origin)
      try origin.run("INSERT INTO t VALUES (4)")
      #expect(origin.code { try origin.take() } == .sourceWentBack)
    }

    private func position(_ origin: PostgresOrigin) throws -> PostgresPosition {
      let reader = try TrailReader.open(folder: origin.trailFolder, at: nil)
      var last: PostgresPosition?
      while let record = try reader.next() {
        if case .progress(let bytes, _) = record { last = try PostgresPosition(decoding: bytes) }
      }
      return try #require(last)
    }
  }
}
