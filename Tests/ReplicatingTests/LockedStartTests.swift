import Changes
import Endpoints
import Foundation
import Mapping
import PostgresKit
import TestServers
import Testing

/// Tables that their owner keeps locked while a start looks at both databases.
@Suite(.enabled(if: PostgresServer.problem == nil)) struct LockedStartTests {
  private let server: PostgresServer
  private let name = "locked_" + UUID().uuidString.prefix(8).lowercased()

  init() throws { server = try PostgresServer.shared }

  private func busy(_ body: () throws -> Void) -> String? {
    do { try body() } catch let error as CairnError where error.code == .databaseBusy {
      return "\(error.message); \(error.hint)"
    } catch {
      return "\(error)"
    }
    return nil
  }

  @Test func `the session that keeps a table locked is named, and is not waited for without end`() throws {
    try server.createDatabase(name)
    defer { try? server.dropDatabase(name) }
    try server.psql("CREATE TABLE k(id integer PRIMARY KEY); CREATE TABLE item(id integer PRIMARY KEY)", name)
    let keeper = try PostgresConnection(server.url(name), application: "shop")
    try keeper.executeScript("BEGIN; LOCK TABLE public.k")
    let holder = "process \(keeper.backendPID) of postgres (shop) keeps it locked"
    let url = try DatabaseURL(server.url(name))
    let source = try SourceDatabase(url)
    #expect(try source.tables(TablePatterns(["item"])).map(\.name) == ["item"])
    let whole = busy { _ = try source.tables(TablePatterns()) }
    #expect(whole?.contains("table k cannot be read: \(holder)") == true, "\(whole ?? "")")
    #expect(whole?.contains("pg_terminate_backend(\(keeper.backendPID))") == true)
    let passed = try source.tables(TablePatterns(), passesLocked: true)
    #expect(passed.map(\.name) == ["item", "k"])
    #expect(passed.map(\.isLocked) == [false, true])
    #expect(passed.last?.refusal?.contains(holder) == true)
    let target = try TargetDatabase(url)
    var table = TableSchema(epoch: 0, engine: .postgres, namespace: "public", name: "k", columns: [])
    table.columns = [.init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1)]
    let mapped = busy { _ = try target.mapping(of: table, .fold) }
    #expect(mapped?.contains(holder) == true, "\(mapped ?? "")")
    try server.psql("CREATE TABLE other(id integer PRIMARY KEY)", name)
    try keeper.execute("COMMIT")
    #expect(try source.tables(TablePatterns()).map(\.isLocked) == [false, false, false])
  }
}
