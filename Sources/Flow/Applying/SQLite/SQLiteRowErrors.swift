import Changes
import Mapping
import SQLiteKit

/// The errors about rows that an SQLite target does not take, or has otherwise than the trail says.
struct SQLiteRowErrors {
  /// The target's path.
  let target: String
  let name: TrailName
  let reader: ApplyReader
  let cursor: TrailCursor

  private var place: String { "(trail \(name) at \(reader.position))" }

  func unexpected(_ table: SQLiteApplyTable, _ what: String, _ before: [ColumnView]) -> CairnError {
    let key = describeKey(table.schema, before)
    let context = context(table, key)
    guard let found = try? table.probe(before) else {
      return CairnError(
        .rowMissing,
        "table \(table.schema.name), row \(key): the source \(what) it, but the target \(target) does not have it \(place)",
        hint: DifferenceHint.text(source: table.source.engine), context: context)
    }
    let index = zip(before, found).enumerated().first { pair in
      !pair.element.0.isUnchanged && pair.element.0.value != pair.element.1
    }?.offset
    let column = index.map { table.schema.columns[$0].name } ?? "?"
    return CairnError(
      .rowDiffers,
      "table \(table.schema.name), row \(key): the source \(what) it, but its column \(column) in the target \(target) differs from the source \(place)",
      hint: DifferenceHint.text(source: table.source.engine), context: context)
  }

  func refused(
    _ table: SQLiteApplyTable, _ error: SQLiteError, _ before: [ColumnView], _ after: [ColumnView]
  ) -> CairnError {
    let row = after.isEmpty ? before : after.enumerated().map { $1.isUnchanged && $0 < before.count ? before[$0] : $1 }
    let key = describeKey(table.schema, row)
    let context = context(table, key)
    if error.isUniqueness {
      return CairnError(
        .rowExists,
        "table \(table.schema.name), row \(key): the target \(target) has a row with the same \(error.message.hasPrefix("UNIQUE constraint failed: ") ? String(error.message.dropFirst(26)) : "key") already \(place)",
        hint: table.isShared ? DifferenceHint.shared : DifferenceHint.text(source: table.source.engine),
        context: context)
    }
    guard error.isConstraint else {
      return CairnError(
        .valueMisfit,
        "table \(table.schema.name), row \(key): the target \(target) does not take a value: \(error.message) \(place)",
        hint: "change the indexes, CHECKs and generated columns of the target so that they take the source's values",
        context: context)
    }
    return CairnError(
      .constraintFailed,
      "table \(table.schema.name), row \(key): the target \(target) refuses it: \(error.message) \(place)",
      hint: "make the target's constraints equal to the source's, then run again", context: context)
  }

  /// Returns the fields of an error about the present record's row.
  func context(_ table: SQLiteApplyTable, _ key: String) -> [String: String] {
    cursor.rowContext(table.schema.name, key: key, at: reader.position)
  }

  func describeKey(_ schema: TableSchema, _ row: [ColumnView]) -> String {
    let shown = schema.key.isEmpty ? Array(schema.columns.indices.prefix(3)) : schema.key
    let parts = shown.filter { $0 < row.count }.map { index in
      "\(schema.columns[index].name)=\(row[index].value?.shown ?? "?")"
    }
    return parts.joined(separator: ", ") + (schema.key.isEmpty ? ", …" : "")
  }
}
