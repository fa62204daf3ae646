import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// A daemon that attacks are meant for. `hub` captures a trail that peer `evil` may read and one that it may not. It
/// applies `evil.x` into table `t` of a database with a canary.
final class HostileNode {
  let state: String
  let port: UInt16
  let daemon: Child
  let known: HostileRequest.Known
  /// Bytes that only the secret trail has.
  let needle: [UInt8]
  private let folder: String
  /// The rows of all tables of the target that no trail may write.
  private let canary: [String]
  /// The trails that are applied, each with tables of its own choice.
  package static let applied = ["x", "y"] + (0..<20).map { "n\($0)" }
  private let secret: Data
  private var secretFile: String { state + "/hub.secret/00000001.seg" }

  init(_ folder: String, _ cairnd: String) throws {
    let (state, port) = (folder + "/state", UInt16.random(in: 12_000...29_000))
    (self.folder, self.state, self.port) = (folder, state, port)
    for name in ["open", "secret"] {
      let database = try Database(path: "\(folder)/\(name).db", mode: .create)
      try database.executeScript(
        """
        PRAGMA journal_mode = WAL; CREATE TABLE rows(id INTEGER PRIMARY KEY, v BLOB);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
          INSERT INTO rows SELECT i, randomblob(200) FROM n
        """)
    }
    try Database(path: folder + "/target.db", mode: .create).executeScript(Canary.sqliteTables)
    canary = try Self.rows(folder + "/target.db")
    let conf = """
      [node]
      name = "hub"
      state = "\(state)"
      [database.open]
      url = "sqlite://\(folder)/open.db"
      [database.secret]
      url = "sqlite://\(folder)/secret.db"
      [database.target]
      url = "sqlite://\(folder)/target.db"
      [capture.open]
      database = "open"
      [capture.secret]
      database = "secret"
      \(Self.applied.map { """
      [apply.evil-\($0)]
      trail = "evil.\($0)"
      database = "target"
      tables = ["t", "u", "new1"]
      """ }.joined(separator: "\n"))
      [limits]
      disk = "\(DaemonAttack.diskBudget >> 20) MiB"
      [receive]
      listen = "127.0.0.1:\(port)"
      insecure = true
      [peer.evil]
      may = { push = ["evil.*"], pull = ["hub.open", "evil.*"] }

      """
    try Data(conf.utf8).write(to: URL(fileURLWithPath: folder + "/cairn.toml"))
    try FileManager.default.createDirectory(atPath: folder + "/run", withIntermediateDirectories: true)
    var environment = ProcessInfo.processInfo.environment
    environment["RUNTIME_DIRECTORY"] = folder + "/run"
    daemon = try Child(
      cairnd, ["--config", folder + "/cairn.toml"], folder: folder, environment: environment,
      output: folder + "/out", errors: folder + "/err")
    let hello = Array("GET /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\n\r\n".utf8)
    var infos: [TrailInfo] = []
    for _ in 0..<300 where infos.count < 2 {
      Clock.sleep(milliseconds: 100)
      guard HostileConnection(port).ask(hello, isHead: false)?.status == 200 else { continue }
      infos = ["open", "secret"].compactMap { try? Trail.info(folder: "\(state)/hub.\($0)") }
        .filter { $0.segments.first.map { $0.bytes > 10_000 } ?? false }
    }
    guard infos.count == 2 else {
      throw TestFailure("the daemon does not begin: \(Self.text(folder + "/err").suffix(2000))")
    }
    secret = try Data(contentsOf: URL(fileURLWithPath: state + "/hub.secret/00000001.seg"))
    needle = Array(secret[5000..<5024])
    known = .init(
      ids: infos.map { "\($0.id)" }, chains: infos.map { "\($0.end.chain)" })
  }

  private static func text(_ path: String) -> String {
    String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
  }

  /// Ends the daemon, and returns what is wrong with it and with all that the peer may not touch.
  func problems() throws -> [String] {
    var wrong: [String] = []
    let hello = Array("GET /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\n\r\n".utf8)
    if HostileConnection(port).ask(hello, isHead: false)?.status != 200 { wrong.append("the daemon does not answer") }
    daemon.signal(SIGTERM)
    daemon.wait(seconds: 60)
    if daemon.terminationStatus != 0 { wrong.append("the daemon ended with \(daemon.terminationStatus)") }
    let errors = Self.text(folder + "/err")
    if let at = errors.range(of: "Sanitizer") { wrong.append(String(errors[at.lowerBound...].prefix(2000))) }
    if errors.contains("[bug]") { wrong.append("the log has a [bug]: \(errors.suffix(2000))") }
    let after = try Data(contentsOf: URL(fileURLWithPath: secretFile)).prefix(secret.count)
    if after != secret { wrong.append("the secret trail is not as it was") }
    for name in try Trail.names(state: state) where !["evil", "hub"].contains(name.origin) {
      wrong.append("there is a trail \(name)")
    }
    let database = try Database(ofProgram: folder + "/target.db")
    let tables = try database.query(
      """
      SELECT name FROM sqlite_schema
      WHERE tbl_name NOT LIKE 'cairn~_%' ESCAPE '~' AND tbl_name NOT IN ('t', 'u', 'new1') ORDER BY 1
      """
    ).map { $0[0].string }.joined(separator: " ")
    if tables != "paid salaries salaries_pay sqlite_sequence x" { wrong.append("the target has \(tables)") }
    wrong += Canary.difference(canary, try Self.rows(folder + "/target.db")).map { "the canary: \($0)" }
    return wrong
  }

  /// Returns the number of the peer's trails that the target has applied at least in part.
  func appliedCount() throws -> Int {
    let database = try Database(ofProgram: folder + "/target.db")
    return Int(try database.integer("SELECT count(*) FROM cairn_checkpoint WHERE trail LIKE 'evil.%'") ?? 0)
  }

  /// The rows of all tables that no trail may write, whatever tables there are.
  private static func rows(_ path: String) throws -> [String] {
    let database = try Database(ofProgram: path)
    let tables = try database.query(
      """
      SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('t', 'u', 'new1')
        AND name NOT LIKE 'cairn~_%' ESCAPE '~' ORDER BY 1
      """
    ).map { $0[0].string }
    // SQLite counts keys of all tables there.
    return try tables.flatMap { table in
      let mine = table == "sqlite_sequence" ? " WHERE name NOT IN ('t', 'u', 'new1')" : ""
      return try database.query("SELECT * FROM \(table.quotedName)\(mine)").map { row in
        "\(table): " + row.map { $0.shown(max: 1 << 20) }.joined(separator: "|")
      }
    }
  }
}
