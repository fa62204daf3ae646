import Changes
import Mapping
import SQLiteKit

// Conversion of the trail's rows into the target's form.
extension SQLiteReplay {
  func decode(
    _ image: ImageView, into columns: inout [ColumnView], _ made: inout ByteWriter, _ table: SQLiteApplyTable
  ) throws {
    try read(image, into: &columns)
    if isUTF16 { try checkUTF8(columns, table) }
    guard columns.count == table.imageSchema.columns.count else {
      throw CairnError(
        .trailDamaged,
        "an image at \(self.reader.position) of trail \(name) has \(columns.count) columns, not \(table.imageSchema.columns.count)",
        hint: "run 'cairn trail verify \(name)'")
    }
    if let converters = table.converters { try convert(&columns, converters, &made, image.bytes.count, table) }
    if let kept = table.kept { columns = kept.map { columns[$0] } }
  }

  func read(_ image: ImageView, into columns: inout [ColumnView]) throws {
    columns.removeAll(keepingCapacity: true)
    var reader = ByteReader(image.bytes)
    while !reader.isAtEnd { columns.append(try reader.readColumn()) }
  }

  static func image(_ columns: [ColumnView]) -> [UInt8] {
    var image = ByteWriter(capacity: 256)
    for column in columns { image.append(column.value) }
    return Array(image.bytes)
  }

  func convert(
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
          "table \(table.schema.name), column \(table.imageSchema.columns[index].name): \(shown) cannot be kept: \(error.reason) (trail \(name) at \(reader.position))",
          hint: "run 'cairn trail verify \(name)'",
          context: rowContext(table.schema.name, key: describeKey(table.imageSchema, columns)))
      }
    }
  }

  func checkUTF8(_ columns: [ColumnView], _ table: SQLiteApplyTable) throws {
    for (index, column) in columns.enumerated() {
      guard case .text(let bytes) = column, String(validating: bytes, as: UTF8.self) == nil else { continue }
      throw CairnError(
        .constraintFailed,
        "table \(table.schema.name), row \(describeKey(table.imageSchema, columns)): column \(table.imageSchema.columns[index].name) holds text that is not valid UTF-8, which the UTF-16 database \(database.path) cannot store (trail \(name) at \(reader.position))",
        hint: "replicate into a UTF-8 database, or correct the text at the source and copy again",
        context: rowContext(table.schema.name, key: describeKey(table.imageSchema, columns)))
    }
  }
}
