import Changes

/// What the changes of one transaction made of one row, folded to one step.
struct VersionFold {
  /// One change as this row sees it; nil: the row was, or is, not there.
  struct Step {
    var before: [Value?]?
    var after: [Value?]?
  }

  /// Of the values in both rows.
  private(set) var schema: TableSchema
  private(set) var before: [Value?]?
  private(set) var after: [Value?]?
  /// What first happened to the row was an update.
  private let beganWithUpdate: Bool

  init(_ step: Step, _ schema: TableSchema) {
    self.schema = schema
    (before, after) = (step.before, step.after)
    beganWithUpdate = step.before != nil && step.after != nil
  }

  /// Whether a step is of this row, not of another of its name: it begins with what the row is, or ends with what it was,
  /// as far as the key says.
  func isSameRow(_ step: Step, _ schema: TableSchema) -> Bool {
    guard let row = after ?? before, let other = step.before ?? step.after else { return false }
    let names = Self.key(self.schema)
    guard names == Self.key(schema) else { return true }
    return names.allSatisfy { name in
      Self.value(row, name, self.schema) == Self.value(other, name, schema)
    }
  }

  mutating func add(_ step: Step, _ schema: TableSchema) {
    if schema != self.schema {
      (before, after) = (
        before.map { reshaped($0, to: schema) }, after.map { reshaped($0, to: schema) }
      )
      self.schema = schema
    }
    // An update may stand before the change that brought its row.
    if beganWithUpdate, let was = before, let row = step.after, row == was,
      step.before == nil || step.before != after
    {
      before = step.before
      return
    }
    switch (after, step.before) {
    case (nil, _): after = step.after
    case (let row?, _): after = step.after.map { new in zip(row, new).map { $1 ?? $0 } }
    }
  }

  /// By the names of columns: those that are new are not given.
  private func reshaped(_ row: [Value?], to other: TableSchema) -> [Value?] {
    other.columns.map { Self.value(row, $0.name, schema) }
  }

  private static func key(_ schema: TableSchema) -> [String] {
    schema.key.map { schema.columns[$0].name }
  }

  private static func value(_ row: [Value?], _ column: String, _ schema: TableSchema) -> Value? {
    guard let index = schema.columns.firstIndex(where: { $0.name == column }), index < row.count
    else { return nil }
    return row[index]
  }
}
