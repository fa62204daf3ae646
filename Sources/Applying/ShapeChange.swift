import Changes

/// What a schema change is at the target.
struct ShapeChange {
  var action: DDL.Action
  var before: TableSchema?
  var after: TableSchema?
  /// For each column after: which one it was before; nil: told by their names.
  var origins: [Int?]?
  var isRefreshed: Bool

  init(_ ddl: DDL, before: TableSchema?, after: TableSchema?, origins: [Int?]?) {
    (action, isRefreshed) = (ddl.action, ddl.isRefreshed)
    (self.before, self.after, self.origins) = (before, after, origins)
  }

  /// In a lane: a change to a shape that the target cannot have becomes one to the next that it can have, as `later` finds
  /// it. False when nothing is left to do.
  mutating func skipUnfit(
    _ ddl: DDL, fits: (TableSchema) -> Bool, later find: (TableSchema) throws -> LaterShape?
  ) rethrows -> Bool {
    // Made with the change to the shape before.
    if let before, !fits(before) { return false }
    guard let after, !fits(after), let later = try find(after) else { return true }
    guard let shape = later.schema else {
      guard before != nil else { return false }
      (action, self.after) = (.drop, nil)
      return true
    }
    if let before {
      let were = LaterShape.origins(ddl, before, after)
      origins = later.origins.map { $0.flatMap { were[$0] } }
      action = .reshape
    }
    self.after = shape
    isRefreshed = isRefreshed || later.isRefreshed
    return true
  }
}
