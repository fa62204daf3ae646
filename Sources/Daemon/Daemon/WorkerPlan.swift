import Changes
import Configuring
import ControlAPI

/// The settings of one worker, from the conf. A worker whose settings change is created again.
package enum WorkerSpec: Equatable, Sendable {
  /// A capture of a database.
  ///
  /// - Parameters:
  ///   - handsOn: Whether rows that apply writes to the database go into the trail of this capture.
  ///   - goesBothWays: Whether a two-way apply writes to the database.
  case capture(Configuration.Capture, Configuration.Database, handsOn: Bool, goesBothWays: Bool)
  /// An apply. Only a two-way apply has a ``TwoWayPlan``.
  ///
  /// - Parameter lacks: The line for the operator about rows of the source that the target lacks; nil if none.
  case apply(Configuration.Apply, Configuration.Database, TwoWayPlan?, Configuration.RelayPlan, lacks: String?)
  /// A snapshot, without its peers: the listener looks them up for each request.
  case snapshot(Configuration.Snapshot, Configuration.Database)
  case heartbeat(Configuration.Capture, Configuration.Database)
  case purge(String, every: Duration)
  /// The purge of all received trails except those in `besides`.
  case purgeOfCopies(besides: [String])
  /// A pump, with the certificates that it uses if its section of the conf names none.
  case pump(Configuration.Pump, Configuration.PeerFiles?)
  case receive(Configuration.Receive)

  /// Whether the worker makes trails grow. If so, the worker pauses while the trails are over their disk limit.
  var bringsIn: Bool {
    switch self {
    case .capture: true
    case .pump(let pump, _): pump.way == .pull
    case .apply, .snapshot, .heartbeat, .purge, .purgeOfCopies, .receive: false
    }
  }
}

/// The workers that a conf requires, with their settings.
package struct WorkerPlan: Equatable, Sendable {
  package var specs: [WorkerName: WorkerSpec] = [:]

  package init() {}

  package init(_ configuration: Configuration) {
    var trails: [String: (name: String, every: Duration)] = [:]
    for capture in configuration.captures {
      guard let database = configuration.database(capture.database) else { continue }
      specs[WorkerName(.capture, capture.name)] = .capture(
        capture, database, handsOn: configuration.handsOn(capture), goesBothWays: configuration.goesBothWays(capture))
      var watched = capture
      // The heartbeat has nothing to do with which tables are captured.
      (watched.tables, watched.purge, watched.applied) = ([], .zero, nil)
      specs[WorkerName(.heartbeat, capture.name)] = .heartbeat(watched, database)
      trails[configuration.trail(of: capture)] = (capture.name, capture.purge)
    }
    for apply in configuration.applies {
      guard let database = configuration.database(apply.database) else { continue }
      specs[WorkerName(.apply, apply.name)] = .apply(
        apply, database, TwoWayPlan(apply, configuration), configuration.relayPlan(apply),
        lacks: configuration.lineOnLacking(apply))
      if trails[apply.trail] == nil { trails[apply.trail] = (apply.trail, .seconds(10)) }
    }
    for snapshot in configuration.snapshots {
      guard let database = configuration.database(snapshot.database) else { continue }
      var made = snapshot
      made.peers = []
      specs[WorkerName(.snapshot, snapshot.name)] = .snapshot(made, database)
    }
    for (trail, purge) in trails { specs[WorkerName(.purge, purge.name)] = .purge(trail, every: purge.every) }
    for pump in configuration.pumps { specs[WorkerName(.pump, pump.name)] = .pump(pump, configuration.receive?.tls) }
    if let receive = configuration.receive { specs[.receive] = .receive(receive) }
    if configuration.receive != nil || configuration.pumps.contains(where: { $0.way == .pull }) {
      specs[.purgeOfCopies] = .purgeOfCopies(besides: trails.keys.sorted())
    }
  }

  package var names: [WorkerName] { specs.keys.sorted() }

  /// The workers that differ between one conf and another.
  package struct Change: Equatable, Sendable {
    package var removed: [WorkerName] = []
    package var added: [WorkerName] = []
    package var altered: [WorkerName] = []
    /// Sentences about effects of the new conf that the operator may not expect.
    package var notices: [String] = []
    package var isNothing: Bool { removed.isEmpty && added.isEmpty && altered.isEmpty }
  }

  package func change(to other: WorkerPlan) -> Change {
    Change(
      removed: names.filter { other.specs[$0] == nil }, added: other.names.filter { specs[$0] == nil },
      altered: names.filter { name in other.specs[name].map { $0 != specs[name] } ?? false })
  }

  /// Returns an error if only a restart of the daemon can change the conf from `old` to `new`; otherwise nil.
  package static func refusal(from old: Configuration, to new: Configuration) -> CairnError? {
    func settings(_ conf: Configuration) -> [(key: String, value: String)] {
      [
        ("[node] name", conf.node.name), ("[node] state", conf.node.state),
        ("[control] socket", conf.control.socket ?? ""), ("[control] group", conf.control.group ?? ""),
      ]
    }
    func shown(_ value: String) -> String { value.isEmpty ? "nothing" : "'\(value)'" }
    guard let (was, now) = zip(settings(old), settings(new)).first(where: { $0.value != $1.value }) else { return nil }
    return CairnError(
      .restartNeeded,
      "\(was.key) was changed from \(shown(was.value)) to \(shown(now.value)), which a running daemon cannot apply",
      hint: "put it back, or run 'systemctl restart cairnd'", remedy: .badInput)
  }
}
