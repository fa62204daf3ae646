import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Pumping
import ServiceKit
import Synchronization
import Trails
import Versions

/// The state that all workers of a daemon share, such as the conf, the state folder and the log.
package final class ServiceContext: Sendable {
  package let node: String
  package let statePath: String
  package let log: ServiceLog
  package let peers: PeerRegistry
  /// The requests for refreshes of tables, from applies of this node and from peers.
  package let requests: RefreshRequests
  /// The open questions about rows of sources at other nodes.
  package let questions = OpenQuestions()
  let answers = SourceAnswers()
  /// The copies of other nodes' trails at this node.
  let copies: TrailCopies
  private let conf: Mutex<Configuration>
  private let granted: Mutex<Grants>
  // By name, as the purge worker of the trail last read them.
  private let trails = Mutex<[String: TrailInfo]>([:])
  // By name. More recent than what the purge worker has read.
  private let ends = Mutex<[String: (position: Position, tablesToCopy: Int)]>([:])
  private let openTrails = Mutex<Set<TrailName>>([])
  // By capture, as the heartbeat worker last read it.
  private let sources = Mutex<[String: NodeStatus.Source]>([:])

  // A pump skips a trail that the receiving node writes itself.
  private let ownElsewhere = Mutex<Set<PeerRegistry.Key>>([])
  // The position up to which every apply of this node has applied the trail, by trail.
  private let appliedEnds = Mutex<[String: Position]>([:])
  /// Decides whether there is disk space for the bytes that peers send.
  let intake = IntakeGate()
  /// The state that the applies of each two-way database share.
  let twoWays = TwoWayRegistry()
  // Whether the trails are over their disk limit.
  private let full = Atomic<Bool>(false)

  private let works = Mutex<[DatabaseWork: WorkerName]>([:])

  private let restarting = Mutex<@Sendable (WorkerName) -> Void>({ _ in })

  package init(_ configuration: Configuration, log: ServiceLog) {
    (node, statePath, self.log) = (configuration.node.name, configuration.node.state, log)
    conf = Mutex(configuration)
    granted = Mutex(Self.grants(configuration))
    copies = TrailCopies(state: configuration.node.state)
    peers = PeerRegistry(state: configuration.node.state)
    requests = RefreshRequests(state: configuration.node.state)
    Self.limit(configuration)
  }

  private static func limit(_ configuration: Configuration) {
    let limits = configuration.limits
    BlockMemory.shared.limit = Int(clamping: limits.memoryBytes)
    BlockMemory.shared.shares = configuration.shares.count
    TemporarySpace.shared.limit(limits.diskBytes.map { $0 / 4 })
    BlockMemory.shared.blockBytesMax = Int(clamping: min(limits.blockBytes, 1 << 30))
  }

  package var configuration: Configuration {
    get { conf.withLock { $0 } }
    set {
      conf.withLock { $0 = newValue }
      granted.withLock { $0 = Self.grants(newValue) }
      Self.limit(newValue)
    }
  }

  /// The trails that each peer may push or pull.
  var grants: Grants { granted.withLock { $0 } }

  private static func grants(_ configuration: Configuration) -> Grants {
    Grants(
      Dictionary(configuration.peers.map { ($0.name, Grants.Peer(push: $0.push, pull: $0.pull)) }) { first, _ in first }
    )
  }

  package func folder(of trail: TrailName) -> String { "\(statePath)/\(trail)" }

  func id(of trail: TrailName) -> TrailID? {
    trailInfos[trail.description]?.id ?? (try? Trail.info(folder: folder(of: trail)))?.id
  }

  package var trailInfos: [String: TrailInfo] { trails.withLock { $0 } }
  package func note(_ info: TrailInfo) { trails.withLock { $0[info.name.description] = info } }

  func note(end: Position, tablesToCopy: Int, of trail: TrailName) {
    ends.withLock { $0[trail.description] = (end, tablesToCopy) }
  }
  func end(of trail: String) -> Position? {
    let noted = ends.withLock { $0[trail]?.position } ?? .start
    return noted == .start ? trailInfos[trail]?.end.position : noted
  }

  /// Returns the number of tables that the capture of a trail has yet to copy into it; 0 for another node's trail.
  func tablesToCopy(of trail: String) -> Int { ends.withLock { $0[trail]?.tablesToCopy } ?? 0 }

  /// Returns whether the capture of a trail has opened it since the capture was last started.
  func isOpen(_ trail: TrailName) -> Bool { openTrails.withLock { $0.contains(trail) } }
  func opened(_ trail: TrailName, _ isOpen: Bool) {
    openTrails.withLock { trails in
      if isOpen { trails.insert(trail) } else { trails.remove(trail) }
    }
  }

  func forget(trail: String) {
    trails.withLock { $0[trail] = nil }
    ends.withLock { $0[trail] = nil }
  }

  package var sourceFacts: [NodeStatus.Source] {
    sources.withLock { $0.values.sorted { $0.capture < $1.capture } }
  }
  package func note(_ source: NodeStatus.Source) { sources.withLock { $0[source.capture] = source } }
  /// Updates the list of the tables from which `cairn unhook` has removed the triggers of capture.
  func note(unhooked: [String], of capture: String) { sources.withLock { $0[capture]?.unhooked = unhooked } }
  package func forget(capture: String) { sources.withLock { $0[capture] = nil } }

  /// Returns the capture that writes a trail; nil for a trail of another node.
  package func capture(of trail: TrailName) -> Configuration.Capture? {
    guard trail.origin == node else { return nil }
    return configuration.captures.first { $0.name == trail.name }
  }

  /// Runs `body` while no other worker has the task `work`, such as to apply a trail to a database. If `work` is nil,
  /// runs `body` without this check.
  ///
  /// - Throws: `conf-reference` if another worker has the task.
  func alone<T>(_ name: WorkerName, at work: DatabaseWork?, _ body: () throws -> T) throws -> T {
    guard let work else { return try body() }
    let other = works.withLock { works in
      let other = works[work]
      works[work] = other ?? name
      return other
    }
    if let other { throw work.isDone(by: other) }
    defer { works.withLock { $0[work] = nil } }
    return try body()
  }

  var isFull: Bool {
    get { full.load(ordering: .relaxed) }
    set { full.store(newValue, ordering: .relaxed) }
  }

  /// Returns the position up to which every apply of this node has applied a trail; nil if unknown.
  func applied(_ trail: TrailName) -> Position? { appliedEnds.withLock { $0[trail.description] } }
  func note(applied: [String: Position]) { appliedEnds.withLock { $0 = applied } }

  var leftOut: Set<PeerRegistry.Key> { ownElsewhere.withLock { $0 } }
  func leaveOut(_ key: PeerRegistry.Key) { ownElsewhere.withLock { _ = $0.insert(key) } }

  func onRestart(_ body: @escaping @Sendable (WorkerName) -> Void) { restarting.withLock { $0 = body } }
  func restart(_ worker: WorkerName) { restarting.withLock { $0 }(worker) }
  func tell(_ worker: WorkerName, _ text: String) {
    log.write(LogEntry(.notice, text, worker: worker.description))
  }

  /// Parses the name of a trail.
  ///
  /// - Throws: `usage` if the text is no such name.
  package func trailName(_ text: String) throws -> TrailName {
    guard let name = TrailName(text) else {
      throw CairnError(
        .usage, "'\(text)' is not a name of a trail", hint: "write NODE.NAME, as in store-042.pos", remedy: .badInput)
    }
    return name
  }
}
