import Applying
import Capturing
import Changes
import Conflicts
import Foundation
import Mapping
import PostgresKit
import Replicating
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// How the apply of a hostile trail is set up; drawn again for each trail.
struct HostileOptions {
  var options = ApplyOptions()

  init(_ random: inout Seeded) {
    options.scope = TargetScope(HostileTrails.allowed)
    options.existing = [.overwrite, .keep, .merge].randomElement(using: &random) ?? .overwrite
    options.ddl = [nil, nil, .follow, .stop, .ignore].randomElement(using: &random) ?? nil
    options.quarantines = Int.random(in: 0..<3, using: &random) == 0
    options.replay = [.rows, .rows, .auto, .statements].randomElement(using: &random) ?? .rows
    options.commitRows = [nil, 1].randomElement(using: &random) ?? nil
  }
}

/// Takes a segment as a peer's copy does. Returns whether there is a trail.
func take(_ segment: HostileSegment, _ bytes: [UInt8], into folder: String) throws -> Bool {
  let copy = try TrailCopy.open(folder: folder, name: segment.name)
  let place = TrailPlace(segment: segment.number, offset: 0, chain: segment.start)
  do {
    let feed = CopyFeed(trail: segment.id, at: place, from: "sender")
    try bytes.withUnsafeBytes { try feed.take($0, for: copy) }
  } catch is CairnError {}
  do { _ = try copy.sync() } catch is CairnError {}
  guard copy.hasBegun else {
    copy.discard()
    return false
  }
  do { try copy.close() } catch is CairnError {}
  return true
}

/// A new folder below the system's folder for such.
package func makeTemporaryFolder(_ name: String) throws -> String {
  let path = FileManager.default.temporaryDirectory.path + "/cairn-\(name)-" + UUID().uuidString
  try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  return path
}

/// An SQLite file before each hostile trail: tables of a program, and a table that another trail filled.
struct SQLiteVictim {
  private static let own = TrailName(origin: "hq", name: "shop")
  private let original: String
  private let canary: [String]
  /// The folder of the file's own trail, where it is captured; nil: what is applied to it comes from elsewhere only.
  private let ownTrail: String?

  /// - Parameter goesBothWays: the file is captured, and has rows in the tables that the trail may write.
  init(_ root: String, goesBothWays: Bool) throws {
    let folder = root + (goesBothWays ? "/captured" : "/original")
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    original = folder + "/target.db"
    do {
      let database = try Database(path: original, mode: .create)
      try database.executeScript(Canary.sqliteTables)
    }
    let (good, trail) = (Canary.trail("", .sqlite), folder + "/good.shop")
    guard try take(good, good.bytes, into: trail) else { throw TestFailure("the honest trail is not taken") }
    try Self.drain(
      SQLiteApply(path: original, trail: trail, name: Canary.good, options: .init(), progress: ApplyProgress()))
    ownTrail = goesBothWays ? try Self.capture(original, into: root + "/\(Self.own)") : nil
    do {
      let database = try Database(ofProgram: original)
      _ = try database.query("PRAGMA wal_checkpoint(TRUNCATE)")
    }
    try FileManager.default.removeItem(atPath: trail)
    canary = try Canary.read(sqlite: original)
    guard canary.contains(where: { $0.hasPrefix("ledger|") || $0.contains("honest") }) else {
      throw TestFailure("the honest trail was not applied: \(canary)")
    }
  }

  /// Captures the tables that the trail may write, each with a key, a unique value, and rows of a program.
  private static func capture(_ path: String, into folder: String) throws -> String {
    do {
      let database = try Database(path: path, mode: .create)
      try database.executeScript(
        """
        PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b REAL);
        CREATE TABLE u(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t(id) ON DELETE CASCADE)
        """)
    }
    var run = CaptureRun(.sqlite(path: path), trail: own, folder: folder, place: folder)
    run.tables = TablePatterns(["t", "u"])
    try run.run(stop: StopSignal(), untilCaughtUp: true, progress: CaptureProgress(), ready: {})
    do {
      let database = try Database(path: path, mode: .create)
      try database.executeScript(
        "INSERT INTO t VALUES (1, 'mine', 1.5), (2, '2', 0); INSERT INTO u VALUES (1, 1), (2, NULL)")
    }
    try run.run(stop: StopSignal(), untilCaughtUp: true, progress: CaptureProgress(), ready: {})
    return folder
  }

  private static func drain(_ apply: SQLiteApply) throws {
    let drain = StopSignal()
    drain.set()
    try apply.run(stop: StopSignal(), drain: drain)
  }

  /// Applies a trail to a copy of the file in `folder`. Returns what of the canary has changed, and apply's error.
  func attack(_ folder: String, _ trail: String, _ name: TrailName, _ options: ApplyOptions) throws
    -> (wrong: [String], error: String?)
  {
    let target = folder + "/target.db"
    try FileManager.default.copyItem(atPath: original, toPath: target)
    var problem: String?
    var options = options
    if let ownTrail {
      options.twoWay = TwoWay(
        own: (Self.own, ownTrail), applied: [(name, trail, AdmittedTables(options.scope))],
        captured: TablePatterns(["t", "u"]), copiesRows: false,
        link: CaptureLink(watch: nil)
      ) { _, _, _ in ConflictRules() }
    }
    do {
      try Self.drain(
        SQLiteApply(path: target, trail: trail, name: name, options: options, progress: ApplyProgress()))
    } catch let error as CairnError {
      problem = error.code.rawValue
    } catch let error as SQLiteError {
      problem = "SQLite \(error.code)"
      if error.code == 21 { print(error) }
    } catch is Changes.DecodingError {
      problem = "not decoded"
    }
    return (Canary.difference(canary, try Canary.read(sqlite: target)), problem)
  }
}

/// A PostgreSQL database before each hostile trail, applied to by a role that owns all of it.
final class PostgresVictim {
  private static let role = "hostile_apply"
  private let server: PostgresServer
  private let admin: PostgresConnection
  private let uri: String
  private let canary: [String]
  private let database: String

  init(_ server: PostgresServer, _ root: String) throws {
    self.server = server
    database = "hostile_" + UUID().uuidString.prefix(8).lowercased()
    if try server.psql("SELECT 1 FROM pg_roles WHERE rolname = '\(Self.role)'").isEmpty {
      try server.psql("CREATE ROLE \(Self.role) LOGIN; GRANT SET ON PARAMETER session_replication_role TO \(Self.role)")
    }
    try server.createDatabase(database)
    try server.psql("ALTER DATABASE \(database) OWNER TO \(Self.role)")
    try server.psql("ALTER SCHEMA public OWNER TO \(Self.role)", database)
    uri = server.url(database, user: Self.role)
    let owner = try PostgresConnection(uri)
    for sql in Canary.postgresTables { try owner.execute(sql) }
    let (good, trail) = (Canary.trail("public", .postgres), root + "/good-postgres.shop")
    guard try take(good, good.bytes, into: trail) else { throw TestFailure("the honest trail is not taken") }
    try Self.drain(PostgresApply(uri: uri, trail: trail, name: Canary.good, options: .init()))
    admin = try PostgresConnection(server.url(database))
    canary = try Canary.read(admin)
    guard canary.contains("ledger (1,honest)") else { throw TestFailure("the honest trail was not applied: \(canary)") }
  }

  deinit { try? server.dropDatabase(database) }

  private static func drain(_ apply: PostgresApply) throws {
    let drain = StopSignal()
    drain.set()
    try apply.run(stop: StopSignal(), drain: drain)
  }

  /// Applies a trail. Returns what of the canary has changed, and apply's error.
  func attack(_ trail: String, _ name: TrailName, _ options: ApplyOptions) throws -> (wrong: [String], error: String?) {
    var problem: String?
    do { try Self.drain(PostgresApply(uri: uri, trail: trail, name: name, options: options)) } catch let error
      as CairnError
    {
      problem = error.code.rawValue
    } catch let error as PostgresError {
      problem = "PostgreSQL \(error.sqlState)"
    } catch is Changes.DecodingError {
      problem = "not decoded"
    }
    let wrong = Canary.difference(canary, try Canary.read(admin))
    try Canary.clean(admin, of: name)
    return (wrong, problem)
  }
}
