import Changes
import Mapping
import SystemKit
import Trails
import Transforming

/// The next schema in the trail that a suspended table can have at the target; or the drop of the table.
///
/// With this schema, the table continues.
struct NextFittingSchema {
  let schema: TableSchema?
  /// For each column of the later schema, its index in the schema that does not fit the target; nil for a new column.
  let origins: [Int?]
  /// Whether one of the schema changes up to this later schema is followed by a refresh of the table's rows.
  let isRefreshed: Bool

  /// The columns of an earlier schema that a later schema of the table still has.
  struct Part {
    let schema: TableSchema
    /// The indexes of these columns in the trail's row images.
    let positions: [Int]

    init(_ schema: TableSchema, _ positions: [Int]) { (self.schema, self.positions) = (schema, positions) }
    init(_ schema: TableSchema) { self.init(schema, Array(schema.columns.indices)) }
  }

  /// Searches the trail, after the record at `start`, for the next schema that `fits` accepts. Reads through
  /// transaction `number`.
  ///
  /// - Returns: Nil if the trail has no such schema yet.
  static func find(
    of table: TableSchema, behind start: Position, in folder: String, from checkpoint: Checkpoint?,
    through number: UInt64, rules: [TableRule], to target: Engine, fits: (TableSchema) -> Bool
  ) throws -> NextFittingSchema? {
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
        return NextFittingSchema(schema: nil, origins: [], isRefreshed: isRefreshed)
      }
      guard before.columns.count == origins.count, after.treatment?.refusal == nil else { return nil }
      origins = Self.origins(ddl, before, after).map { $0.flatMap { origins[$0] } }
      isRefreshed = isRefreshed || ddl.isRefreshed
      name = after.sourceKey
      if fits(after) { return NextFittingSchema(schema: after, origins: origins, isRefreshed: isRefreshed) }
    }
    return nil
  }

  /// Returns the notice that a suspended table continues with a refresh. The refresh lacks rows that the source both
  /// inserted and deleted since `position`.
  static func unseen(_ table: TableSchema, since position: Position) -> String {
    "table \(table.fullName) continues with a copy: it lacks rows that the source inserted and deleted since \(position)"
  }

  static func origins(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema) -> [Int?] {
    TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
  }

  /// Returns the columns of an earlier schema `table` that the later schema still has. Nil if a key column is missing.
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
