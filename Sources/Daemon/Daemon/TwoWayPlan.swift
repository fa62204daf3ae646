import Applying
import Changes
import Configuring
import Conflicts
import Mapping
import Trails

/// The settings of all applies that write to one two-way database. A change of the settings restarts these applies.
package struct TwoWayPlan: Equatable, Sendable {
  var own: TrailName
  var applied: [Applied]
  @ByBytes var captured: [String]
  var copiesRows: Bool
  var rules: [String: ConflictPlan]
  var skew: Duration
  /// Whether a table of the database may have a foreign key to itself with ON UPDATE CASCADE.
  var acceptsMovedKeys: Bool
  /// The applied trails of this node's databases in which a table may not have such a foreign key.
  var refusingMovedKeys: Set<TrailName>

  struct Applied: Equatable {
    var trail: TrailName
    /// The tables of the target to which the apply may write.
    var tables: AdmittedTables
  }

  /// Creates the plan of an apply; nil if the apply is one-way.
  init?(_ apply: Configuration.Apply, _ conf: Configuration) {
    guard let capture = conf.captureBehind(apply), let own = TrailName(conf.trail(of: capture)) else { return nil }
    let peers = conf.applies.filter { $0.database == apply.database && conf.captureBehind($0) != nil }
    self.own = own
    applied = peers.compactMap { apply in
      TrailName(apply.trail).map {
        Applied(trail: $0, tables: AdmittedTables(TargetScope(apply.tables), names: apply.names))
      }
    }
    (captured, copiesRows) = (capture.tables, capture.copiesRows)
    rules = Dictionary(peers.map { ($0.trail, $0.conflictPlan) }) { first, _ in first }
    skew = peers.map(\.maxClockSkew).min() ?? .zero
    acceptsMovedKeys = conf.database(apply.database)?.acceptsMovedKeys ?? false
    refusingMovedKeys = Set(
      conf.captures.filter { conf.database($0.database)?.acceptsMovedKeys == false }
        .compactMap { TrailName(conf.trail(of: $0)) })
  }
}
