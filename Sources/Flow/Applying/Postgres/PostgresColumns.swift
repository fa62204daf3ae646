import Changes
import Mapping

/// The columns of a PostgreSQL table that apply writes, in the order of the trail's rows.
struct PostgresColumns {
  let columns: [PostgresTargetTable.Column]
  let converters: [PostgresText]
  /// The quoted names.
  let names: [String]
  let alwaysIdentity: ColumnMask
  /// The columns whose type apply has changed to text at the target, because a value of the source did not fit.
  let widened: ColumnMask

  /// Finds the columns of the target and how values are converted for them.
  ///
  /// - Parameter isCreated: Whether Cairn created the target's table.
  /// - Parameter keepsSpelling: Whether unique values keep their spelling, as in a two-way table.
  /// - Throws: `schema-stopped` if the target lacks a column.
  init(
    _ source: TableSchema, _ mapped: TableSchema, _ target: PostgresTargetTable, isCreated: Bool, keepsSpelling: Bool
  ) throws(CairnError) {
    let columns = mapped.columns.compactMap { target.column($0.name) }
    guard columns.count == source.columns.count, columns.count == mapped.columns.count else {
      let missing = mapped.columns.first { target.column($0.name) == nil }?.name ?? ""
      throw CairnError(
        .schemaStopped, "table \(mapped.fullName) of the target has no column \(missing)",
        hint: "add the column at the target, and apply continues by itself", context: ["table": source.fullName])
    }
    let unique = Set(source.key + source.uniques.joined())
    converters = source.columns.indices.map {
      PostgresText(
        from: source.columns[$0], of: source.engine, to: columns[$0].type, isUnique: unique.contains($0),
        keepsSpelling: keepsSpelling && unique.contains($0))
    }
    names = columns.map(\.name.quotedName)
    alwaysIdentity = ColumnMask(columns.indices.filter { columns[$0].identity == .always })
    widened = ColumnMask(
      columns.indices.filter {
        isCreated && columns[$0].type.kind == .text && mapped.columns[$0].declaredType != columns[$0].type.name
      })
    self.columns = columns
  }
}
