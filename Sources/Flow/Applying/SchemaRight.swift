import Changes
import Mapping

/// The right of an apply to make a schema change of its trail at the target.
///
/// Any trail may add columns to a table that Cairn created. Only the trail for which Cairn created the table may drop
/// or rename the table or its columns.
///
/// That trail may not do so if the table is one-way and another trail has rows in the table.
///
///     SchemaRight(.removes, isCreated: true, others: ["store-2.pos"], goesBothWays: false).isCreated  // false
struct SchemaRight: Equatable {
  enum Effect {
    case adds
    case removes
  }

  /// Whether Cairn created the table and this trail may make the schema change.
  var isCreated: Bool
  /// The other trails whose rows in the table forbid the schema change.
  @ByBytes var others: [String]
  /// Whether the table is one-way and only this trail writes it.
  var isOnlyTrail: Bool
  /// Whether rows written to the table at the target are replicated back to the source.
  var goesBothWays = false

  /// Creates the right for one schema change.
  ///
  /// - Parameter isCreated: Whether this trail's apply created the table.
  /// - Parameter isCreatedElsewhere: Whether another trail's apply created the table.
  /// - Parameter others: The other trails that have rows in the table.
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

  /// Returns the trails that have rows in a table. A trail whose initial load of the table has not begun has none.
  static func others(_ feeders: [TableClaim.Feeder]) -> [String] { feeders.filter { $0.claim != nil }.map(\.trail) }

  init(isCreated: Bool) {
    self.isCreated = isCreated
    others = []
    isOnlyTrail = true
  }

  /// Returns the policy for the schema change. If rows of other trails forbid the change, returns `stop`, or `ignore`
  /// if that is the operator's policy.
  ///
  /// - Parameter ddl: The policy that the operator set for the apply; nil: none.
  func policy(_ ddl: DDLPolicy?) -> DDLPolicy {
    // The policy that the operator set for one trail does not cover the rows of the other trails.
    if !others.isEmpty { return ddl == .ignore ? .ignore : .stop }
    return ddl ?? (isCreated ? .follow : .stop)
  }

  /// Returns the policy for a table that the source drops. The target keeps the table if other trails have rows there.
  func policyOfDrop(_ ddl: DDLPolicy?) -> DDLPolicy {
    if others.isEmpty { return policy(ddl) }
    return ddl == .ignore ? .ignore : .follow
  }

  var refusal: String {
    if !others.isEmpty {
      return "\(others.count == 1 ? "trail" : "trails") \(others.joined(separator: ", ")) "
        + "\(others.count == 1 ? "brings" : "bring") rows into the table as well"
    }
    return isCreated
      ? "'ddl' is stop" : "Cairn did not create the table, so it does not change it by itself"
  }
}
