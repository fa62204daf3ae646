import Changes
import Endpoints
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// An apply's first check reads only the tables that the apply may write.
struct ExistingCheckTests {
  private func file(_ name: String, _ id: Int) throws -> String {
    let path = FileManager.default.temporaryDirectory.path + "/cairn-\(name)-\(UUID().uuidString).db"
    let database = try Database(path: path, mode: .create)
    try database.execute("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    try database.execute("CREATE TABLE secret(id INTEGER PRIMARY KEY)")
    try database.execute("INSERT INTO secret VALUES (\(id))")
    return path
  }

  private func check(_ source: String, _ target: TargetDatabase) throws {
    func run(_ tables: [String]) throws {
      try target.checkHoldsNothingElse(
        SourceDatabase(.sqlite(path: source)), TablePatterns(), .fold, within: TargetScope(tables))
    }
    #expect(throws: Never.self) { try run(["item"]) }
    #expect(throws: Never.self) { try run(["*", "!secret"]) }
    for tables in [["*"], ["secret"]] {
      let error = #expect(throws: CairnError.self) { try run(tables) }
      #expect(error?.code == .targetDiffers && error?.context["table"] == "secret")
    }
  }

  @Test func `other rows in an SQLite target count only in tables that the apply may write`() throws {
    let (source, target) = (try file("source", 1), try file("target", 2))
    defer { for path in [source, target] { try? FileManager.default.removeItem(atPath: path) } }
    try check(source, TargetDatabase(.sqlite(path: target)))
  }

  @Test(.enabled(if: PostgresServer.isAvailable))
  func `rows in a PostgreSQL target count only in tables that the apply may write`() throws {
    let source = try file("source", 1)
    defer { try? FileManager.default.removeItem(atPath: source) }
    let url = try PostgresServer.shared.createDatabase("existing_rows")
    try PostgresConnection(url).execute("CREATE TABLE public.secret(id bigint PRIMARY KEY)")
    try PostgresConnection(url).execute("INSERT INTO public.secret VALUES (2)")
    try check(source, TargetDatabase(DatabaseURL(url)))
  }
}
