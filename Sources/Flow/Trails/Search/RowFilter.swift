import Changes

/// The changes that a search wants: of one table, of one row, of one column.
///
///     RowFilter(table: "item", key: "7", column: "price")
package struct RowFilter: Sendable {
  /// The name of the table as ``TableSchema/plainName`` gives it; nil for all tables.
  package let table: String?
  /// The keys that the operator may mean; empty for all rows.
  package let keys: [RowKey]
  /// The name of the column in lower case; nil for all changes.
  package let column: String?
  /// The key of several values, and their number.
  private let parts: (key: RowKey, count: Int)

  /// - Parameter table: The name of a table, with its schema if it is not `public`.
  /// - Parameter key: The key as text. The values of a key of several columns are separated by commas.
  package init(table: String? = nil, key: String? = nil, column: String? = nil) {
    let name = table?.asciiLowercased
    self.table = name.map { $0.hasPrefix("public.") ? String($0.dropFirst("public.".count)) : $0 }
    let values = RowKey.parts(key ?? "")
    parts = (RowKey(values), values.count)
    keys = key.map { RowKey.parse($0) } ?? []
    self.column = column?.asciiLowercased
  }

  /// Wants one row of a table.
  ///
  /// - Parameter table: The name of the table as ``TableSchema/plainName`` gives it.
  /// - Parameter count: The number of the key's columns.
  init(table: String, key: RowKey, count: Int) {
    (self.table, keys, column, parts) = (table, [key], nil, (key, count))
  }

  /// The hashes of the wanted changes: a stretch without any of them has none. Empty if every stretch may have some.
  var hashes: [UInt64] {
    guard let table else { return [] }
    let hash = RowKey.table(table)
    return keys.isEmpty ? [RowKey.presence(hash)] : keys.map { $0.hash(of: hash) } + [RowKey.events(hash)]
  }

  /// Returns the key that the operator means in a table with this schema; nil if the number of values differs.
  package func key(in schema: TableSchema) -> RowKey? {
    let count = (schema.key.isEmpty ? Array(schema.columns.indices) : schema.key).count
    return key(ofColumns: count)
  }

  private func key(ofColumns count: Int) -> RowKey? {
    count == 1 ? keys.first : parts.count == count ? parts.key : nil
  }

  /// Returns whether a record is wanted.
  ///
  /// - Parameter columns: The key columns of the schema.
  /// - Parameter key: Memory for reading keys.
  func wants(_ record: Record, _ schema: TableSchema?, _ columns: KeyColumns?, _ key: inout ByteWriter) throws -> Bool {
    guard table != nil || column != nil else { return true }
    guard let schema, table == nil || schema.plainName == table else { return false }
    switch record {
    case .change(let change):
      if change.operation == .truncate { return true }
      return try hasColumn(change, schema) && hasKey(change.before, change.after, columns, &key)
    case .refreshRow(_, let image): return try hasKey(nil, image, columns, &key)
    case .refresh, .ddl: return true
    default: return false
    }
  }

  // A change without a given key is wanted by every key.
  private func hasKey(
    _ before: ImageView?, _ after: ImageView?, _ columns: KeyColumns?, _ key: inout ByteWriter
  ) throws -> Bool {
    guard !keys.isEmpty else { return true }
    guard let columns, let wanted = self.key(ofColumns: columns.count) else { return false }
    for (image, other) in [(before, after), (after, before)] {
      guard let image else { continue }
      guard try columns.read(image, else: other, into: &key) else { return true }
      if key.bytes.elementsEqual(wanted.bytes) { return true }
    }
    return false
  }

  /// Returns whether a change gives the column another value. Inserts and deletes concern all columns.
  private func hasColumn(_ change: ChangeView, _ schema: TableSchema) throws -> Bool {
    guard let column else { return true }
    guard let place = schema.columns.firstIndex(where: { $0.name.asciiLowercased == column }) else { return false }
    guard change.operation == .update, let after = change.after else { return true }
    var (new, old) = (ByteReader(after.bytes), ByteReader(change.before?.bytes ?? .init(start: nil, count: 0)))
    for index in 0...place {
      guard !new.isAtEnd else { return true }
      let value = try new.readColumn()
      let before = old.isAtEnd ? nil : try old.readColumn().value
      guard index == place else { continue }
      return !value.isUnchanged && (before == nil || value.value != before)
    }
    return true
  }
}
