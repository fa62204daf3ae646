extension TableSchema {
  /// The most memory that the table definitions in one segment of a trail may take: 256 MiB.
  package static let memoryMax = 256 << 20

  package static let refusalOfMemory =
    "the definitions of tables in this segment take more than \(memoryMax >> 20) MiB of memory"

  /// The memory that the definition takes in a reader, in bytes (`docs/trail-format.md`, Records, schema).
  package var memoryBytes: Int {
    var bytes = frameBytes + createText.memoryBytes
    for column in columns { bytes += column.memoryBytes }
    for unique in uniques { bytes += Self.memoryBytes(ofUnique: unique) }
    for key in foreignKeys { bytes += key.memoryBytes }
    for object in objects { bytes += object.memoryBytes }
    return bytes + (original?.memoryBytes ?? 0)
  }

  var frameBytes: Int { 1024 + namespace.memoryBytes + name.memoryBytes }

  static func memoryBytes(ofUnique columns: [Int]) -> Int { 128 + 16 * columns.count }
}

extension TableSchema.Column {
  var memoryBytes: Int {
    128 + name.memoryBytes + declaredType.memoryBytes + collation.memoryBytes + (defaultText?.memoryBytes ?? 0)
      + baseType.memoryBytes
  }
}

extension TableSchema.ForeignKey {
  var memoryBytes: Int {
    var bytes = 128 + 16 * (columns.count + references.count)
    for text in [namespace, table, onUpdate, onDelete] + references { bytes += text.memoryBytes }
    return bytes
  }
}

extension TableSchema.Object {
  var memoryBytes: Int { 128 + name.memoryBytes + text.memoryBytes }
}

extension String {
  // Swift stores a text of up to 15 bytes in place, without memory of its own.
  var memoryBytes: Int { utf8.count > 15 ? utf8.count + 48 : 0 }
}
