import Changes
import Trails
import Versions

/// Reads transactions before apply does, to find which rows and tables they touch.
///
/// Footprints have the tables' names at the source.
struct WriteSetScan {
  private let folder: String
  private var reader: TrailReader?
  private var uniques = UniqueBook()

  init(_ folder: String) { self.folder = folder }

  /// Returns the footprint of the transaction after a checkpoint.
  ///
  /// - Throws: Errors of ``TrailReader``.
  mutating func next(behind border: Checkpoint) throws -> WriteSet {
    let reader: TrailReader
    if let open = self.reader, open.commitPosition == border.position {
      reader = open
    } else {
      reader = try TrailReader.open(folder: folder, at: border)
    }
    self.reader = nil
    var writeSet = WriteSet()
    while let record = try reader.next() {
      if case .commit = record { break }
      try reader.decoding { try writeSet.add(record, reader.schema, &uniques) }
    }
    reader.pause()
    self.reader = reader
    return writeSet
  }
}

private struct UniqueBook {
  private var known: [UInt64: (schema: TableSchema, uniques: [CoarseUniqueIndex])] = [:]

  /// Returns the unique indexes of a table that may treat different values as equal.
  ///
  /// - Parameter id: The schema's id in the segment that is being read.
  mutating func uniques(_ id: UInt64, _ schema: TableSchema) -> [CoarseUniqueIndex] {
    if let known = known[id], known.schema == schema { return known.uniques }
    let uniques = CoarseUniqueIndex.all(of: schema)
    known[id] = (schema, uniques)
    return uniques
  }
}

extension WriteSet {
  fileprivate mutating func add(
    _ record: Record, _ schema: (UInt64) -> TableSchema?, _ uniques: inout UniqueBook
  ) throws {
    switch record {
    case .change(let change):
      changeCount += 1
      guard let table = schema(change.schemaID) else { return }
      try add(change, table, uniques.uniques(change.schemaID, table))
      widen()
    case .refresh(let refresh): addWhole(schema(refresh.schemaID))
    case .refreshRow(let id, _):
      changeCount += 1
      addWhole(schema(id))
    case .waitingRow(let row): addWhole(schema(row.schemaID))
    case .ddl(let ddl):
      addWhole(ddl.before == 0 ? nil : schema(ddl.before))
      addWhole(ddl.after == 0 ? nil : schema(ddl.after))
    case .reserved: isOfRows = false
    case .begin, .commit, .schema, .progress, .marker, .sequence, .statement, .statementEnd: break
    }
  }

  private mutating func addWhole(_ schema: TableSchema?) {
    isOfRows = false
    if let schema { touchAll(of: schema.footprintName) }
  }

  private mutating func add(_ change: ChangeView, _ schema: TableSchema, _ uniques: [CoarseUniqueIndex]) throws {
    let table = schema.footprintName
    tables.insert(table)
    let key = schema.flags.contains(.wholeRow) ? [] : schema.key
    guard change.operation != .truncate, !key.isEmpty else { return touchAll(of: table) }
    let (before, after) = (try change.before?.values(), try change.after?.values())
    let loose = uniques.filter { $0.isTouched(change.operation == .update ? before ?? [] : before, after) }
    for row in [Self.filled(before, from: after), Self.filled(after, from: before)].compactMap({ $0 }) {
      // A row whose key is not known, or is NULL, may be any row.
      guard Self.holds(row, key) else { return touchAll(of: table) }
      for unique in [key] + schema.uniques where Self.holds(row, unique) {
        rows.insert(Self.name(table, unique.map { (schema.columns[$0].name, row[$0]) }))
      }
      for values in loose.compactMap({ $0.values(row) }) {
        rows.insert(Self.name(table, values.map { (schema.columns[$0.column].name, $0.value) }))
      }
      for foreign in schema.foreignKeys where Self.holds(row, foreign.columns) { add(foreign, row) }
    }
  }

  private mutating func add(_ key: TableSchema.ForeignKey, _ row: [Value?]) {
    let parent = TableSchema.footprintName(key.namespace, key.table)
    tables.insert(parent)
    // The key refers to the parent's primary key. If that has one column, its name is not needed.
    guard key.references.count == key.columns.count || key.columns.count == 1 else {
      wholeTables.insert(parent)
      return
    }
    let names = key.references.count == key.columns.count ? key.references : [""]
    parents.insert(Self.name(parent, zip(names, key.columns).map { ($0, row[$1]) }))
  }

  /// Returns a row image, with missing values taken from the row's other image (before or after the change).
  private static func filled(_ row: [Value?]?, from other: [Value?]?) -> [Value?]? {
    guard let other else { return row }
    return row.map { zip($0, other).map { $0 ?? $1 } }
  }

  private static func holds(_ row: [Value?], _ columns: [Int]) -> Bool {
    columns.allSatisfy { $0 < row.count && row[$0] != nil && row[$0] != .null }
  }

  private static func name(_ table: String, _ columns: [(name: String, value: Value?)]) -> RowName {
    var naming = RowNaming(table: table)
    for column in columns.sorted(by: { $0.name.sqliteKey < $1.name.sqliteKey }) {
      (column.value ?? .null).withView { naming.add($0) }
    }
    return naming.name
  }
}

extension TableSchema {
  fileprivate static func footprintName(_ namespace: String, _ table: String) -> String {
    (namespace.isEmpty ? table : "\(namespace).\(table)").asciiLowercased
  }
  fileprivate var footprintName: String { Self.footprintName(namespace, name) }
}
