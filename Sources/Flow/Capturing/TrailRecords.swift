import Changes
import Trails

/// A shape of a table, with its number in the trail.
struct TableShape: Equatable {
  let schema: TableSchema
  let token: UInt64
}

/// A change of a table's shape, as the trail records it.
///
///     ShapeChange(action: .rename, before: TableShape(schema: t, token: 1), after: TableShape(schema: u, token: 2))
struct ShapeChange: Equatable {
  let action: DDL.Action
  var before: TableShape?
  var after: TableShape?
  @ByBytes var text = ""
  var isRefreshed = false
  /// The index of each new column in the old shape; nil for an added column. The array is nil if not known.
  var origins: [Int?]?
}

extension TrailWriter {
  /// Appends the record that ends a transaction.
  ///
  /// - Parameter position: The encoded position of capture in the source.
  /// - Parameter time: The present time, µs since 1970.
  func append(position: [UInt8], at time: Int64) throws {
    var writer = ByteWriter(capacity: 128)
    writer.appendCounted(position)
    writer.appendZigzag(time)
    try append(kind: RecordKind.progress, writer.bytes)
  }

  /// Appends a schema change to the open transaction.
  ///
  /// - Parameter applier: The trail whose apply made the change, `NODE.NAME`; empty if no apply made it.
  func append(_ change: ShapeChange, by applier: String) throws {
    let before = try change.before.map { try schemaID($0.schema, token: $0.token) } ?? 0
    let after = try change.after.map { try schemaID($0.schema, token: $0.token) } ?? 0
    var ddl = DDL(
      action: change.action, before: before, after: after, text: change.text, isRefreshed: change.isRefreshed,
      origins: change.origins)
    ddl.applied = applier
    var writer = ByteWriter(capacity: 64)
    writer.append(ddl)
    try append(kind: RecordKind.ddl, writer.bytes)
  }
}
