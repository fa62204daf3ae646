import Changes
import Mapping

/// Whether an apply makes a schema change of its trail at the target. The decision is the same for both engines.
///
/// A table that Cairn created follows each trail that adds columns, whichever trail created it. Columns, names and the
/// table itself are taken away only for the trail that created it. They stay while another trail brings rows into the
/// table, as these rows would be lost with a column. Trails that go both ways share all rows, and all changes.
///
///     SchemaRight(.removes, isCreated: true, others: ["store-2.pos"], goesBothWays: false).isCreated  // false
struct SchemaRight: Equatable {
  enum Effect {
    /// The change adds columns, and does nothing else.
    case adds
    case removes
  }

  /// Whether the change is made, as one of a table which Cairn created for this trail.
  var isCreated: Bool
  /// The other trails that bring rows into the table and for whose sake the change is refused; empty: it is not
  /// refused.
  @ByBytes var others: [String]
  /// Whether only this trail brings rows into the table: no other trail does, and it is not two-way.
  var isOnlyTrail: Bool
  /// Whether rows written to the table at the target are replicated back.
  var goesBothWays = false

  /// Decides on a schema change. `isCreatedElsewhere`: whether another trail's apply created the table. `others`: the
  /// other trails that bring rows into it.
  init(
    _ effect: Effect, isCreated: Bool, isCreatedElsewhere: Bool = false, others: [String], goesBothWays: Bool
  ) {
    isOnlyTrail = !goesBothWays && others.isEmpty
    self.goesBothWays = goesBothWays
    switch effect {
    case .adds:
      self.isCreated = isCreated || isCreatedElsewhere
      self.others = []
    case .removes:
      let isRefused = !goesBothWays && !others.isEmpty
      self.isCreated = isCreated && !isRefused
      self.others = isRefused ? others : []
    }
  }

  /// Returns the trails that bring rows into a table. A trail whose table waits for its first rows claims none.
  static func others(_ feeders: [TableClaim.Feeder]) -> [String] { feeders.filter { $0.claim != nil }.map(\.trail) }

  /// The right to change a table that no other trail knows.
  init(isCreated: Bool) {
    self.isCreated = isCreated
    others = []
    isOnlyTrail = true
  }

  /// Returns the policy for the schema change.
  ///
  /// - Parameter ddl: The policy that the operator set for the apply; nil: none.
  func policy(_ ddl: DDLPolicy?) -> DDLPolicy {
    // The policy that the operator set for one trail does not cover the rows of the other trails.
    if !others.isEmpty { return ddl == .ignore ? .ignore : .stop }
    return ddl ?? (isCreated ? .follow : .stop)
  }

  /// Returns the policy for a table that the source drops. If other trails bring rows into it, it stays at the target.
  func policyOfDrop(_ ddl: DDLPolicy?) -> DDLPolicy {
    if others.isEmpty { return policy(ddl) }
    return ddl == .ignore ? .ignore : .follow
  }

  /// The reason for which ``policy(_:)`` stops a schema change, for messages.
  var refusal: String {
    if !others.isEmpty {
      return "\(others.count == 1 ? "trail" : "trails") \(others.joined(separator: ", ")) "
        + "\(others.count == 1 ? "brings" : "bring") rows into the table as well"
    }
    return isCreated
      ? "'ddl' is stop" : "Cairn did not create the table, so it does not change it by itself"
  }
}
