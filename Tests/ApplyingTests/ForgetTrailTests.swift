import Changes
import PostgresKit
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// A target forgets one trail, and knows of the others what it knew.
@Suite struct ForgetTrailTests {
  private static let other = TrailName(origin: "near", name: "shop")

  @Test func `an SQLite target forgets one trail, and goes on with the other`() throws {
    let folder = try TempFolder()
    let made = try Handmade(folder)
    let other = try Handmade(folder, trail: "other", name: Self.other)
    try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY)", "item", [[1]])
    try other.begin("CREATE TABLE sale(id INTEGER PRIMARY KEY)", "sale", [[1]])
    let state = SQLiteApplyState(try Database(path: made.target), of: Handmade.name)
    #expect(try state.forgetTrail())
    #expect(try state.checkpoints.checkpoint(of: Handmade.name) == nil && !state.knowsTables())
    #expect(try state.feeders(of: "item").isEmpty && state.feeders(of: "sale").map(\.trail) == ["near.shop"])
    #expect(try !state.forgetTrail())
    #expect(try made.rows("SELECT id FROM item") == [[1]])
    try other.transaction { try other.insert("sale", [2]) }
    try other.replay()
    #expect(try made.rows("SELECT count(*) FROM sale") == [[2]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a PostgreSQL target forgets one trail that no apply reads, and goes on with the other`() throws {
    let target = try PostgresTarget()
    let other = try Handmade(TempFolder(), name: Self.other)
    try target.begin("CREATE TABLE item(id INTEGER PRIMARY KEY)", "item", [[1]])
    try other.shape("CREATE TABLE sale(id INTEGER PRIMARY KEY)")
    try other.transaction {
      try other.create("sale")
      try other.copy("sale", [[1]])
    }
    try target.replay(other, target.options)
    let state = PostgresApplyState(try PostgresConnection(target.url), of: Handmade.name)
    do {
      let apply = try target.open()
      #expect(throws: CairnError.self) { try state.forgetTrail(patienceMilliseconds: 0) }
      withExtendedLifetime(apply) {}
    }
    #expect(try PostgresOrigins.has(Handmade.name, state.connection))
    #expect(try state.forgetTrail())
    #expect(try state.checkpoints.checkpoint(of: Handmade.name) == nil && !state.knowsTables())
    #expect(try !PostgresOrigins.has(Handmade.name, state.connection))
    // As many more find no room.
    let error = #expect(throws: CairnError.self) { try PostgresOrigins.check(state.connection, new: 100_000) }
    #expect(error?.code == .serverSetting && error?.message.contains("100000 applies need one each") == true)
    let origins = "SELECT count(*) FROM pg_replication_origin WHERE starts_with(roname, 'cairn_' || "
    let own = "(SELECT oid FROM pg_database WHERE datname = current_database()) || '_')"
    #expect(try target.psql(origins + own) == "1")
    #expect(try !state.forgetTrail())
    try other.transaction { try other.insert("sale", [2]) }
    try target.replay(other, target.options)
    #expect(try target.psql("SELECT (SELECT count(*) FROM sale), (SELECT count(*) FROM item)") == "2|1")
  }
}
