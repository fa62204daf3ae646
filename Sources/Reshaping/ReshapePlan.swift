import Changes
import Mapping
import SQLiteKit

/// What a rule makes of one shape of a table: the table that the target gets, and where each of its columns comes from.
///
/// Pure but for SQLite in memory, which judges the expressions.
package struct ReshapePlan {
  /// Where a column's value comes from.
  enum Output: Equatable {
    /// A column of the source, byte for byte.
    case plain(Int)
    /// Which of the computed columns it is.
    case computed(Int)
    /// The same in all rows, as images have it.
    case constant([UInt8])
    /// The time of the commit that removed the row; NULL while it is there.
    case removed
    case history(HistoryColumn)
  }

  let rule: ReshapeRule
  package let source: TableSchema
  /// As apply sees it.
  package let schema: TableSchema
  /// What the source's table has and the target's has not, or not in the same way, for people.
  package let notices: [String]
  /// Why PostgreSQL must log whole rows of it (REPLICA IDENTITY FULL) for the rule to be kept; nil where it need not, and
  /// for SQLite.
  package let fullIdentity: String?

  let outputs: [Output]
  let filter: Expression?
  let computed: [Expression]
  /// Source columns that filter and computed columns look at, in the order of the calculator's columns.
  let inputs: [Int]
  let calculator: Calculator?

  static let filterGroup = 0
  static let computedGroup = 1

  /// `target`: the engine that the rows go to. Throws `rule-refused` with what the rule says that cannot be done.
  package init(_ rule: ReshapeRule, _ source: TableSchema, to target: Engine) throws {
    var draft = ReshapeDraft(rule, source, target)
    try draft.make()
    (self.rule, self.source, schema, notices) = (rule, source, draft.schema, draft.notices)
    (outputs, filter, computed, inputs, calculator) =
      (draft.outputs, draft.filter, draft.computed, draft.inputs, draft.calculator)
    fullIdentity = source.engine == .postgres ? draft.whyFullIdentity : nil
  }

  /// What a table is under a rule, and without one; for each column, which one it is of the source, if it is one. Nil
  /// where the rule cannot be kept.
  package static func shape(
    of source: TableSchema, under rule: ReshapeRule?, to target: Engine
  ) -> (schema: TableSchema, columns: [Int?])? {
    guard let rule else { return (source, Array(source.columns.indices)) }
    guard let plan = try? ReshapePlan(rule, source, to: target) else { return nil }
    return (plan.schema, plan.outputs.map { if case .plain(let column) = $0 { column } else { nil } })
  }

  /// The table that stands for one whose rule cannot be kept: nothing is written to it.
  static func refused(_ rule: ReshapeRule, _ source: TableSchema, _ error: CairnError, to target: Engine)
    -> TableSchema
  {
    var schema = source
    ReshapeDraft.rename(&schema, by: rule, target)
    var treatment = TableTreatment()
    treatment.refusal = .init(message: error.message, hint: error.hint)
    schema.treatment = treatment
    return schema
  }

  /// Which column of ``schema`` each was of the one before, where `origins` says it of the source's columns.
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

/// What the rows of a history tell besides the columns of the table.
package enum HistoryColumn: String, CaseIterable, Sendable {
  case operation = "cairn_operation"
  case committedAt = "cairn_committed_at"
  case origin = "cairn_origin"
  case position = "cairn_position"
  /// Names of columns that the source did not tell.
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
