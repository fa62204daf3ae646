import Changes
import Conflicts
import Mapping
import Versions

/// Converts rows of any trail into the columns of a PostgreSQL table. Values are texts that PostgreSQL accepts as
/// input.
struct PostgresForm: RowForm {
  let table: PostgresApplyTable
  let names: NamePolicy

  var tableName: String { table.source.fullName }

  func version(_ stored: StoredVersion) throws -> RowVersion {
    let columns = try columns(of: stored.schema)
    return try RowVersion(stored, lacks: Set(columns.indices.filter { columns[$0] == nil })) { row in
      try columns.enumerated().map { place, column in
        guard let (index, text) = column, let value = row[index] else { return nil }
        return try convert(value, text, place)
      }
    }
  }

  func knownKey(_ stored: StoredVersion) throws -> [Value]? {
    let columns = try columns(of: stored.schema)
    guard FormColumns.areKey(table.key.compactMap { columns[$0]?.0 }, of: stored.schema) else { return nil }
    let key = try table.key.compactMap { place in
      try columns[place].flatMap { index, text in
        try (stored.after?[index] ?? stored.before?[index]).map { try convert($0, text, place) }
      }
    }
    return key.count == table.key.count ? key : nil
  }

  /// Returns the key of a row of a trail's table with this schema. Nil if a key value is missing, NULL, or does not fit
  /// its column.
  func key(_ row: [Value?], of schema: TableSchema) throws -> [Value]? {
    let columns = try columns(of: schema)
    var key: [Value] = []
    for place in table.key {
      guard let (index, text) = columns[place], index < row.count, let value = row[index], value != .null else {
        return nil
      }
      guard let value = try? convert(value, text, place) else { return nil }
      key.append(value)
    }
    return key
  }

  func row(_ texts: [String?]) -> [Value] {
    texts.enumerated().map { place, text in text.map { Self.value(Array($0.utf8), table.columns[place].type) } ?? .null
    }
  }

  private func columns(of schema: TableSchema) throws -> [(Int, PostgresText)?] {
    if let form = table.lookups.lastForm, form.schema == schema { return form.columns }
    let columns = try madeColumns(of: schema)
    table.lookups.lastForm = (schema, columns)
    return columns
  }

  private func madeColumns(of schema: TableSchema) throws -> [(Int, PostgresText)?] {
    let mapped = try TableMapping(schema, to: .postgres, names: names).target
    let places = FormColumns.places(table.columns.map(\.name), table.key, in: mapped, .postgres)
    return places.enumerated().map { place, index in
      index.map { index in
        let type = table.columns[place].type
        return (
          index,
          PostgresText(
            from: schema.columns[index], of: schema.engine, to: type, keepsSpelling: table.key.contains(place))
        )
      }
    }
  }

  private func convert(_ value: Value, _ text: PostgresText, _ place: Int) throws -> Value {
    if value == .null { return .null }
    var made = ByteWriter(capacity: 64)
    let misfit: Misfit? = value.withView { view in
      do throws(Misfit) { try text.append(view, to: &made) } catch { return error }
      return nil
    }
    if let misfit {
      throw CairnError(
        .valueMisfit,
        "table \(table.source.fullName): value \(value.shown) of column \(table.columns[place].name) does not fit \(table.columns[place].type.name): \(misfit.reason)",
        hint: "correct the value at the node that wrote it", context: ["table": table.source.fullName])
    }
    return Self.value(Array(made.bytes), table.columns[place].type)
  }

  static func value(_ text: [UInt8], _ type: PostgresType) -> Value {
    switch type.kind {
    case .int2, .int4, .int8, .numeric, .float4, .float8, .oid: .exact(text)
    case .bpchar: .text(text.withUnsafeBytes { Array($0.withoutPadding) })
    default: .text(text)
    }
  }
}

extension Value {
  var postgresInput: String? {
    switch self {
    case .null: nil
    case .text(let bytes), .exact(let bytes): String(decoding: bytes, as: UTF8.self)
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .blob(let bytes): "\\x" + bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
  }
}
