import Changes
import Mapping
import SQLiteKit

// The errors for rows that differ from the trail.
extension SQLiteReplay {
  func unexpected(_ table: SQLiteApplyTable, _ what: String) -> CairnError {
    let key = describeKey(table.schema, before)
    let context = rowContext(table.schema.name, key: key)
    guard let found = try? table.probe(before) else {
      return CairnError(
        .rowMissing,
        "table \(table.schema.name), row \(key): the source \(what) it, but the target \(database.path) does not have it (trail \(name) at \(reader.position))",
        hint: DifferenceHint.text(source: table.source.engine), context: context)
    }
    let index = zip(before, found).enumerated().first { pair in
      !pair.element.0.isUnchanged && pair.element.0.value != pair.element.1
    }?.offset
    let column = index.map { table.schema.columns[$0].name } ?? "?"
    return CairnError(
      .rowDiffers,
      "table \(table.schema.name), row \(key): the source \(what) it, but its column \(column) in the target \(database.path) differs from the source (trail \(name) at \(reader.position))",
      hint: DifferenceHint.text(source: table.source.engine), context: context)
  }

  func refused(_ table: SQLiteApplyTable, _ error: SQLiteError) -> CairnError {
    let row = after.isEmpty ? before : after.enumerated().map { $1.isUnchanged && $0 < before.count ? before[$0] : $1 }
    let key = describeKey(table.schema, row)
    let context = rowContext(table.schema.name, key: key)
    let place = "(trail \(name) at \(reader.position))"
    if error.isUniqueness {
      return CairnError(
        .rowExists,
        "table \(table.schema.name), row \(key): the target \(database.path) has a row with the same \(error.message.hasPrefix("UNIQUE constraint failed: ") ? String(error.message.dropFirst(26)) : "key") already \(place)",
        hint: table.isShared ? DifferenceHint.shared : DifferenceHint.text(source: table.source.engine),
        context: context)
    }
    guard error.isConstraint else {
      return CairnError(
        .valueMisfit,
        "table \(table.schema.name), row \(key): the target \(database.path) does not take a value: \(error.message) \(place)",
        hint: "change the indexes, CHECKs and generated columns of the target so that they take the source's values",
        context: context)
    }
    return CairnError(
      .constraintFailed,
      "table \(table.schema.name), row \(key): the target \(database.path) refuses it: \(error.message) \(place)",
      hint: "make the target's constraints equal to the source's, then run again", context: context)
  }

  func describeKey(_ schema: TableSchema, _ row: [ColumnView]) -> String {
    let shown = schema.key.isEmpty ? Array(schema.columns.indices.prefix(3)) : schema.key
    let parts = shown.filter { $0 < row.count }.map { index in
      "\(schema.columns[index].name)=\(row[index].value?.shown ?? "?")"
    }
    return parts.joined(separator: ", ") + (schema.key.isEmpty ? ", …" : "")
  }
}
