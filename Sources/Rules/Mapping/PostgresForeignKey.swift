import Changes

/// A foreign key that Cairn creates in PostgreSQL, with its name.
package struct PostgresForeignKey: Equatable, Sendable {
  @ByBytes package var name: String
  @ByBytes package var columns: [String]
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  @ByBytes package var text: String
  /// Whether the key references a primary key, without naming its columns.
  var meansPrimaryKey: Bool
  @ByBytes package var statement: String

  /// Returns the foreign keys of a table in PostgreSQL's form.
  package static func all(of mapped: TableSchema) -> [PostgresForeignKey] {
    var taken: Set<[Int]> = []
    return mapped.foreignKeys.map { key in
      let columns = key.columns.map { mapped.columns[$0].name }
      // Include the table in the name if the same columns reference two tables.
      let more = taken.insert(key.columns).inserted ? [] : [key.table]
      let name = constraintName([mapped.name] + columns + more + ["fkey"])
      let list = columns.map(\.postgresIdentifier).joined(separator: ", ")
      let references =
        key.references.isEmpty ? "" : " (\(key.references.map(\.postgresIdentifier).joined(separator: ", ")))"
      let actions =
        [("ON UPDATE", key.onUpdate), ("ON DELETE", key.onDelete)].filter { TableMapping.actions.contains($0.1) }
        .map { " \($0.0) \($0.1)" }.joined() + key.timing.clause
      let table = (key.namespace.isEmpty ? "" : key.namespace.postgresIdentifier + ".") + key.table.postgresIdentifier
      let text = "FOREIGN KEY (\(list)) REFERENCES \(table)\(references)\(actions)"
      return PostgresForeignKey(
        name: name, columns: columns, namespace: key.namespace, table: key.table, text: text,
        meansPrimaryKey: key.references.isEmpty,
        statement: "ALTER TABLE \(mapped.postgresIdentifier) ADD CONSTRAINT \(name.postgresIdentifier) \(text)")
    }
  }

  /// Returns a name of at most 63 bytes, PostgreSQL's limit. A longer name is cut and ends in a checksum.
  static func constraintName(_ parts: [String]) -> String {
    let name = parts.joined(separator: "_")
    guard name.utf8.count > NamePolicy.postgresNameBytesMax else { return name }
    var sum: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in name.utf8 { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
    var head = name
    while head.utf8.count > 46 { head.removeLast() }
    return head + "_" + sum.hex(16)
  }
}
