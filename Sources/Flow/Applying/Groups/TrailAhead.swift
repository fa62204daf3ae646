import Changes
import Mapping
import Trails

/// The records of a trail after the present one, as far as they decide how that record is applied.
struct TrailAhead {
  let reader: ApplyReader
  let cursor: TrailCursor
  /// The folder of the trail.
  let folder: String
  let rules: [TableRule]
  let engine: Engine

  /// Returns the next schema of a table, later in the trail, that the target can have.
  func nextFittingSchema(of schema: TableSchema, _ fits: (TableSchema) -> Bool) throws -> NextFittingSchema? {
    try NextFittingSchema.find(
      of: schema, behind: reader.position, in: folder, from: cursor.start, through: cursor.limit, rules: rules,
      to: engine, fits: fits)
  }

  /// Returns whether a refresh of the whole table comes after the present record.
  func isCopied(_ schema: TableSchema) throws -> Bool {
    try refreshes().copies(schema, behind: reader.position)
  }

  /// Returns whether a refresh after the present record corrects a missing or different row of the table.
  ///
  /// - Throws: ``RefreshDue`` if the trail may get such a refresh soon.
  func excuses(_ schema: TableSchema) throws -> Bool {
    guard schema.flags.contains(.partitioned) else { return false }
    if try isCopied(schema) { return true }
    guard cursor.present > cursor.waitedThrough else { return false }
    throw RefreshDue(
      number: cursor.present, table: schema, position: reader.position, start: cursor.start, last: cursor.limit)
  }

  private func refreshes() throws -> RefreshesAhead {
    if let known = cursor.refreshes { return known }
    let made = try RefreshesAhead(
      in: folder, from: cursor.start, through: cursor.limit, rules: rules, to: engine)
    cursor.refreshes = made
    return made
  }
}
