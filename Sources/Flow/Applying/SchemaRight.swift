import Changes
import Mapping

/// The right of an apply to make a schema change of its trail at the target. Both engines use the same rules.
///
/// A table that Cairn created follows each trail that adds columns, whichever trail created it. Only the trail that
/// created the table may drop or rename columns or the table. That trail may not do so while another trail brings rows
/// into the table, as a dropped column would lose the other trail's values. In a two-way table, it may always do so.
///
///     SchemaRight(.removes, isCreated: true, others: ["store-2.pos"], goesBothWays: false).isCreated  // false
struct SchemaRight: Equatable {
  enum Effect {
    /// The change adds columns, and does nothing else.
    case adds
    case removes
  }

  /// Whether Cairn created the table for this trail, and no other trail's rows forbid the change.
  var isCreated: Bool
  /// The other trails whose rows in the table forbid the change; empty if no other trail's rows forbid it.
  @ByBytes var others: [String]
  /// Whether only this trail brings rows into the table: no other trail does, and the table is not two-way.
  var isOnlyTrail: Bool
  /// Whether rows written to the table at the target are replicated back.
  var goesBothWays = false

  /// Creates the right for one schema change. `isCreatedElsewhere`: whether another trail's apply created the table.
  /// `others`: the other trails that bring rows into it.
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

  /// Returns the trails that have rows in a table. A trail whose first copy of the table has not begun has none.
  static func others(_ feeders: [TableClaim.Feeder]) -> [String] { feeders.filter { $0.claim != nil }.map(\.trail) }

  /// Creates the right to change a table that only one trail writes.
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

  /// Returns the policy for a table that the source drops. The table stays at the target if other trails bring rows
  /// into it.
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
