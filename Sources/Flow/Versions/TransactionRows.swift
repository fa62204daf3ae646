import Changes
import Conflicts

/// The row changes of one large transaction in a temporary file, indexed by row name.
final class TransactionRows {
  private let file: SpillFile
  private var schemas: [TableSchema] = []
  private var indexes: [UInt64: Int] = [:]
  private var bytes = ByteWriter(capacity: 4096)

  init() throws { file = try SpillFile() }

  /// Adds a change to the file: once for each row that it concerns, so twice if it alters the key.
  /// - Parameter names: The row names of the change. If the change alters the key, the old row comes first.
  func add(_ change: ChangeView, _ schema: TableSchema, _ names: ChangedRows) throws {
    var index = indexes[change.schemaID] ?? schemas.count
    if index == schemas.count || schemas[index] != schema {
      index = schemas.count
      schemas.append(schema)
      indexes[change.schemaID] = index
    }
    for (number, name) in names.enumerated() where !names.prefix(number).contains(name) {
      for step in try VersionFold.Step.all(change, schema, names, name) {
        bytes.removeAll()
        bytes.append(name.isReference ? 1 : 0)
        bytes.appendVarint(UInt64(index))
        step.append(to: &bytes)
        try file.append(hash: name.hash, bytes.bytes)
      }
    }
    bytes.removeAll()
    bytes.shrink(above: 1 << 20)
  }

  func forEach(_ row: RowName, _ body: (VersionFold.Step, TableSchema) -> Void) throws {
    try file.forEach(hash: row.hash) { reader in
      let isReference = try reader.readByte() == 1
      let schema = Int(clamping: try reader.readVarint())
      guard isReference == row.isReference, schema < schemas.count else { return }
      body(try VersionFold.Step(from: &reader), schemas[schema])
    }
  }
}
