import Changes
import Conflicts
import Mapping
import TestServers
import Versions

@testable import Applying

/// A table of a database in memory, as apply has it open.
final class MemoryTable: OneWayTable {
  let database: MemoryDatabase
  /// The table in the trail, and in the form of the target.
  let source: TableSchema
  let shape: TableSchema
  let localWrites: LocalWrites
  let goesBothWays: Bool
  var takesRowsIn: Bool?
  var summed: [Int] = []

  init(_ source: TableSchema, _ database: MemoryDatabase, _ options: ApplyOptions) throws {
    (self.source, self.database) = (source, database)
    shape = try TableMapping(source, to: .sqlite).target
    goesBothWays = options.goesBothWays("", shape.name)
    localWrites = goesBothWays ? .stop : try options.localWrites.writes(of: shape, source.treatment)
  }

  var name: NameKey { shape.name.sqliteKey }
  var content: MemoryDatabase.Table { database.tables[name] ?? .init(schema: shape) }
  var stateName: String { shape.name }
  var rowKey: [Int] { shape.key }
  var columnCount: Int { shape.columns.count }
  var existing: ExistingRows { content.state.existing }
  var refreshing: Refresh.Method? { content.state.refreshing }
  var isAwaited: Bool { content.state.isAwaited }
  var isPartitioned: Bool { false }
  var isContested: Bool { goesBothWays && !content.schema.uniques.isEmpty }
  var isShared: Bool { false }

  func put(_ row: [Value]?, _ key: [Value]) throws(MemoryDatabase.Taken) { try database.put(row, key, in: name) }
}

/// Converts rows of any trail into a database in memory. It has integers and texts, in columns without types.
struct MemoryForm: RowForm {
  let table: MemoryTable

  func version(_ stored: StoredVersion) throws -> RowVersion {
    let places = try places(in: stored.schema)
    return RowVersion(stored, lacks: Set(places.indices.filter { places[$0] == nil })) { row in
      places.map { $0.flatMap { row[$0].map(Self.plain) } }
    }
  }

  var tableName: String { table.shape.name }

  func knownKey(_ stored: StoredVersion) throws -> [Value]? {
    let places = try places(in: stored.schema)
    guard FormColumns.areKey(table.shape.key.compactMap { places[$0] }, of: stored.schema) else { return nil }
    let key = table.shape.key.compactMap { column in
      places[column].flatMap { stored.after?[$0] ?? stored.before?[$0] }.map(Self.plain)
    }
    return key.count == table.shape.key.count ? key : nil
  }

  private func places(in schema: TableSchema) throws -> [Int?] {
    FormColumns.places(
      table.columnNames, table.shape.key, in: try TableMapping(schema, to: .sqlite).target, .sqlite)
  }

  static func plain(_ value: Value) -> Value {
    guard case .exact(let bytes) = value else { return value }
    return Int64(String(decoding: bytes, as: UTF8.self)).map { .integer($0) } ?? .text(bytes)
  }
}
