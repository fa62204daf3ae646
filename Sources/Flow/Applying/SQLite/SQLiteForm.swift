import Changes
import Conflicts
import Mapping
import SQLiteKit
import Versions

/// Converts rows of any trail into the columns of an SQLite table.
struct SQLiteForm: RowForm {
  let table: SQLiteApplyTable
  init(_ table: SQLiteApplyTable) { self.table = table }

  var tableName: String { table.schema.name }

  func version(_ stored: StoredVersion) throws -> RowVersion {
    let columns = try columns(of: stored.schema)
    return RowVersion(stored, lacks: Set(columns.indices.filter { columns[$0] == nil })) { row in
      columns.map { $0.flatMap { index, value in row[index].map { convert($0, value) } } }
    }
  }

  func knownKey(_ stored: StoredVersion) throws -> [Value]? {
    let columns = try columns(of: stored.schema)
    let places = table.schema.key.compactMap { columns[$0] }
    guard FormColumns.areKey(places.map(\.0), of: stored.schema) else { return nil }
    let key = places.compactMap { index, form in
      (stored.after?[index] ?? stored.before?[index]).map { convert($0, form) }
    }
    return key.count == table.schema.key.count ? key : nil
  }

  /// Returns for each column of the table: its index in `schema`, and the conversion of values from that column. An
  /// element is nil if `schema` lacks the column.
  private func columns(of schema: TableSchema) throws -> [(Int, SQLiteValue?)?] {
    if let form = table.lastForm, form.schema == schema { return form.columns }
    let columns = try madeColumns(of: schema)
    table.lastForm = (schema, columns)
    return columns
  }

  private func madeColumns(of schema: TableSchema) throws -> [(Int, SQLiteValue?)?] {
    let mapped = try TableMapping(schema, to: .sqlite).target
    return FormColumns.places(table.schema.columns.map(\.name), table.schema.key, in: mapped, .sqlite).map { index in
      index.map { ($0, schema.engine == .sqlite ? nil : SQLiteValue(from: schema.columns[$0], goesBothWays: true)) }
    }
  }

  private func convert(_ value: Value, _ form: SQLiteValue?) -> Value {
    guard let form else { return value }
    var made = ByteWriter(capacity: 64)
    return value.withView { view in (try? form.convert(view, scratch: &made))?.value } ?? value
  }
}
