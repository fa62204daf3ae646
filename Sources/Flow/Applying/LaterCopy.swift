import Changes
import Mapping
import Reshaping
import Trails

/// A copy later in the trail, with which a table continues that is suspended because its rule could not be kept.
///
/// The copy brings the rows that the table missed, even those of shapes for which the rule cannot be kept.
struct LaterCopy {
  enum Outcome {
    case found(LaterCopy)
    /// The rule fits again, and only a copy of the table is missing. The value is the table's
    /// ``TableSchema/plainName``.
    case wanted(String)
    case none

    var wanted: String? { if case .wanted(let table) = self { table } else { nil } }
  }

  /// The table as the target should have it when the copy begins.
  let now: TableSchema
  /// The shapes that the waiting table may have at the target, the oldest rule first.
  let were: [ChangedRule.Step]
  /// The record with which the copy begins. ``checkpoint`` is the border before its transaction, ``number`` the last
  /// transaction before that.
  let from: Position
  let checkpoint: Checkpoint
  let number: UInt64

  /// Searches the trail for a copy of a suspended table, from the table's checkpoint through transaction `limit`. The
  /// record at `start` shows the table.
  ///
  /// Returns `none` in three cases. The table has no rule and waits for another reason. It is a history, whose rows no
  /// copy brings again. Or it is dropped on the way.
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
          LaterCopy(
            now: plan.schema, were: path.steps(to: plan, target), from: reader.position, checkpoint: reader.checkpoint,
            number: number))
      default: break
      }
    }
    return path?.end(options.rules, target) ?? .none
  }

  /// Returns the step from the shape that the target's table has, found by its columns; nil if no step begins there.
  func step(from columns: Set<NameKey>, _ mapped: (TableSchema) throws -> TableSchema) rethrows -> ChangedRule.Step? {
    try were.first { try mapped($0.was).columns.allSatisfy { columns.contains($0.name.sqliteKey) } }
  }

  static func unfit(_ table: TableSchema) -> CairnError {
    CairnError(
      .schemaStopped,
      "a copy of table \(table.fullName) has arrived, but the target's table has neither the shape nor the name that the suspended table had",
      hint: "put the table back, or copy everything again with 'cairn copy APPLY'", context: ["table": table.fullName])
  }

  /// The shapes that a table has at the source, from the shape with which it waits.
  private struct Path {
    let first: TableSchema
    let changed: ChangedRule?
    let rules: [TableRule?]
    private(set) var last: TableSchema
    /// For each column of the last shape, the index of the same column in the first shape.
    private var origins: [Int?]
    private var between: [TableSchema] = []

    init(_ given: TableSchema, _ options: ApplyOptions) {
      (first, last, origins) = (given, given, Array(given.columns.indices))
      changed = options.changedRules.first { $0.table.hasSameBytes(as: given.plainName) && $0.isCopied }
      rules = (changed?.before ?? []) + [options.rules.rule(for: given)]
    }

    /// Adds a schema change to the path, if it is of the path's table. Returns false if the table is dropped.
    mutating func follow(_ ddl: DDL, _ reader: ApplyReader) -> Bool {
      guard ddl.before != 0, let before = reader.given(ddl.before), before.sourceKey.hasSameBytes(as: last.sourceKey)
      else {
        return true
      }
      guard ddl.after != 0, let after = reader.given(ddl.after) else { return false }
      between.append(last)
      origins = LaterShape.origins(ddl, before, after).map { $0.flatMap { $0 < origins.count ? origins[$0] : nil } }
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

    /// Returns the outcome without a copy: it is wanted if the last shape fits the rule and an earlier one did not.
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
  /// Returns the table of a record as the source has it.
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
