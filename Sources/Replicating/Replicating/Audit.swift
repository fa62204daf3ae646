import Changes
import Comparing
import Endpoints
import Glibc
import Mapping
import Synchronization
import SystemKit
import Trails
import Transforming

/// Compares source and target in endless rounds during replication, at a limited rate. An audit reports differences and
/// repairs nothing.
///
///     let audit = Audit(
///       from: .database(source), to: target, statePath: state, tables: TablePatterns(), names: .fold,
///       bytesPerSecond: 1 << 20, stop: stop)
package final class Audit: Sendable {
  package struct Drift: Sendable {
    package let table: String
    package let kind: Difference.Kind
    /// The key of the row, such as `id=5`; empty if a table or column differs.
    package let key: String
  }

  package struct Round: Sendable {
    package let rows: Int
    package let differences: Int
    package let milliseconds: Int64
  }

  package struct Snapshot: Sendable {
    /// The first difference of each table, until a later round finds the table equal.
    package var drifts: [Drift] = []
    package var rounds = 0
    package var last: Round?
    /// The error that interrupted the last round; nil if that round was completed.
    package var problem: CairnError?
  }

  /// The pause between two rounds of comparison, in milliseconds.
  private static let pauseMilliseconds: Int32 = 30_000
  private static let confirmMilliseconds: Int32 = 10_000

  private let state = Mutex(Snapshot())
  /// The source of the compared rows.
  package enum Source: Sendable {
    case database(DatabaseURL)
    /// A source at another node, which answers questions about its rows.
    case origin(OriginSource, TrailName)
  }

  private let source: Source
  private let target: DatabaseURL
  private let statePath: String
  private let tables: TablePatterns
  private let names: NamePolicy
  private let rules: [TableRule]
  private let scope: TargetScope
  /// The trail that the daemon's apply reads; nil in `cairn replicate`.
  private let trail: TrailName?
  private let watch: CompareWatch

  package init(
    from: Source, to: DatabaseURL, trail: TrailName? = nil, statePath: String, tables: TablePatterns,
    names: NamePolicy, rules: [TableRule] = [], scope: TargetScope = TargetScope(),
    bytesPerSecond: Int, stop: StopSignal
  ) {
    (source, target, self.trail, self.statePath) = (from, to, trail, statePath)
    (self.tables, self.names, self.rules, self.scope) = (tables, names, rules, scope)
    watch = CompareWatch(stop: stop, rate: RateLimit(bytesPerSecond: bytesPerSecond))
  }

  package var snapshot: Snapshot { state.withLock { $0 } }

  /// Compares source and target in rounds, until the audit is stopped.
  /// - Parameter isReady: A function that returns whether the target follows the source. Until then, no round starts.
  package func run(isReady: () -> Bool) {
    // The priority of this thread and of the threads that it starts.
    _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
    var shapes = ShapeDifferences()
    while !watch.stop.wait(milliseconds: 1000) {
      guard isReady() else { continue }
      do { try round(&shapes) } catch {
        // An error of the audit does not stop replication.
        let problem = CairnError(enveloping: error, doing: "audit")
        if !watch.stop.isSet { state.withLock { $0.problem = problem } }
      }
      let pause = shapes.areUnconfirmed ? Self.confirmMilliseconds : Self.pauseMilliseconds
      if watch.stop.wait(milliseconds: pause) { return }
    }
  }

  private func round(_ shapes: inout ShapeDifferences) throws {
    var options = Comparison.Options()
    (options.tables, options.names, options.rules, options.scope) = (tables, names, rules, scope)
    let comparison: Comparison
    switch (source, trail) {
    case (.database(let source), nil):
      comparison = try Comparison(from: source, to: target, state: statePath, options: options, watch: watch)
    case (.database(let source), let trail?):
      comparison = try Comparison(
        from: source, to: target, trail: trail, state: statePath, options: options, watch: watch)
    case (.origin(let source, let trail), _):
      comparison = try Comparison(
        origin: source, to: target, trail: trail, state: statePath, options: options, watch: watch)
    }
    let found = Mutex<Set<NameKey>>([])
    let known = Mutex(shapes)
    let summary = try comparison.run { event in
      guard case .difference(let difference, _) = event, known.withLock({ $0.confirms(difference) }) else { return }
      let key = difference.key.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
      found.withLock { _ = $0.insert(difference.table) }
      let drift = Drift(table: difference.table, kind: difference.kind, key: difference.column + key)
      state.withLock { state in
        if !state.drifts.contains(where: { $0.table.hasSameBytes(as: drift.table) }) { state.drifts.append(drift) }
      }
    }
    guard !summary.isStopped else { return }
    shapes = known.withLock { $0 }
    shapes.endRound()
    state.withLock { state in
      state.rounds += 1
      state.problem = nil
      state.drifts.removeAll { drift in !found.withLock { $0.contains(drift.table) } }
      state.last = Round(rows: summary.rows, differences: summary.differences, milliseconds: summary.milliseconds)
    }
  }
}
