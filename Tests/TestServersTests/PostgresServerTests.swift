import Foundation
import TestServers
import Testing

@Suite(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
struct PostgresServerTests {
  @Test func `the shared server has a database for each test`() throws {
    let server = try PostgresServer.shared
    try server.createDatabase("servers_one")
    try server.psql("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)", "servers_one")
    #expect(try server.psql("SELECT id FROM t ORDER BY id", "servers_one") == "1\n2")
    #expect(try server.psql("SHOW wal_level") == "logical")
    #expect(try server.schema("servers_one").contains("CREATE TABLE public.t"))
    try server.psql("SELECT pg_create_logical_replication_slot('servers_slot', 'pgoutput')", "servers_one")
    try server.createDatabase("servers_one")
    #expect(try server.psql("SELECT count(*) FROM pg_tables WHERE tablename = 't'", "servers_one") == "0")
    try server.dropDatabase("servers_one")
    #expect(throws: TestFailure.self) { try server.psql("SELECT 1/0") }
  }

  @Test func `a server of one's own is stopped, crashed and started, and takes passwords over TCP`() throws {
    var settings = PostgresServer.Settings()
    settings.listens = true
    settings.more["max_replication_slots"] = "3"
    let server = try PostgresServer(settings)
    try server.psql("CREATE ROLE guest LOGIN PASSWORD 'secret'; CREATE TABLE t(id int); INSERT INTO t VALUES (7)")
    try server.restart(.immediate)
    #expect(try server.psql("SELECT id FROM t") == "7")
    try server.restart()
    #expect(try server.psql("SHOW max_replication_slots") == "3")
    #expect(
      try server.run("psql", ["-XAt", "-d", server.url(user: "guest", password: "secret"), "-c", "SELECT 1"]) == "1")
    #expect(throws: TestFailure.self) {
      try server.run("psql", ["-XAt", "-d", server.url(user: "guest", password: "wrong"), "-c", "SELECT 1"])
    }
    #expect(try server.terminateConnections(like: "nobody%") == 0)
  }

  @Test func `a server that is let go leaves neither a process nor a folder`() throws {
    var server: PostgresServer? = try PostgresServer()
    let folder = try #require(server?.folder)
    #expect(FileManager.default.fileExists(atPath: folder + "/data/postmaster.pid"))
    server = nil
    #expect(!FileManager.default.fileExists(atPath: folder))
  }
}
