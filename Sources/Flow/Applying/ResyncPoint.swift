import Changes
import Mapping
import Trails
import Transforming

/// A refresh, later in the trail, with which a suspended table continues.
///
/// The table was suspended because apply could not carry out the table's rule.
struct ResyncPoint {
  enum Outcome {
    case found(ResyncPoint)
    /// The rule fits the table's columns again, but the trail has no refresh of the table yet. The value is the table's
    /// name at the source.
    case wanted(String)
    case none

    var wanted: String? { if case .wanted(let table) = self { table } else { nil } }
  }

  let now: TableSchema
  /// The schema changes that lead to the schema at the refresh, one from each schema that the table may have at the
  /// target. The oldest schema comes first.
  let were: [ChangedRule.Step]
  /// The place of the record with which the refresh begins.
  let from: Position
  let checkpoint: Checkpoint
  let number: UInt64

  /// Searches the trail for a refresh of a suspended table, from the table's checkpoint through transaction `limit`.
  ///
  /// Returns `none` if the table was dropped, or was not suspended because of its rule. Ignores refreshes for a table
  /// with `mode = "history"`.
  static func find(
    _ code: ErrorCode?, at start: Position, in folder: String, from table: WaitingTable, through limit: UInt64,
    options: ApplyOptions, to target: Engine
  ) throws -> Outcome {
    let reader = try ApplyReader.open(folder: folder, at: table.checkpoint, rules: [], to: target)
    var path: Path?
    var number = table.number
    while let record = try reader.next() {
      switch record {
      case .begin(let header) where header.number > limit: return path?.end(options.rules, target) ?? .none
      case .commit(let last, _): number = last
      default: break
      }
      guard reader.position >= start else { continue }
      guard path != nil else {
        guard let given = reader.subject(of: record) else { return .none }
        path = Path(given, options)
        if code != .ruleRefused, path?.changed == nil { return .none }
        if case .ddl(let ddl) = record, ddl.before != 0, path?.follow(ddl, reader) == false { return .none }
        continue
      }
      switch record {
      case .ddl(let ddl): if path?.follow(ddl, reader) == false { return .none }
      case .refresh(let refresh):
        guard case .start(_, let method, _) = refresh.event, method != .rows,
          let given = reader.given(refresh.schemaID),
          let path, given.sourceKey.hasSameBytes(as: path.last.sourceKey),
          let plan = ReshapePlan.shape(of: given, under: options.rules.rule(for: given), to: target),
          plan.schema.treatment?.isHistory != true
        else { continue }
        return .found(
          ResyncPoint(
            now: plan.schema, were: path.steps(to: plan, target), from: reader.position, checkpoint: reader.checkpoint,
            number: number))
      default: break
      }
    }
    return path?.end(options.rules, target) ?? .none
  }

  /// Returns the first listed schema change from a schema whose columns the target table has; nil if there is none.
  func step(from columns: Set<NameKey>, _ mapped: (TableSchema) throws -> TableSchema) rethrows -> ChangedRule.Step? {
    try were.first { try mapped($0.was).columns.allSatisfy { columns.contains($0.name.sqliteKey) } }
  }

  static func unfit(_ table: TableSchema) -> CairnError {
    CairnError(
      .schemaStopped,
      "a copy of table \(table.fullName) has arrived, but the target's table has neither the shape nor the name that the suspended table had",
      hint: "put the table back, or copy everything again with 'cairn copy APPLY'", context: ["table": table.fullName])
  }

  /// The columns of a suspended table at the source, followed from the suspension to the last record that was read.
  private struct Path {
    let first: TableSchema
    let changed: ChangedRule?
    let rules: [TableRule?]
    private(set) var last: TableSchema
    private var origins: [Int?]
    private var between: [TableSchema] = []

    init(_ given: TableSchema, _ options: ApplyOptions) {
      (first, last, origins) = (given, given, Array(given.columns.indices))
      changed = options.changedRules.first { $0.table.hasSameBytes(as: given.plainName) && $0.isCopied }
      rules = (changed?.before ?? []) + [options.rules.rule(for: given)]
    }

    /// Updates the columns after a schema change. Returns false if the change drops this table.
    mutating func follow(_ ddl: DDL, _ reader: ApplyReader) -> Bool {
      guard ddl.before != 0, let before = reader.given(ddl.before), before.sourceKey.hasSameBytes(as: last.sourceKey)
      else {
        return true
      }
      guard ddl.after != 0, let after = reader.given(ddl.after) else { return false }
      between.append(last)
      origins = NextFittingSchema.origins(ddl, before, after).map {
        $0.flatMap { $0 < origins.count ? origins[$0] : nil }
      }
      last = after
      return true
    }

    func steps(to plan: (schema: TableSchema, columns: [Int?]), _ target: Engine) -> [ChangedRule.Step] {
      rules.compactMap { ReshapePlan.shape(of: first, under: $0, to: target) }.map { was in
        let columns = plan.schema.columns.indices.map { index in
          let name = plan.schema.columns[index].name.sqliteKey
          let same = was.schema.columns.firstIndex { $0.name.sqliteKey == name }
          guard index < plan.columns.count, let column = plan.columns[index] else { return same }
          guard let origin = origins[column] else { return nil }
          return same.flatMap { $0 < was.columns.count && was.columns[$0] == origin ? $0 : nil }
            ?? was.columns.firstIndex(of: origin)
        }
        return ChangedRule.Step(was: was.schema, now: plan.schema, origins: columns)
      }
    }

    /// Returns the result of a search that found no refresh: `wanted` if the rule fits the table's columns again,
    /// otherwise `none`.
    func end(_ rules: [TableRule], _ target: Engine) -> Outcome {
      let fits = { (given: TableSchema) in
        ReshapePlan.shape(of: given, under: rules.rule(for: given), to: target)
          .map { $0.schema.treatment?.isHistory != true } ?? false
      }
      return fits(last) && !between.allSatisfy(fits) ? .wanted(last.plainName) : .none
    }
  }
}

extension ApplyReader {
  /// Returns the source's schema of the table to which a record belongs.
  fileprivate func subject(of record: Record) -> TableSchema? {
    switch record {
    case .change(let change): given(change.schemaID)
    case .refreshRow(let id, _): given(id)
    case .waitingRow(let row): given(row.schemaID)
    case .refresh(let refresh): given(refresh.schemaID)
    case .ddl(let ddl): given(ddl.before == 0 ? ddl.after : ddl.before)
    default: nil
    }
  }
}
