import Changes
import Mapping
import SQLiteKit

/// Converts the trail's rows into the target's form.
struct SQLiteRowDecoder {
  let errors: SQLiteRowErrors
  /// Whether the target's encoding is UTF-16.
  let isUTF16: Bool

  private var trail: ApplyReader { errors.reader }

  func decode(
    _ image: ImageView, into columns: inout [ColumnView], _ made: inout ByteWriter, _ table: SQLiteApplyTable
  ) throws {
    try read(image, into: &columns)
    if isUTF16 { try checkUTF8(columns, table) }
    guard columns.count == table.imageSchema.columns.count else {
      throw CairnError(
        .trailDamaged,
        "an image at \(trail.position) of trail \(errors.name) has \(columns.count) columns, not \(table.imageSchema.columns.count)",
        hint: "run 'cairn trail verify \(errors.name)'")
    }
    if let converters = table.converters { try convert(&columns, converters, &made, image.bytes.count, table) }
    if let kept = table.kept { columns = kept.map { columns[$0] } }
  }

  func read(_ image: ImageView, into columns: inout [ColumnView]) throws {
    columns.removeAll(keepingCapacity: true)
    var reader = ByteReader(image.bytes)
    while !reader.isAtEnd { columns.append(try reader.readColumn()) }
  }

  private func convert(
    _ columns: inout [ColumnView], _ converters: [SQLiteValue], _ made: inout ByteWriter, _ bytes: Int,
    _ table: SQLiteApplyTable
  ) throws {
    made.removeAll()
    made.shrink(above: 1 << 20)
    made.reserve(bytes)
    for (index, converter) in converters.enumerated() {
      do throws(Misfit) { columns[index] = try converter.convert(columns[index], scratch: &made) } catch {
        let shown = columns[index].value?.shown ?? "?"
        throw CairnError(
          .valueMisfit,
          "table \(table.schema.name), column \(table.imageSchema.columns[index].name): \(shown) cannot be kept: \(error.reason) (trail \(errors.name) at \(trail.position))",
          hint: "run 'cairn trail verify \(errors.name)'",
          context: errors.context(table, errors.describeKey(table.imageSchema, columns)))
      }
    }
  }

  private func checkUTF8(_ columns: [ColumnView], _ table: SQLiteApplyTable) throws {
    for (index, column) in columns.enumerated() {
      guard case .text(let bytes) = column, String(validating: bytes, as: UTF8.self) == nil else { continue }
      throw CairnError(
        .constraintFailed,
        "table \(table.schema.name), row \(errors.describeKey(table.imageSchema, columns)): column \(table.imageSchema.columns[index].name) holds text that is not valid UTF-8, which the UTF-16 database \(errors.target) cannot store (trail \(errors.name) at \(trail.position))",
        hint: "replicate into a UTF-8 database, or correct the text at the source and copy again",
        context: errors.context(table, errors.describeKey(table.imageSchema, columns)))
    }
  }
}
