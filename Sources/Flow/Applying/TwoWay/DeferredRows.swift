import Changes
import Versions

/// The rows of the present transaction that are resolved at its end, in the order of the trail. All changes of one row
/// are combined.
///
/// Above a memory limit, the rows move to a temporary file.
///
///     let rows = DeferredRows<SQLiteApplyTable>(bytesMax: 16 << 20)
///     try rows.fold(name, table, schema, step)
///     try rows.last(of: name) { $0.isSameRow(step, schema) }
final class DeferredRows<Table: AnyObject> {
  struct Row {
    let name: RowName
    let table: Table
    var fold: VersionFold
  }

  private let bytesMax: Int
  private var byteCount = 0
  private var rows: [Row] = []
  private var indexes: [RowName: Int] = [:]
  private var namesakes: [Int?] = []
  private var file: SpillFile?
  private let writer = SpillWriter()
  /// The tables of the rows in the file. For each row, the file has the index of its table in this array.
  private var tables: [Table] = []
  private var schemas: [TableSchema] = []

  init(bytesMax: Int) { self.bytesMax = bytesMax }

  var count: Int { file?.count ?? rows.count }
  var isEmpty: Bool { count == 0 }

  func holds(_ name: RowName) throws -> Bool { try file?.holds(hash: name.hash) ?? (indexes[name] != nil) }

  subscript(index: Int) -> Row {
    get throws {
      guard let file else { return rows[index] }
      return try file.read(index, read)
    }
  }

  /// Returns the last row with this row name that passes the test `isIt`; nil if there is none.
  func last(of name: RowName, where isIt: (VersionFold) throws -> Bool) throws -> (index: Int, row: Row)? {
    if let file {
      return try file.last(hash: name.hash) { number, reader in
        let row = try read(&reader)
        return try isIt(row.fold) ? (number, row) : nil
      }
    }
    var index = indexes[name]
    while let at = index {
      if try isIt(rows[at].fold) { return (at, rows[at]) }
      index = namesakes[at]
    }
    return nil
  }

  func fold(_ name: RowName, _ table: Table, _ schema: TableSchema, _ step: VersionFold.Step) throws {
    guard let found = try last(of: name, where: { $0.isSameRow(step, schema) }) else {
      return try append(Row(name: name, table: table, fold: VersionFold(step, schema)))
    }
    var row = found.row
    byteCount -= row.fold.byteCount
    row.fold.add(step, schema)
    byteCount += row.fold.byteCount
    guard let file else {
      rows[found.index] = row
      return try spillIfLarge()
    }
    try write(row) { try file.replace(found.index, by: $0) }
  }

  func append(_ row: Row) throws {
    if let file { return try write(row) { try file.append(hash: row.name.hash, $0) } }
    namesakes.append(indexes.updateValue(rows.count, forKey: row.name))
    rows.append(row)
    byteCount += row.fold.byteCount + 200
    try spillIfLarge()
  }

  func removeAll() {
    rows.removeAll(keepingCapacity: file == nil)
    indexes.removeAll(keepingCapacity: file == nil)
    namesakes.removeAll(keepingCapacity: file == nil)
    (tables, schemas, byteCount, file) = ([], [], 0, nil)
  }

  // MARK: The file

  private func spillIfLarge() throws {
    guard byteCount > bytesMax, file == nil else { return }
    let file = try SpillFile()
    for row in rows { try write(row) { try file.append(hash: row.name.hash, $0) } }
    self.file = file
    (rows, indexes, namesakes) = ([], [:], [])
  }

  private func write(_ row: Row, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
    let table = tables.lastIndex { $0 === row.table } ?? tables.count
    if table == tables.count { tables.append(row.table) }
    let schema = schemas.lastIndex(of: row.fold.schema) ?? schemas.count
    if schema == schemas.count { schemas.append(row.fold.schema) }
    try writer.write(
      { bytes in
        bytes.appendFixed(row.name.hash)
        bytes.appendVarint(UInt64(table))
        bytes.appendVarint(UInt64(schema))
        row.fold.append(to: &bytes)
      }, body)
  }

  private func read(_ reader: inout ByteReader) throws -> Row {
    let name = RowName(hash: try reader.readFixed())
    let (table, schema) = (Int(try reader.readVarint()), Int(try reader.readVarint()))
    guard table < tables.count, schema < schemas.count else {
      throw DecodingError(offset: 0, problem: "a row of an unknown table")
    }
    return Row(name: name, table: tables[table], fold: try VersionFold(from: &reader, schemas[schema]))
  }
}
