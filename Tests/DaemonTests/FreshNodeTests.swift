import Configuring
import Foundation
import TestServers
import Testing

@testable import Daemon

/// A database that joins others with nothing in it.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct FreshNodeTests {
  /// All write, and each is applied to by all others; only the rows of the first one are copied.
  private static func mesh(_ folder: String, _ databases: [Configuration.Database]) -> Configuration {
    var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
    conf.databases = databases
    for index in databases.indices {
      conf.databases[index].sharesKeys = true
      conf.captures.append(.init(name: databases[index].name, database: databases[index].name))
      conf.captures[index].copiesRows = index == 0
      conf.applies += databases.filter { $0.name != databases[index].name }.map {
        .init(name: "\($0.name)-to-\(databases[index].name)", trail: "hq.\($0.name)", database: databases[index].name)
      }
    }
    return conf
  }

  @Test func `a role without a superuser's rights, on an empty server, sends no copy of what apply brought`() throws {
    let server = try PostgresServer.shared
    let id = UUID().uuidString.prefix(8).lowercased()
    let (role, names) = ("low_\(id)", ["erp_\(id)", "depot_\(id)"])
    try server.psql(
      "CREATE ROLE \(role) LOGIN REPLICATION; GRANT SET ON PARAMETER session_replication_role TO \(role)")
    for name in names {
      try server.createDatabase(name)
      try server.psql("ALTER DATABASE \(name) OWNER TO \(role); GRANT ALL ON SCHEMA public TO \(role)", name)
    }
    defer {
      for name in names { try? server.dropDatabase(name) }
      _ = try? server.psql("DROP OWNED BY \(role); DROP ROLE \(role)")
    }
    try server.psql(
      "SET ROLE \(role); CREATE TABLE item(id int PRIMARY KEY, name text); INSERT INTO item VALUES (1, 'tea')", names[0]
    )
    func query(_ sql: String) throws -> [String] { try names.map { try server.psql(sql, $0) } }

    let there = { (folder: String) -> [Configuration.Database] in
      [
        .init(name: "erp", url: server.url(names[0], user: role)),
        .init(name: "shop", url: "sqlite://\(folder)/shop.db"),
      ]
    }
    let node = try TestNode { Self.mesh($0, there($0)) }
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("shop.db", "SELECT count(*) FROM item") == 1 }, "\(node.supervisor.workers())")
    let conf = Self.mesh(
      node.folder, there(node.folder) + [.init(name: "depot", url: server.url(names[1], user: role))])
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
    #expect(
      node.wait { (try? server.psql("SELECT name FROM item", names[1])) == "tea" }, "\(node.supervisor.workers())")
    #expect(try query("SELECT count(*) FROM pg_event_trigger WHERE evtname LIKE 'cairn%'") == ["0", "0"])
    try server.psql("INSERT INTO item VALUES (2, 'milk')", names[1])
    #expect(node.wait { node.count("shop.db", "SELECT count(*) FROM item") == 2 }, "\(node.supervisor.workers())")
    #expect(node.wait { (try? query("SELECT count(*) FROM item")) == ["2", "2"] }, "\(node.supervisor.workers())")
    #expect(
      node.wait { conf.applies.allSatisfy { node.worker("apply.\($0.name)")?.isCaughtUp == true } },
      "\(node.supervisor.workers())")
    // The row that was written there is all that its capture took.
    #expect(node.worker("capture.depot")?.rows == 1)
    let workers = node.supervisor.workers()
    #expect(workers.allSatisfy { $0.problem == nil && $0.restarts == 0 }, "\(workers)")
  }
}
