import Changes
import Mapping
import Reshaping
import SystemKit
import Trails

/// The next shape in the trail that the target can have, for a table whose shape the target cannot have. Or the drop of
/// that table.
///
/// A suspended table continues if the source took its change back, changed a name, or dropped the table. The shapes
/// between are skipped: apply writes their rows as far as the later shape has their columns.
struct LaterShape {
  /// The later shape; nil: the table is dropped.
  let schema: TableSchema?
  /// For each column of ``schema``, the index of the same column in the shape from which the search began; nil for a
  /// new column.
  let origins: [Int?]
  /// Whether a copy of the table's rows follows after the later shape.
  let isRefreshed: Bool

  /// The columns of a shape that a later shape still has.
  struct Part {
    /// The schema with these columns under their later names.
    let schema: TableSchema
    /// The indexes of these columns in the trail's row images.
    let positions: [Int]

    init(_ schema: TableSchema, _ positions: [Int]) { (self.schema, self.positions) = (schema, positions) }
    /// Creates the part that has all columns of a shape.
    init(_ schema: TableSchema) { self.init(schema, Array(schema.columns.indices)) }
  }

  /// Reads the trail from a checkpoint through transaction `number`, and looks for the shape after the record at
  /// `start`.
  ///
  /// - Returns: Nil if there is no such shape yet.
  static func find(
    of table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [TableRule], to target: Engine, fits: (TableSchema) -> Bool
  ) throws -> LaterShape? {
    // A rule that cannot be kept waits for the operator: rows must not be applied without it.
    if table.treatment?.refusal != nil { return nil }
    let reader = try ApplyReader.open(folder: folder, at: checkpoint, rules: rules, to: target, isForShapes: true)
    var name = table.sourceKey
    var origins: [Int?] = Array(table.columns.indices)
    var isRefreshed = false
    while let record = try reader.next() {
      if case .begin(let header) = record, header.number > number { return nil }
      guard case .ddl(let ddl) = record, reader.position > start, let before = reader.schema(ddl.before),
        before.sourceKey.hasSameBytes(as: name)
      else { continue }
      guard ddl.after != 0, let after = reader.schema(ddl.after) else {
        return LaterShape(schema: nil, origins: [], isRefreshed: isRefreshed)
      }
      guard before.columns.count == origins.count, after.treatment?.refusal == nil else { return nil }
      origins = Self.origins(ddl, before, after).map { $0.flatMap { origins[$0] } }
      isRefreshed = isRefreshed || ddl.isRefreshed
      name = after.sourceKey
      if fits(after) { return LaterShape(schema: after, origins: origins, isRefreshed: isRefreshed) }
    }
    return nil
  }

  /// Returns whether a copy of all rows of a table begins after a place and before the end of transaction `number`.
  ///
  /// Changes before such a copy do not matter.
  static func isCopied(
    _ table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [TableRule], to target: Engine
  ) throws -> Bool {
    let reader = try ApplyReader.open(folder: folder, at: checkpoint, rules: rules, to: target, isForShapes: true)
    while let record = try reader.next() {
      switch record {
      case .begin(let header) where header.number > number: return false
      case .refresh(let refresh) where reader.position > start:
        guard case .start(_, let method, _) = refresh.event, method != .rows,
          reader.schema(refresh.schemaID)?.sourceKey.nameKey == table.sourceKey.nameKey
        else { continue }
        return true
      default: continue
      }
    }
    return false
  }

  /// The longest wait for a copy that a partitioned table may need, in ms: capture reads the catalog every two seconds.
  private static let copyMillisecondsMax: Int64 = 5000

  /// Returns whether a row of a partitioned table may be missing or differ, because a copy follows in the trail.
  ///
  /// The stream does not report that a partition was attached, dropped or truncated. Capture then copies the table,
  /// some seconds later at most.
  static func excuses(
    _ table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [TableRule], to target: Engine
  ) throws -> Bool {
    guard table.flags.contains(.partitioned) else { return false }
    let limit = Clock.monotonicMilliseconds + copyMillisecondsMax
    while true {
      if try isCopied(table, behind: start, in: folder, from: checkpoint, through: number, rules: rules, to: target) {
        return true
      }
      guard Clock.monotonicMilliseconds < limit else { return false }
      Pulse.beat()
      Clock.sleep(milliseconds: 250)
    }
  }

  /// Returns the notice about a table that continues with a copy. The table never had the rows that the source inserted
  /// and deleted since the table was suspended.
  static func unseen(_ table: TableSchema, since position: Position) -> String {
    "table \(table.fullName) continues with a copy: it lacks rows that the source inserted and deleted since \(position)"
  }

  static func origins(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema) -> [Int?] {
    TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
  }

  /// Returns the columns of a table in the first shape that the later shape still has; nil if they do not include the
  /// whole key.
  func part(of table: TableSchema) -> Part? {
    guard let later = schema else { return nil }
    var names: [Int: String] = [:]
    for (index, origin) in origins.enumerated() { if let origin { names[origin] = later.columns[index].name } }
    let kept = names.keys.sorted()
    guard table.key.allSatisfy(kept.contains) else { return nil }
    var part = table.keeping(kept)
    for (index, column) in kept.enumerated() { part.columns[index].name = names[column] ?? "" }
    (part.namespace, part.name) = (later.namespace, later.name)
    (part.createText, part.original) = (later.createText, later.original)
    (part.objects, part.foreignKeys) = ([], [])
    return Part(part, kept)
  }
}
