import Foundation
import PostgresKit
import TestServers
import Testing

extension Scenarios {
  /// The owner of a table keeps it locked before the first start.
  @Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server")) struct LockedStartTests {
    @Test func `a start that a lock holds up says so, and ends at a signal`() throws {
      let (server, bench) = (try PostgresServer.shared, try Bench())
      let name = "held_" + UUID().uuidString.prefix(8).lowercased()
      try server.createDatabase(name)
      defer { try? server.dropDatabase(name) }
      try server.psql("CREATE TABLE k(id integer PRIMARY KEY)", name)
      let keeper = try PostgresConnection(server.url(name), application: "shop")
      try keeper.executeScript("BEGIN; LOCK TABLE public.k")
      let arguments = ["replicate", "--from", server.url(name), "--to", "sqlite:target.db", "--once"]
      let first = try bench.run(Bench.cairn, arguments, seconds: 60)
      #expect(first.status == 75, "\(first.errors)")
      #expect(first.errors.contains("process \(keeper.backendPID) of postgres (shop) keeps it locked"))
      let waiting = try bench.start("held", Bench.cairn, arguments)
      usleep(1_500_000)
      let begun = Date()
      #expect(bench.stop(waiting, SIGTERM) == 0, "\(bench.text("held.err"))")
      #expect(Date().timeIntervalSince(begun) < 6)
      for _ in 0..<50 where try server.psql(Self.waits, name) != "0" { usleep(100_000) }
      #expect(try server.psql(Self.waits, name) == "0")
      try keeper.execute("COMMIT")
      #expect(try bench.run(Bench.cairn, arguments).status == 0)
    }

    private static let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'k'::regclass"
  }
}
