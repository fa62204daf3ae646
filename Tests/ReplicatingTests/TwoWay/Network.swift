import Applying
import Changes
import Conflicts
import Endpoints
import Foundation
import Mapping
import NetKit
import Pumping
import Replicating
import SystemKit
import TestServers
import Trails

/// Nodes that all write, each with a folder, a listener and pumps of its own. Trails go from one to the other as they
/// are, over loopback. Each node applies all of them all the time.
final class Network {
  /// How the trails go.
  enum Shape: String, CaseIterable {
    case pair
    case ring
    case star
    case mesh

    /// From which nodes a node pulls, and which trails: of all, or of that node only.
    fileprivate func sources(of node: Int, count: Int) -> [(node: Int, isOfAll: Bool)] {
      switch self {
      case .pair, .mesh: (0..<count).filter { $0 != node }.map { ($0, false) }
      case .ring: [((node + count - 1) % count, true)]
      case .star: node == 0 ? (1..<count).map { ($0, false) } : [(0, true)]
      }
    }
  }

  final class Place {
    let node: Mesh.Node
    let shared: PumpShared
    fileprivate var listener: (server: HTTPServer, desk: PumpHandler)?
    fileprivate var pumps: [(stop: StopSignal, thread: WorkerThread<Void>)] = []
    fileprivate(set) var applies: [(trail: TrailName, progress: ApplyProgress)] = []
    fileprivate var applying: [WorkerThread<String?>] = []

    fileprivate init(_ node: Mesh.Node, state: String) throws {
      self.node = node
      shared = PumpShared(copies: TrailCopies(state: state))
    }

    fileprivate func listen(to peers: [String]) throws {
      let everything = Grants.Peer(push: TrailPatterns([]), pull: TrailPatterns(["*"]))
      let grants = Grants(Dictionary(uniqueKeysWithValues: peers.map { ($0, everything) }))
      let desk = PumpHandler(
        .init(node: node.name, grants: { grants }, join: { _ in .answer(HTTPResponse(status: 404)) }),
        copies: shared.copies)
      listener = (try HTTPServer(host: "127.0.0.1", port: 0, handler: desk), desk)
    }

    fileprivate func pull(from other: Place, _ trails: String) throws {
      let url = "http://127.0.0.1:\(other.listener?.server.port ?? 0)"
      let plan = PumpPlan(.pull, url: url, trails: TrailPatterns([trails]), node: node.name)
      let (pump, stop) = (Pump(plan, shared), StopSignal())
      pumps.append((stop, try WorkerThread { try? pump.run(stop: stop) }))
    }

    fileprivate func apply(_ trail: TrailName, until stop: StopSignal) throws {
      let progress = ApplyProgress()
      var options = ApplyOptions()
      options.twoWay = node.twoWay
      let run = ApplyRun(node.url, trail: trail, folder: shared.copies.folder(trail), options: options)
      applies.append((trail, progress))
      applying.append(
        try WorkerThread { [folder = run.folder] in
          while !Trail.exists(folder: folder) { if stop.wait(milliseconds: 20) { return nil } }
          do {
            try run.run(stop: stop, drain: StopSignal(), progress: progress)
            return nil
          } catch { return "apply of \(trail): \(error)" }
        })
    }

    /// Why an apply has ended by itself; nil: none has.
    var problem: String? { applying.lazy.compactMap { $0.outcome ?? nil }.first }
  }

  let folder: String
  private(set) var places: [Place] = []
  private var databases: [String] = []
  private let stop = StopSignal()

  /// A letter for each node: `s` for SQLite, `p` for PostgreSQL; the first one is the middle of a star.
  init(_ shape: Shape, _ engines: String, schema: String, rules: @escaping TwoWay.RuleBook) throws {
    folder = NSTemporaryDirectory() + "cairn-network-\(UUID().uuidString.prefix(8))"
    for (index, engine) in engines.enumerated() {
      let (name, state) = ("n\(index)", "\(folder)/n\(index)")
      try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
      var url = try DatabaseURL("sqlite://\(folder)/\(name).db")
      if engine == "p" {
        let database = "network_\(UUID().uuidString.prefix(8).lowercased())"
        databases.append(database)
        url = try DatabaseURL(PostgresServer.shared.createDatabase(database))
      }
      let node = try Mesh.Node(name, url, in: state, rules: rules)
      try node.execute(schema)
      // Apply writes to the same file.
      if !node.isPostgres { try node.execute("PRAGMA busy_timeout = 60000") }
      places.append(try Place(node, state: state))
    }
    let names = places.map(\.node.name)
    for place in places {
      try place.node.startCapture()
      try place.listen(to: names)
    }
    for (index, place) in places.enumerated() {
      let others = places.filter { $0 !== place }.map(\.node.trail)
      place.node.twoWay = TwoWay(
        own: (place.node.trail, place.node.folder),
        applied: others.map { ($0, place.shared.copies.folder($0), AdmittedTables(TargetScope())) },
        link: place.node.link, rules: rules)
      for source in shape.sources(of: index, count: places.count) {
        try place.pull(from: places[source.node], source.isOfAll ? "*" : "n\(source.node).*")
      }
      for trail in others { try place.apply(trail, until: stop) }
    }
  }

  /// Waits until something is so at all nodes.
  func wait(_ what: String, seconds: Int64, _ isSo: (Place) throws -> Bool) throws {
    let limit = Clock.monotonicMilliseconds + seconds * 1000
    for place in places {
      while try !isSo(place) {
        if let problem = places.lazy.compactMap(\.problem).first { throw TestFailure(problem) }
        guard Clock.monotonicMilliseconds < limit else {
          throw TestFailure("not in time at \(place.node.name): \(what)")
        }
        Clock.sleep(milliseconds: 20)
      }
    }
  }

  func close() throws {
    stop.set()
    for place in places {
      for pump in place.pumps { pump.stop.set() }
      place.listener?.desk.end()
    }
    for place in places {
      for thread in place.applying { if let problem = thread.join() ?? nil { throw TestFailure(problem) } }
      for pump in place.pumps { _ = pump.thread.join() }
      place.listener?.server.stop()
      place.shared.copies.close()
      try place.node.stopCapture()
    }
    places.removeAll()
    for database in databases { try PostgresServer.shared.dropDatabase(database) }
    try FileManager.default.removeItem(atPath: folder)
  }
}
