import Changes
import Mapping
import PostgresKit

/// Converts the rows that a statement in PostgreSQL returned into images, as the trail of an SQLite source has them.
final class ReturnedRows {
  private enum Form {
    case stored(SQLiteValue)
    /// A number, which becomes an integer if it is whole, as with SQLite's affinity NUMERIC.
    case number
    case single
  }

  private let forms: [Form]
  private var row = ByteWriter(capacity: 256)
  private var scratch = ByteWriter(capacity: 256)

  /// Prepares the conversion. Nil if values of a column cannot be converted back to the source's form exactly.
  init?(_ table: PostgresApplyTable) {
    var forms: [Form] = []
    for (column, target) in zip(table.source.columns, table.columns) {
      switch (target.type.kind, column.affinity) {
      case (.int2, "INTEGER"), (.int4, "INTEGER"), (.int8, "INTEGER"), (.int2, "NUMERIC"), (.int4, "NUMERIC"),
        (.int8, "NUMERIC"), (.bool, "INTEGER"), (.bool, "NUMERIC"), (.float8, "REAL"), (.bytea, "BLOB"):
        forms.append(.stored(SQLiteValue(target.type)))
      case (.float4, "REAL"): forms.append(.single)
      case (.numeric, "NUMERIC"): forms.append(.number)
      case (.text, "TEXT"), (.varchar, "TEXT"), (.uuid, "TEXT"), (.json, "TEXT"), (.date, "TEXT"), (.date, "NUMERIC"),
        (.time, "TEXT"), (.time, "NUMERIC"), (.timestamp, "TEXT"), (.timestamp, "NUMERIC"), (.timestamptz, "TEXT"),
        (.timestamptz, "NUMERIC"), (.uuid, "NUMERIC"), (.json, "NUMERIC"):
        forms.append(.stored(SQLiteValue(.text)))
      default: return nil
      }
    }
    self.forms = forms
  }

  /// The last row that was read, encoded as in a trail.
  var image: UnsafeRawBufferPointer { row.bytes }

  func read(_ fields: [UnsafeRawBufferPointer?]) {
    row.removeAll()
    scratch.removeAll()
    scratch.reserve(fields.reduce(0) { $0 + ($1?.count ?? 0) })
    for (field, form) in zip(fields, forms) {
      if let field { Self.append(field, form, to: &row, &scratch) } else { row.appendNull() }
    }
  }

  private static func append(
    _ text: UnsafeRawBufferPointer, _ form: Form, to row: inout ByteWriter, _ scratch: inout ByteWriter
  ) {
    switch form {
    case .stored(let storage):
      guard let value = try? storage.convert(.exact(text), scratch: &scratch) else { return row.appendExact(text) }
      switch value {
      case .integer(let number): row.appendInteger(number)
      case .real(let number): row.appendReal(number)
      case .text(let bytes): row.appendText(bytes)
      case .blob(let bytes): row.appendBlob(bytes)
      case .null, .unchanged, .exact: row.appendExact(text)
      }
    case .number:
      guard let number = Double(String(decoding: text, as: UTF8.self)) else { return row.appendExact(text) }
      if let integer = Int64(String(decoding: text, as: UTF8.self)) ?? Int64(exactly: number) {
        row.appendInteger(integer)
      } else {
        row.appendReal(number)
      }
    case .single:
      guard let number = Float(String(decoding: text, as: UTF8.self)) else { return row.appendExact(text) }
      row.appendReal(Double(number))
    }
  }
}
