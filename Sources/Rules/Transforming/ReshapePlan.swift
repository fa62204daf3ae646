import Changes
import Mapping
import SQLiteKit

/// The result of a rule for one shape of a table: the target's table, and the source of each column.
///
///     let plan = try ReshapePlan(rule, schema, to: .postgres)
///     plan.schema   // the table at the target
package struct ReshapePlan {
  /// The source of a column's value.
  enum Output: Equatable {
    /// A source column, by index, copied byte for byte.
    case plain(Int)
    /// A computed column, by its index among the computed columns.
    case computed(Int)
    /// A constant, encoded as in an image.
    case constant([UInt8])
    /// The time of the commit that deleted the row at the source, or moved the row out of the filter; NULL while the
    /// row exists.
    case removed
    case history(HistoryColumn)
  }

  let rule: TableRule
  package let source: TableSchema
  /// The table with the shape that apply receives.
  package let schema: TableSchema
  /// Messages about properties of the source's table that the target's table lacks, or has in another form.
  package let notices: [String]
  /// The reason why the rule needs REPLICA IDENTITY FULL; nil if there is none.
  package let fullIdentity: String?

  let outputs: [Output]
  let filter: Expression?
  let computed: [Expression]
  /// The source columns that the filter and the computed columns use.
  let inputs: [Int]
  let calculator: Calculator?

  static let filterGroup = 0
  static let computedGroup = 1

  /// Applies a rule to a table.
  /// - Parameter target: The engine of the target.
  /// - Throws: `rule-refused`, which names the impossible part of the rule.
  package init(_ rule: TableRule, _ source: TableSchema, to target: Engine) throws {
    var draft = ReshapeDraft(rule, source, target)
    try draft.make()
    (self.rule, self.source, schema, notices) = (rule, source, draft.schema, draft.notices)
    (outputs, filter, computed, inputs, calculator) =
      (draft.outputs, draft.filter, draft.computed, draft.inputs, draft.calculator)
    fullIdentity = source.engine == .postgres ? draft.whyFullIdentity : nil
  }

  /// Returns the shape of a table under a rule; nil if the rule is impossible. `columns` has the index of the source
  /// column that each column copies; nil for a column with another value.
  package static func shape(
    of source: TableSchema, under rule: TableRule?, to target: Engine
  ) -> (schema: TableSchema, columns: [Int?])? {
    guard let rule else { return (source, Array(source.columns.indices)) }
    guard let plan = try? ReshapePlan(rule, source, to: target) else { return nil }
    return (plan.schema, plan.outputs.map { if case .plain(let column) = $0 { column } else { nil } })
  }

  /// Returns a schema for a table whose rule is impossible. Apply writes nothing to such a table.
  static func refused(_ rule: TableRule, _ source: TableSchema, _ error: CairnError, to target: Engine)
    -> TableSchema
  {
    var schema = source
    ReshapeDraft.rename(&schema, by: rule, target)
    var treatment = TableTreatment()
    treatment.refusal = .init(message: error.message, hint: error.hint)
    schema.treatment = treatment
    return schema
  }

  /// Returns, for each column of ``schema``, its index in the schema of the plan `before`; nil for a new column.
  ///
  /// - Parameter origins: For each column of the source, its index before the schema change; nil for a new column.
  func origins(from before: ReshapePlan, _ origins: [Int?]) -> [Int?] {
    outputs.indices.map { index in
      if case .plain(let column) = outputs[index], column < origins.count {
        let origin = origins[column]
        let places = before.outputs.indices.filter { before.outputs[$0] == origin.map { .plain($0) } }
        let same = places.first { before.schema.columns[$0].name.hasSameBytes(as: schema.columns[index].name) }
        if let place = same ?? places.first { return place }
        if origin == nil { return nil }
      }
      return before.schema.columns.firstIndex { $0.name.hasSameBytes(as: schema.columns[index].name) }
    }
  }
}

/// The columns that a history has in addition to the columns of the table.
package enum HistoryColumn: String, CaseIterable, Sendable {
  case operation = "cairn_operation"
  case committedAt = "cairn_committed_at"
  case origin = "cairn_origin"
  case position = "cairn_position"
  /// The names of the columns whose values the source did not provide with the change.
  case unknown = "cairn_unknown"

  func column(of engine: Engine) -> TableSchema.Column {
    let isSQLite = engine == .sqlite
    switch self {
    case .committedAt:
      return .init(name: rawValue, declaredType: isSQLite ? "TIMESTAMPTZ" : "timestamp with time zone", isNotNull: true)
    case .unknown: return .init(name: rawValue, declaredType: isSQLite ? "TEXT" : "text")
    case .position:
      return .init(name: rawValue, declaredType: isSQLite ? "TEXT" : "text", isNotNull: true, keyOrdinal: 1)
    case .operation, .origin: return .init(name: rawValue, declaredType: isSQLite ? "TEXT" : "text", isNotNull: true)
    }
  }
}
