import Changes
import Reshaping
import SystemKit
import Trails

/// What becomes, further on in the trail, of a table in a shape that the target cannot have: the next shape that it can
/// have, or nothing.
///
/// A table that waits goes on when its change was taken back at the source, a name was changed, or it was dropped: then
/// the shapes between are passed by. Their rows are written as far as their columns are there later.
struct LaterShape {
  /// Nil: the table is dropped.
  let schema: TableSchema?
  /// For each column of ``schema``: which one it is of the shape that was looked from, nil where it comes later.
  let origins: [Int?]
  /// A copy of the rows is among what follows.
  let isRefreshed: Bool

  /// The columns of a shape that are there later.
  struct Part {
    /// With the names that they have then.
    let schema: TableSchema
    /// Where they stand among the images of the trail.
    let positions: [Int]

    init(_ schema: TableSchema, _ positions: [Int]) { (self.schema, self.positions) = (schema, positions) }
    /// All of them.
    init(_ schema: TableSchema) { self.init(schema, Array(schema.columns.indices)) }
  }

  /// Reads the trail from a checkpoint through transaction `number`; what stands up to `start` is not looked at. Nil when
  /// there is no such shape yet.
  static func find(
    of table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [ReshapeRule], to target: Engine, fits: (TableSchema) -> Bool
  ) throws -> LaterShape? {
    // A rule that cannot be kept waits for a person: rows must not come without it.
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

  /// Whether a copy of all of a table's rows begins between a place and the end of transaction `number`: then changes
  /// before it are moot.
  static func isCopied(
    _ table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [ReshapeRule], to target: Engine
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

  /// For how long a copy is waited for that a partitioned table may need: capture looks at the catalog every two seconds.
  private static let copyMillisecondsMax: Int64 = 5000

  /// Whether a row of a partitioned table may be missing, or differ, as its partition was attached, dropped or truncated
  /// without a word in the stream: then a copy of the table follows in the trail, at the latest some seconds later.
  static func excuses(
    _ table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [ReshapeRule], to target: Engine
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

  /// What is told of a table that keeps rows when it goes on with a copy.
  static func unseen(_ table: TableSchema, since position: Position) -> String {
    "table \(table.fullName) goes on with a copy: rows that came and went at the source since \(position) were not seen, and are not among those that it keeps"
  }

  static func origins(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema) -> [Int?] {
    TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
  }

  /// What there is of the shape that was looked from; nil when its rows could not be told apart by that.
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
