import Applying
import Capturing
import Changes
import Conflicts
import Endpoints
import Foundation
import Mapping
import PostgresKit
import Replicating
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// Databases that all write, each captured and each applied to by all others, in one process. Trails are read where they
/// are written; when one is applied, and where, is up to the test.
final class Mesh {
  /// One database.
  final class Node {
    let name: String
    let url: DatabaseURL
    let trail: TrailName
    let folder: String
    let link: CaptureLink
    /// Nil for SQLite.
    var watch: LocalWatch? { link.watch }
    var twoWay: TwoWay?
    /// How far the clock of its capture is ahead, s; PostgreSQL says itself when something was committed.
    var clockAhead: Int64 = 0
    /// Whether its capture copies the rows that are there already.
    var copiesRows = false
    /// Whether its capture takes what applies write.
    var relays = false
    /// Whether its capture is for replication in both directions.
    var goesBothWays = true
    let rules: TwoWay.RuleBook
    /// As ``ApplyOptions/scope`` and ``ApplyOptions/ddl`` of the applies of some trails, by the names of their nodes.
    var scopes: [String: TargetScope] = [:]
    var policies: [String: DDLPolicy] = [:]
    /// That are captured.
    let tables: TablePatterns
    private var capture: (stop: StopSignal, thread: WorkerThread<String?>, progress: CaptureProgress)?
    private let sqlite: Database?
    private let postgres: PostgresConnection?

    init(
      _ name: String, _ url: DatabaseURL, in folder: String, tables: TablePatterns = TablePatterns(),
      rules: @escaping TwoWay.RuleBook
    ) throws {
      (self.name, self.url, self.tables, self.rules) = (name, url, tables, rules)
      trail = TrailName(origin: name, name: "shop")
      self.folder = "\(folder)/\(trail)"
      link = CaptureLink(url)
      switch url {
      case .sqlite(let path):
        sqlite = try Database(path: path, mode: .create)
        postgres = nil
        try sqlite?.executeScript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
      case .postgres(let uri):
        sqlite = nil
        postgres = try PostgresConnection(uri)
        try postgres?.execute("SET search_path = public")
      }
    }

    /// A test that failed leaves no capture at work: a server has few connections for them.
    deinit { capture?.stop.set() }

    var isPostgres: Bool { postgres != nil }
    var server: PostgresConnection? { postgres }

    func execute(_ sql: String) throws {
      Mesh.trace("\(name): \(sql)")
      try sqlite?.executeScript(sql)
      try postgres?.executeScript(sql)
    }

    /// Rows as texts, columns parted by bars.
    func rows(_ sql: String) throws -> [String] {
      if let sqlite {
        return try sqlite.query(sql).map { $0.map { $0.string.isEmpty ? $0.shown : $0.string }.joined(separator: "|") }
      }
      return try postgres?.query(sql).map { $0.map { $0 ?? "NULL" }.joined(separator: "|") } ?? []
    }

    // MARK: Capture

    func startCapture() throws {
      var run = CaptureRun(url, trail: trail, folder: folder, place: folder)
      (run.copiesRows, run.tables) = (copiesRows, tables)
      run.link = link
      run.relays = relays
      run.goesBothWays = goesBothWays
      run.clock = Clock { [ahead = clockAhead * 1_000_000] in Clock.system.microseconds() + ahead }
      let (stop, ready, progress) = (StopSignal(), StopSignal(), CaptureProgress())
      let thread = try WorkerThread<String?> { [run] in
        defer { ready.set() }
        do {
          try run.run(stop: stop, untilCaughtUp: false, progress: progress) { ready.set() }
          return nil
        } catch { return "\(error)" }
      }
      while !ready.isSet { _ = ready.wait(milliseconds: 1000) }
      capture = (stop, thread, progress)
      if thread.outcome != nil { try stopCapture() }
    }

    func stopCapture() throws {
      guard let capture else { return }
      capture.stop.set()
      self.capture = nil
      if let problem = capture.thread.join() ?? nil { throw TestFailure("capture of \(name): \(problem)") }
    }

    /// Waits until everything that was committed before is in the trail.
    func capturePending() throws {
      let limit = Clock.monotonicMilliseconds + 30_000
      while try !isCaptured() {
        if capture?.thread.outcome != nil { try stopCapture() }
        guard Clock.monotonicMilliseconds < limit else { throw TestFailure("capture of \(name) does not come on") }
        Clock.sleep(milliseconds: 2)
      }
    }

    /// Has its capture copy all its rows again.
    func askForCopies() throws {
      Mesh.trace("\(name): copies")
      _ = try SourceDatabase(url).askForCopies(of: tables, trail: Trail.info(folder: folder).id)
    }

    /// Waits until its capture knows that so many tables are to be copied.
    func waitForRequests(_ count: Int) throws {
      let limit = Clock.monotonicMilliseconds + 30_000
      while capture?.progress.snapshot.tablesToCopy ?? 0 < count {
        guard Clock.monotonicMilliseconds < limit else { throw TestFailure("\(name) was not asked for copies") }
        Clock.sleep(milliseconds: 2)
      }
    }

    private func isCaptured() throws -> Bool {
      if let sqlite {
        let isCopied =
          try sqlite.integer("SELECT 1 FROM cairn_layout WHERE refresh IS NOT NULL AND ended IS NULL") == nil
        // A change of the schema is no row of the journal.
        let version = try sqlite.integer("PRAGMA schema_version")
        guard isCopied, try sqlite.integer("SELECT schema_version FROM cairn_control WHERE id = 0") == version else {
          return false
        }
        let last = try sqlite.integer("SELECT max(seq) FROM cairn_journal") ?? 0
        // A capture that has just started reports only what it takes itself.
        let marked = try sqlite.integer("SELECT taken FROM cairn_control WHERE id = 0") ?? 0
        return max(marked, capture?.progress.snapshot.taken ?? 0) >= last
      }
      if let watch, try watch.catchUp(StopSignal()) == nil { return false }
      return capture?.progress.snapshot.tablesToCopy ?? 0 == 0
    }
  }

  /// With CAIRN_TRACE set, each step is printed: to be seen beside the seed that fails.
  private static let isTraced = ProcessInfo.processInfo.environment["CAIRN_TRACE"] != nil
  static func trace(_ step: @autoclosure () throws -> String) rethrows { if isTraced { try print(step()) } }

  let folder: String
  var quarantines = false
  /// As ``ApplyOptions/existing``.
  var existing = ExistingRows.overwrite
  /// As ``ApplyOptions/ddl``.
  var ddl: DDLPolicy?
  /// As ``ApplyOptions/askedBehind``, by the trail.
  var askedBehind: [TrailName: UInt64] = [:]
  /// Each apply is one-way, and what it writes may go on.
  var isOneWay = false
  /// As ``ApplyOptions/localWrites``.
  var localWrites = LocalWritesPlan()
  /// The notices of applies.
  private(set) var notices: [String] = []
  private(set) var nodes: [Node] = []
  /// As ``TwoWay/Limits/waitingBytesMax``, from the next ``renew(_:after:)`` on.
  var waitingBytesMax: Int64 = 64 << 20
  /// As ``TwoWay/Limits/locksFirst``, from the next ``renew(_:after:)`` on.
  var locksFirst = false
  /// As ``ApplyOptions/commitRows``: 1, and each transaction is a group.
  var commitRows: Int?
  private var databases: [String] = []
  private let schema: String
  private let user: String?
  private let rules: TwoWay.RuleBook
  private var renewals = 0
  private let hasSmallLimits: Bool

  /// A letter for each node: `s` for SQLite, `p` for PostgreSQL. `schema` makes the tables of each.
  /// `tables`: those of each that are captured. `rows`: SQL of each, before it is captured; what is there is copied.
  /// `isCaptured`: from the beginning. `hasSmallLimits`: some nodes settle as if every transaction were a large one.
  /// `user`: the role that owns the databases of PostgreSQL, and as which Cairn works there; nil: a superuser.
  init(
    _ engines: String, schema: String, tables: [TablePatterns]? = nil, rows: [String]? = nil, isCaptured: Bool = true,
    hasSmallLimits: Bool = true, user: String? = nil, rules: @escaping TwoWay.RuleBook = { _, _, _ in ConflictRules() }
  ) throws {
    (self.schema, self.rules, self.user) = (schema, rules, user)
    self.hasSmallLimits = hasSmallLimits
    folder = NSTemporaryDirectory() + "cairn-mesh-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    for (index, engine) in engines.enumerated() {
      try make(engine, tables: tables?[index] ?? TablePatterns(), rows: rows?[index])
    }
    for node in nodes {
      if isCaptured { try node.startCapture() }
      renew(node)
    }
  }

  @discardableResult
  private func make(_ engine: Character, tables: TablePatterns = TablePatterns(), rows: String?) throws -> Node {
    let name = "n\(nodes.count)"
    let url: DatabaseURL
    if engine == "p" {
      let database = "mesh_\(UUID().uuidString.prefix(8).lowercased())"
      databases.append(database)
      var uri = try PostgresServer.shared.createDatabase(database)
      if let user {
        try PostgresServer.shared.psql(
          "ALTER DATABASE \(database) OWNER TO \(user); ALTER SCHEMA public OWNER TO \(user)", database)
        uri = try PostgresServer.shared.url(database, user: user)
      }
      url = try DatabaseURL(uri)
    } else {
      url = try DatabaseURL("sqlite://\(folder)/\(name).db")
    }
    let node = try Node(name, url, in: folder, tables: tables, rules: rules)
    try node.execute(schema)
    if let rows {
      try node.execute(rows)
      node.copiesRows = true
    }
    nodes.append(node)
    return node
  }

  /// A node that comes later: all others begin to apply its trail, and it theirs. `rows`: as in the initializer.
  /// `prepare`: before it is captured.
  @discardableResult
  func add(_ engine: Character, rows: String? = nil, prepare: (Node) throws -> Void = { _ in }) throws -> Node {
    let node = try make(engine, rows: rows)
    try prepare(node)
    try node.startCapture()
    for node in nodes { renew(node) }
    return node
  }

  /// Begins the trail of a node again under its name, as after the loss of its state. The other nodes forget their
  /// places in the old trail, as `cairn copy` has them do. `isKnown`: their applies are started again with all that
  /// they share.
  func beginAgain(_ node: Node, isKnown: Bool = true) throws {
    Mesh.trace("\(node.name): trail begun again")
    try node.stopCapture()
    try FileManager.default.removeItem(atPath: node.folder)
    try node.startCapture()
    for other in nodes where other !== node {
      try TargetDatabase(other.url).forgetCheckpoint(of: node.trail)
    }
    if isKnown { for node in nodes { renew(node) } }
  }

  /// As after a start of all workers of a node.
  func restart(_ node: Node, clockAhead: Int64 = 0) throws {
    try node.stopCapture()
    node.clockAhead = clockAhead
    try node.startCapture()
    renew(node)
  }

  /// As after the change of a conf that makes a node's capture one-way or two-way.
  func restart(_ node: Node, goesBothWays: Bool) throws {
    try node.stopCapture()
    node.goesBothWays = goesBothWays
    try node.startCapture()
    renew(node)
  }

  /// As after a start of its applies: what was known only in memory is read again.
  ///
  /// - Parameter before: what they shared until now, as after a reload of the conf.
  func renew(_ node: Node, after before: TwoWay? = nil) {
    renewals += 1
    // Every second one has all that is settled in a file.
    var limits = TwoWay.Limits()
    limits.deferredBytesMax = renewals % 2 == 0 && hasSmallLimits ? 0 : 16 << 20
    (limits.waitingBytesMax, limits.locksFirst) = (waitingBytesMax, locksFirst)
    node.twoWay = TwoWay(
      own: (node.trail, node.folder),
      applied: nodes.filter { $0 !== node }.map {
        ($0.trail, $0.folder, AdmittedTables(node.scopes[$0.name] ?? TargetScope()))
      }, captured: node.tables,
      copiesRows: node.copiesRows, link: node.link, limits: limits, after: before, rules: node.rules)
  }

  /// Applies what is in the trail of one node to another; returns the conflicts that it met.
  @discardableResult func apply(_ from: Int, to: Int) throws -> Int {
    do { return try applyOnce(from, to: to) } catch let error as CairnError
      where error.remedy == .retry && nodes[to].twoWay?.isSound == false
    {
      // As a daemon does.
      Mesh.trace("\(nodes[to].name): \(error)")
      renew(nodes[to])
      return try applyOnce(from, to: to)
    }
  }

  private func applyOnce(_ from: Int, to: Int) throws -> Int {
    var options = ApplyOptions()
    options.quarantines = quarantines
    (options.localWrites, options.existing) = (localWrites, existing)
    options.ddl = nodes[to].policies[nodes[from].name] ?? ddl
    options.scope = nodes[to].scopes[nodes[from].name] ?? TargetScope()
    options.twoWay = isOneWay ? nil : nodes[to].twoWay
    (options.relays, options.ownTrail) = (isOneWay, isOneWay ? nodes[to].trail : nil)
    options.commitRows = commitRows
    options.askedBehind = askedBehind[nodes[from].trail] ?? 0
    let drain = StopSignal()
    drain.set()
    let progress = ApplyProgress()
    try ApplyRun(nodes[to].url, trail: nodes[from].trail, folder: nodes[from].folder, options: options)
      .run(stop: StopSignal(), drain: drain, progress: progress)
    notices += progress.snapshot.notices
    let conflicts = progress.snapshot.conflicts
    let log = nodes[to].isPostgres ? "cairn.conflict" : "cairn_conflict"
    try Mesh.trace(
      "\(nodes[from].name) -> \(nodes[to].name)"
        + nodes[to].rows("SELECT * FROM \(log) ORDER BY id DESC LIMIT \(conflicts)").map { "\n  \($0)" }.joined())
    return conflicts
  }

  /// Brings everything everywhere.
  func settle() throws {
    for node in nodes { try node.capturePending() }
    for from in nodes.indices { for to in nodes.indices where to != from { try apply(from, to: to) } }
  }

  func close() throws {
    for node in nodes { try node.stopCapture() }
    nodes.removeAll()
    for database in databases { try PostgresServer.shared.dropDatabase(database) }
    if getenv("KEEP") == nil { try FileManager.default.removeItem(atPath: folder) }
  }
}
