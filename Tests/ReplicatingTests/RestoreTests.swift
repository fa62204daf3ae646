import Changes
import Endpoints
import Foundation
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Replicating

/// Databases as they were, from a trail alone. `CAIRN_SOAK` restores 200 moments of each history.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct RestoreTests {
  private static let schema = """
    CREATE TABLE shop(id integer PRIMARY KEY, code text UNIQUE, note text);
    CREATE TABLE item(id integer PRIMARY KEY, shop integer REFERENCES shop(id), price integer)
    """

  /// The rows of all tables of a database, by name.
  private static func rows(_ url: DatabaseURL) throws -> [String] {
    switch url {
    case .sqlite(let path):
      let database = try Database(path: path, mode: .readOnly)
      let tables = try database.query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'cairn~_%' ESCAPE '~' ORDER BY 1")
      return try tables.flatMap { table in
        try [table[0].string]
          + database.query("SELECT * FROM \(table[0].string.quotedName) ORDER BY 1").map { row in
            row.map { $0.string.isEmpty ? $0.shown : $0.string }.joined(separator: "|")
          }
      }
    case .postgres(let uri):
      let server = try PostgresConnection(uri)
      let tables = try server.query(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1")
      return try tables.flatMap { table in
        try [table[0] ?? ""]
          + server.query("SELECT * FROM public.\((table[0] ?? "").quotedName) ORDER BY 1").map { row in
            row.map { $0 ?? "NULL" }.joined(separator: "|")
          }
      }
    }
  }

  /// A step of a program, and the tables that it made so far.
  private static func step(_ random: inout Seeded, _ count: inout Int) -> String {
    let (id, other) = (random.below(12), random.below(12))
    count += 1
    switch random.below(12) {
    case 0...2: return "INSERT INTO shop(id, code, note) VALUES (\(id), 'c\(count)', 'n') ON CONFLICT DO NOTHING"
    case 3: return "UPDATE shop SET note = 'it''s \(count)' WHERE id >= \(id)"
    case 4, 5:
      return "INSERT INTO item(id, shop, price) SELECT \(count), id, \(other) FROM shop WHERE id <= \(id)"
        + " ORDER BY id LIMIT 1"
    case 6: return "UPDATE item SET price = price + 1, shop = NULL WHERE id % 3 = \(id % 3)"
    case 7: return "DELETE FROM item WHERE id % 4 = \(id % 4)"
    case 8: return "BEGIN; DELETE FROM item WHERE shop = \(id); DELETE FROM shop WHERE id = \(id); COMMIT"
    case 9: return "ALTER TABLE item ADD COLUMN c\(count) integer DEFAULT \(id)"
    case 10: return "CREATE TABLE t\(count)(id integer PRIMARY KEY, v text); INSERT INTO t\(count) VALUES (1, 'x')"
    default:
      return
        "UPDATE shop SET id = id + \(100 * count) WHERE id = \(id) AND id NOT IN (SELECT shop FROM item WHERE shop >= 0)"
    }
  }

  private static func restore(_ mesh: Mesh, before number: UInt64, into engine: Character) throws -> [String] {
    let name = "restored_\(UUID().uuidString.prefix(8).lowercased())"
    let url: DatabaseURL
    if engine == "p" {
      url = try DatabaseURL(PostgresServer.shared.createDatabase(name))
    } else {
      url = try DatabaseURL("sqlite://\(mesh.folder)/\(name).db")
    }
    defer { if engine == "p" { try? PostgresServer.shared.dropDatabase(name) } }
    try Restore(folder: mesh.nodes[0].folder, to: .before(transaction: number), into: url).run(stop: StopSignal())
    let rows = try rows(url)
    #expect(try !Detaching.run(url), "something of Cairn stayed")
    return rows
  }

  @Test(arguments: Seeds.drawn(reduced: 1), ["ss", "sp", "ps", "pp"])
  func `restored rows are those of the moment`(_ seed: UInt64, _ engines: String) throws {
    var random = Seeded(seed)
    let mesh = try Mesh(
      String(engines.prefix(1)), schema: Self.schema, rows: ["INSERT INTO shop VALUES (1, 'a', 'b')"],
      isCaptured: false)
    let node = mesh.nodes[0]
    node.goesBothWays = false
    try node.startCapture()
    var history: [(number: UInt64, rows: [String])] = []
    var count = 0
    for _ in 0..<(isSoak ? 200 : 20) {
      for _ in 0...random.below(3) { try node.execute(Self.step(&random, &count)) }
      try node.capturePending()
      history.append((try Trail.info(folder: node.folder).lastTransaction, try Self.rows(node.url)))
    }
    let engine = engines.last ?? "s"
    for (number, rows) in isSoak ? history : history.shuffled(using: &random).prefix(5) + history.suffix(1) {
      try #expect(Self.restore(mesh, before: number + 1, into: engine) == rows, "seed \(seed), after \(number)")
    }
    try mesh.close()
  }

  @Test func `a database that is not empty, a purged trail and rows of other trails are refused`() throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
    try mesh.nodes[0].execute("INSERT INTO t VALUES (1, 'a')")
    try mesh.settle()
    try mesh.nodes[1].execute("INSERT INTO t VALUES (2, 'b')")
    try mesh.settle()
    let folder = mesh.nodes[1].folder
    let place = try DatabaseURL("sqlite://\(mesh.folder)/again.db")
    let fed = #expect(throws: CairnError.self) { try Restore(folder: folder, to: .time(.max), into: place) }
    #expect(fed?.code == .unsupported)
    #expect(fed?.message.contains("n0.shop") == true)
    let full = #expect(throws: CairnError.self) {
      try Restore(folder: mesh.nodes[0].folder, to: .time(.max), into: mesh.nodes[0].url)
    }
    #expect(full?.code == .targetDiffers)
    #expect(!FileManager.default.fileExists(atPath: "\(mesh.folder)/again.db"))
    try mesh.close()
  }

  @Test func `a file that appears meanwhile is not replaced, and what an ended restore left is`() throws {
    let mesh = try Mesh("s", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
    try mesh.nodes[0].execute("INSERT INTO t VALUES (1)")
    try mesh.nodes[0].capturePending()
    let path = mesh.folder + "/new.db"
    let restore = try Restore(folder: mesh.nodes[0].folder, to: .time(.max), into: DatabaseURL("sqlite://\(path)"))
    try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
    try Data("left".utf8).write(to: URL(fileURLWithPath: path + ".cairn-restore"))
    #expect(throws: (any Error).self) { try restore.run(stop: StopSignal()) }
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("mine".utf8))
    try FileManager.default.removeItem(atPath: path)
    try restore.run(stop: StopSignal())
    try #expect(Self.rows(restore.target) == ["t", "1"])
    #expect(!FileManager.default.fileExists(atPath: path + ".cairn-restore"))
    try mesh.close()
  }

  @Test func `a restore into a file into which another one restores is refused, and leaves that one alone`() throws {
    let mesh = try Mesh("s", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
    try mesh.nodes[0].execute("INSERT INTO t VALUES (1)")
    try mesh.nodes[0].capturePending()
    let path = mesh.folder + "/new.db"
    let restore = try Restore(folder: mesh.nodes[0].folder, to: .time(.max), into: DatabaseURL("sqlite://\(path)"))
    do {
      let other = try File(path + ".cairn-restore", .create)
      try #expect(other.tryLock())
      let error = #expect(throws: CairnError.self) { try restore.run(stop: StopSignal()) }
      #expect(error?.code == .busy && error?.remedy == .retry)
      #expect(try other.isInPlace && !Folder.exists(path))
    }
    // A link may be left there, too.
    try FileManager.default.removeItem(atPath: path + ".cairn-restore")
    try Data("theirs".utf8).write(to: URL(fileURLWithPath: mesh.folder + "/theirs"))
    try FileManager.default.createSymbolicLink(atPath: path + ".cairn-restore", withDestinationPath: "theirs")
    try restore.run(stop: StopSignal())
    try #expect(Self.rows(restore.target) == ["t", "1"])
    #expect(try Data(contentsOf: URL(fileURLWithPath: mesh.folder + "/theirs")) == Data("theirs".utf8))
    try mesh.close()
  }

  @Test func `files that SQLite would recover into the restored one are refused`() throws {
    let mesh = try Mesh("s", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
    try mesh.nodes[0].execute("INSERT INTO t VALUES (1)")
    try mesh.nodes[0].capturePending()
    let path = mesh.folder + "/new.db"
    let url = try DatabaseURL("sqlite://\(path)")
    func restore() throws -> Restore { try Restore(folder: mesh.nodes[0].folder, to: .time(.max), into: url) }
    for name in ["-wal", "-journal", "-shm"].map({ path + $0 }) {
      for isLink in [false, true] {
        let early = try restore()
        if isLink {
          try FileManager.default.createSymbolicLink(atPath: name, withDestinationPath: "/nowhere/at/all")
        } else {
          try Data("left".utf8).write(to: URL(fileURLWithPath: name))
        }
        for body in [{ _ = try restore() }, { try early.run(stop: StopSignal()) }] {
          let error = #expect(throws: CairnError.self) { try body() }
          #expect(error?.code == .targetDiffers && error?.message.contains(name) == true)
        }
        #expect(!FileManager.default.fileExists(atPath: path))
        try FileManager.default.removeItem(atPath: name)
      }
    }
    try restore().run(stop: StopSignal())
    try #expect(Self.rows(url) == ["t", "1"])
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    #expect(mode == 0o600)
    try mesh.close()
  }
}
