import Changes
import Foundation
import SQLiteKit
import TrailText
import Trails

/// A trail of one test, written record by record, and what its SQL makes of an empty database.
final class HandmadeTrail {
  let folder: String
  private let root: String
  private let writer: TrailWriter
  private var tokens: [String: UInt64] = [:]

  init(segmentBytes: Int = 16 << 20) throws {
    root = FileManager.default.temporaryDirectory.path + "/cairn-sql-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    folder = root + "/till-7.pos"
    var options = TrailOptions()
    options.segmentBytes = segmentBytes
    writer = try TrailWriter.open(
      folder: folder, name: TrailName(origin: "till-7", name: "pos"), options: options, now: { 1_772_368_200_000_123 })
  }

  deinit { try? FileManager.default.removeItem(atPath: root) }

  // MARK: Writing

  func transaction(_ body: () throws -> Void) throws {
    _ = try writer.begin(TransactionHeader(commitTime: 1_772_368_200_000_123))
    try body()
    try writer.commit()
    try writer.sync()
  }

  private func id(_ schema: TableSchema) throws -> UInt64 {
    let name = "\(schema.name) \(schema.epoch)"
    let token = tokens[name] ?? UInt64(tokens.count)
    tokens[name] = token
    return try writer.schemaID(schema, token: token)
  }

  private func append(_ kind: UInt8, _ encode: (inout ByteWriter) throws -> Void) throws {
    var record = ByteWriter()
    try encode(&record)
    try writer.append(kind: kind, record.bytes)
  }

  func change(
    _ operation: Changes.Operation, _ schema: TableSchema, _ before: [Value?]?, _ after: [Value?]?,
    isImplied: Bool = false
  ) throws {
    let id = try id(schema)
    try append(RecordKind.change) { record in
      record.append(operation.rawValue)
      record.append((before != nil ? 1 : 0) | (after != nil ? 2 : 0) | (isImplied ? 4 : 0))
      record.appendVarint(id)
      if let before { record.appendImage(before) }
      if let after { record.appendImage(after) }
    }
  }

  func insert(_ schema: TableSchema, _ row: [Value?]) throws { try change(.insert, schema, nil, row) }
  func delete(_ schema: TableSchema, _ row: [Value?]) throws { try change(.delete, schema, row, nil) }
  func update(_ schema: TableSchema, _ before: [Value?], _ after: [Value?]) throws {
    try change(.update, schema, before, after)
  }

  func refresh(_ schema: TableSchema, _ event: Refresh.Event) throws {
    let id = try id(schema)
    try append(RecordKind.refresh) { $0.append(Refresh(schemaID: id, event: event)) }
  }

  func row(_ schema: TableSchema, _ row: [Value?]) throws {
    let id = try id(schema)
    try append(RecordKind.refreshRow) { record in
      record.appendVarint(id)
      record.appendImage(row)
    }
  }

  func ddl(
    _ action: DDL.Action, _ before: TableSchema?, _ after: TableSchema?, isRefreshed: Bool = false,
    origins: [Int?]? = nil
  ) throws {
    let ddl = DDL(
      action: action, before: try before.map { try id($0) } ?? 0, after: try after.map { try id($0) } ?? 0,
      isRefreshed: isRefreshed, origins: origins)
    try append(RecordKind.ddl) { $0.append(ddl) }
  }

  func progress() throws {
    try append(RecordKind.progress) { record in
      record.appendCounted([1, 2])
      record.appendZigzag(0)
    }
  }

  // MARK: SQL

  /// All lines, and the number of values that could not be represented.
  func render(_ dialect: TrailSQL.Dialect) throws -> (lines: [String], problems: [String]) {
    let reader = try TrailReader.open(folder: folder, at: nil)
    var sql = TrailSQL(dialect)
    var lines = sql.prologue
    while let record = try reader.next() {
      lines += try sql.render(record, at: reader.position, schema: reader.schema)
    }
    return (lines, sql.problems)
  }

  /// A database in memory that was made by the SQL alone, on top of `setup`.
  func replayed(onto setup: String = "") throws -> Database {
    let (lines, problems) = try render(.sqlite)
    precondition(problems.isEmpty, "\(problems)")
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(setup)
    try database.executeScript(lines.joined(separator: "\n"))
    return database
  }
}

/// The schema as SQLite itself describes the table that `create` makes.
func schema(_ create: String, indexes: [String] = [], epoch: UInt64 = 1) throws -> TableSchema {
  let database = try Database(path: ":memory:", mode: .create)
  try database.executeScript(([create] + indexes).joined(separator: ";\n"))
  guard var schema = try database.userTables().first?.schema else { throw CairnError(.bug, "no table", hint: "") }
  schema.epoch = epoch
  return schema
}

extension Database {
  /// Rows with the storage class after each value, so that 1 and 1.0 differ.
  func typed(_ table: String, order: String = "rowid") throws -> [[Value]] {
    try query("SELECT * FROM \(table.quotedName) ORDER BY \(order)")
  }
}
