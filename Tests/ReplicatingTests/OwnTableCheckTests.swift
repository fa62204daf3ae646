@testable import Endpoints
import Changes
import Foundation
import SQLiteKit
import Testing

/// Commands that open an SQLite file in which a program has written to the tables of Cairn.
@Suite struct OwnTableCheckTests {
  private func file(_ sql: [String]) throws -> String {
    let path = FileManager.default.temporaryDirectory.path + "/cairn-own-\(UUID().uuidString).db"
    let database = try Database(path: path, mode: .create)
    for statement in sql { try database.execute(statement) }
    return path
  }

  private func open(_ path: String) -> [ErrorCode?] {
    let url = DatabaseURL.sqlite(path: path)
    let commands: [() throws -> Void] = [
      { _ = try QuarantineLogs.open(url) }, { _ = try Detaching.waitingRows(at: url) },
      { _ = try SourceDatabase(url) }, { _ = try TargetDatabase(url) },
      { _ = try Ends.open(path, mode: .readOnly) },
    ]
    return commands.map { command in
      do { try command() } catch let error as CairnError { return error.code } catch { return .bug }
      return nil
    }
  }

  @Test(arguments: ["cairn_table", "cairn_layout", "cairn_unhooked"])
  func `a table of Cairn with more rows than Cairn writes is refused, and cairn detach removes it`(
    table: String
  ) throws {
    let path = try file([
      "CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY) WITHOUT ROWID",
      "CREATE TABLE cairn_table(trail TEXT, name TEXT, PRIMARY KEY (name, trail)) WITHOUT ROWID",
      "CREATE TABLE cairn_layout(id INTEGER PRIMARY KEY, previous, since, ended, action, refresh, schema)",
      "CREATE TABLE cairn_unhooked(name TEXT PRIMARY KEY COLLATE NOCASE) WITHOUT ROWID",
    ])
    defer { try? FileManager.default.removeItem(atPath: path) }
    #expect(open(path) == [nil, nil, nil, nil, nil])
    let program = try Database(path: path)
    let column = table == "cairn_layout" ? "id" : "name"
    let more = table == "cairn_table" ? "trail, " : ""
    try program.execute(
      """
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100001)
      INSERT INTO \(table)(\(more)\(column)) SELECT \(more.isEmpty ? "" : "'a.b', ")i FROM n
      """)
    #expect(open(path).allSatisfy { $0 == .databaseUnsafe })
    #expect(try Detaching.run(.sqlite(path: path)))
    #expect(open(path) == [nil, nil, nil, nil, nil])
  }

  @Test func `code of an application in a table of Cairn is refused`() throws {
    let path = try file([
      "CREATE TABLE cairn_quarantine(id INTEGER PRIMARY KEY, wanted TEXT CHECK (length(hex(zeroblob(9))) > 1))"
    ])
    defer { try? FileManager.default.removeItem(atPath: path) }
    #expect(open(path).allSatisfy { $0 == .databaseUnsafe })
  }
}
