import CairnCapture
import Foundation
import PostgresKit
import TestServers

/// A server's database, and a program's that synchronises with it.
final class SyncedTill {
  static let schema = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stock INTEGER NOT NULL);
    CREATE TABLE sale(id TEXT PRIMARY KEY, item INTEGER NOT NULL, pieces INTEGER NOT NULL CHECK (pieces > 0));
    """
  static let rows = "INSERT INTO item VALUES (1, 'tea', 100), (2, 'milk', 50), (3, 'bread', 20)"

  let folder: TempFolder
  let shop: CapturedDatabase
  let sync: Synchronizer
  let server: Server

  /// One that several tills may share.
  final class Server {
    let name = "till_\(UUID().uuidString.prefix(8).lowercased())"
    let url: String
    let connection: PostgresConnection

    init(_ setup: String...) throws {
      url = try PostgresServer.shared.createDatabase(name)
      connection = try PostgresConnection(url)
      try connection.execute("SET search_path = public")
      for sql in setup { try connection.executeScript(sql) }
    }

    deinit { try? PostgresServer.shared.dropDatabase(name) }

    func rows(_ sql: String) throws -> [String] {
      try connection.query(sql).map { $0.map { $0 ?? "NULL" }.joined(separator: "|") }
    }
  }

  init(
    _ node: String = "till-7", with server: Server? = nil, setup: [String] = [],
    _ choose: (inout Synchronizer.Options) -> Void = { _ in }
  ) throws {
    folder = try TempFolder()
    self.server = try server ?? Server(Self.schema, Self.rows)
    shop = try CapturedDatabase(path: folder("shop.db"), node: node)
    for sql in setup { try shop.execute(sql) }
    var options = Synchronizer.Options()
    choose(&options)
    sync = try Synchronizer(shop, with: self.server.url, options: options)
  }

  /// As after a start of the program.
  func again(_ choose: (inout Synchronizer.Options) -> Void = { _ in }) throws -> Synchronizer {
    var options = Synchronizer.Options()
    choose(&options)
    return try Synchronizer(shop, with: server.url, options: options)
  }

  func rows(_ sql: String) throws -> [String] {
    try shop.query(sql).map { $0.values.map(\.description).joined(separator: "|") }
  }

  /// The rows of both ends, which are to be equal.
  func both(_ table: String) throws -> (here: [String], there: [String]) {
    let sql = "SELECT * FROM \(table) ORDER BY id"
    return (try rows(sql), try server.rows(sql))
  }
}
