@testable import Endpoints
import Applying
import Changes
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// The constant of a table that several trails share is bound, whatever it holds.
struct SharedRowsTests {
  private static let hostile = ["it's", "'\u{301} OR true; --", #"\' OR true; --"#, #"E'\047 OR 1"#, "$1", "?1", ""]

  private func expect(_ target: TargetDatabase) throws {
    var source = TableSchema(
      epoch: 1, engine: .sqlite, name: "item",
      columns: [
        .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
        .init(name: "shop", declaredType: "TEXT"), .init(name: "number", declaredType: "INTEGER"),
      ])
    let mapped = try TableMapping(source, to: target.url.engine).target
    func holds(_ text: String, _ number: Int64) throws -> Bool {
      source.treatment = TableTreatment()
      source.treatment?.shares = [
        .init(column: "shop", value: .text(Array(text.utf8))), .init(column: "number", value: .integer(number)),
      ]
      return try target.holdsRows(mapped, sharedBy: source)
    }
    for text in Self.hostile {
      #expect(try holds(text, 7), "\(text)")
      #expect(try !holds(text, 8), "\(text)")
      #expect(try !holds(text + "'", 7), "\(text)")
    }
  }

  @Test func `in SQLite`() throws {
    let path = FileManager.default.temporaryDirectory.path + "/cairn-shared-\(UUID().uuidString).db"
    defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
    let database = try Database(path: path, mode: .create)
    try database.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, shop TEXT, number INTEGER)")
    for text in Self.hostile { try database.run("INSERT INTO item(shop, number) VALUES (?, 7)", [.text(text)]) }
    try expect(TargetDatabase(.sqlite(path: path)))
  }

  @Test(.enabled(if: PostgresServer.isAvailable)) func `in PostgreSQL`() throws {
    let url = try PostgresServer.shared.createDatabase("shared_rows")
    let connection = try PostgresConnection(url)
    try connection.execute("CREATE TABLE public.item(id bigserial PRIMARY KEY, shop text, number bigint)")
    for text in Self.hostile { try connection.run("INSERT INTO public.item(shop, number) VALUES ($1, 7)", [text]) }
    try expect(TargetDatabase(DatabaseURL(url)))
  }
}
