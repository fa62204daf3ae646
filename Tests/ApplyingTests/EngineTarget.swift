import Changes
import Conflicts
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers

@testable import Applying

/// The targets on which the same tests of apply's decisions run.
enum TargetEngine: String, CaseIterable, Sendable {
  /// ``MemoryDatabase``: a small model, which the engines must agree with.
  case memory
  case sqlite
  case postgres

  static let databases: [TargetEngine] = PostgresServer.isAvailable ? [.sqlite, .postgres] : [.sqlite]
  static let all = [.memory] + databases
}

/// A handmade trail and a target of any engine, which reads and writes whole numbers and texts in the same way.
final class EngineTarget {
  /// A write of an application to one row.
  enum Write {
    case insert([Value])
    case update(_ key: Value, _ column: String, Value)
    case delete(_ key: Value)
  }

  let engine: TargetEngine
  let made: Handmade
  let memory: MemoryDatabase?
  var options = ApplyOptions()
  let progress = ApplyProgress()
  private let server: PostgresTarget?

  init(_ engine: TargetEngine, name: TrailName = Handmade.name) throws {
    self.engine = engine
    server = engine == .postgres ? try PostgresTarget(trail: name) : nil
    memory = engine == .memory ? try MemoryDatabase() : nil
    made = try server?.trail ?? Handmade(TempFolder(), name: name)
  }

  // MARK: Apply

  /// Applies everything, as a new run does.
  func replay() throws { try replay(made, options) }

  func replay(_ trail: Handmade, _ options: ApplyOptions) throws {
    switch engine {
    case .memory:
      guard let memory else { return }
      try MemoryApply(memory, trail: trail.trail, trail.name, options, progress: progress).drain()
    case .sqlite:
      try SQLiteApply(path: made.target, trail: trail.trail, name: trail.name, options: options, progress: progress)
        .drain()
    case .postgres:
      guard let server else { return }
      try PostgresApply(
        uri: server.url, trail: trail.trail, name: trail.name, options: options, progress: progress
      ).drain()
    }
  }

  /// The table `t`, made and copied in the trail, and applied.
  func begin(_ sql: String, _ rows: [[Value]]) throws {
    try made.shape(sql)
    try made.transaction {
      try made.create("t")
      try made.copy("t", rows)
    }
    try replay()
  }

  // MARK: Applications

  /// An operator makes a table, by a statement that SQLite knows too.
  func make(_ sql: String) throws {
    guard let memory else { return try run(sql) }
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    for table in try database.userTables() {
      memory.tables[table.schema.name.sqliteKey] = .init(schema: table.schema, state: .init(isCreated: false))
    }
  }

  /// Executes SQL, which the model does not know.
  func run(_ sql: String) throws { if let server { try server.psql(sql) } else { try made.run(sql) } }

  /// The first value of a query's answer, by SQL, which the model does not know.
  func answer(_ sql: String) throws -> String {
    try server?.psql(sql) ?? made.rows(sql).first?.first?.postgresInput ?? ""
  }

  /// Has a database forget the trail, as when its apply is taken out of the conf.
  func forgetTrail() throws -> Bool {
    if let server { return try PostgresApplyState(PostgresConnection(server.url), of: made.name).forgetTrail() }
    return try SQLiteApplyState(Database(path: made.target, mode: .readWrite), of: made.name).forgetTrail()
  }

  /// Has a database wait for the next copy of a table, as `cairn copy --tables` does for an apply that has failed.
  func expectRefresh(of table: String) throws {
    func isMeant(_ names: [String]) -> Bool { names.contains(table) }
    if let server {
      try PostgresApplyState(PostgresConnection(server.url), of: made.name).expectRefresh(where: isMeant)
    } else {
      try SQLiteApplyState(Database(path: made.target, mode: .readWrite), of: made.name).expectRefresh(where: isMeant)
    }
  }

  /// Commits writes of an application to a table.
  func write(_ writes: Write..., to table: String = "t") throws { try write(writes, to: table) }

  func write(_ writes: [Write], to table: String = "t") throws {
    guard let memory else { return try run(writes.map { $0.sql(table) }.joined(separator: ";")) }
    for write in writes { try memory.carryOut(write, table.sqliteKey) }
    guard memory.orphans.isEmpty else { throw TestFailure("foreign key: \(memory.orphans)") }
  }

  /// The rows of a table, in the order of their first column: `1|7|0 2|7|0`.
  ///
  /// - Parameter columns: How many columns of each row.
  func rows(_ table: String = "t", columns: Int = .max) throws -> String {
    try shown(table).map { $0.prefix(columns).joined(separator: "|") }.joined(separator: " ")
  }

  /// The rows of a table of whole numbers, by their keys.
  func numbers(_ table: String = "t") throws -> [Value: [Value]] {
    let rows = try shown(table).map { row in row.map { Int64($0).map { .integer($0) } ?? Value.null } }
    return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0) })
  }

  private func shown(_ table: String) throws -> [[String]] {
    let rows: [[Value]]
    switch engine {
    case .memory:
      rows = (memory?.tables[table.sqliteKey]?.rows.values).map(Array.init) ?? []
    case .sqlite: rows = try made.rows("SELECT * FROM \(table)")
    case .postgres:
      let lines = try server?.psql("SELECT * FROM \(table) ORDER BY 1") ?? ""
      return lines.split(separator: "\n").map { line in
        line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      }
    }
    return rows.map { $0.map { $0.postgresInput ?? "" } }.sorted { (Int($0[0]) ?? 0) < (Int($1[0]) ?? 0) }
  }

  /// The conflict log, the first entry first.
  func log() throws -> [ConflictRecord] {
    let log: ConflictLog
    switch engine {
    case .memory: log = ConflictLog(try memory?.books ?? Database(path: ":memory:"))
    case .sqlite: log = ConflictLog(try Database(path: made.target))
    case .postgres: log = ConflictLog(try PostgresConnection(server?.url ?? ""))
    }
    return try log.list(before: nil, limit: 1000).reversed()
  }
}

extension ConflictRow? {
  /// The value of the column `id`, in the same form in each engine.
  var id: String { self?["id"]?.postgresInput ?? "" }
}

extension EngineTarget.Write {
  fileprivate func sql(_ table: String) -> String {
    func literal(_ value: Value) -> String {
      if case .text = value { return "'\(value.string)'" }
      return value.postgresInput ?? "NULL"
    }
    return switch self {
    case .insert(let row): "INSERT INTO \(table) VALUES (\(row.map(literal).joined(separator: ", ")))"
    case .update(let key, let column, let value):
      "UPDATE \(table) SET \(column) = \(literal(value)) WHERE id = \(literal(key))"
    case .delete(let key): "DELETE FROM \(table) WHERE id = \(literal(key))"
    }
  }
}

extension MemoryDatabase {
  fileprivate func carryOut(_ write: EngineTarget.Write, _ name: NameKey) throws {
    guard let table = tables[name] else { throw TestFailure("no table \(name.text)") }
    switch write {
    case .insert(let row):
      let key = table.key(of: row)
      guard table.rows[key] == nil else { throw Taken() }
      try put(row, key, in: name)
    case .update(let key, let column, let value):
      guard var row = table.rows[[key]], let index = table.column(column) else { return }
      row[index] = value
      try put(row, [key], in: name)
    case .delete(let key): try put(nil, [key], in: name)
    }
  }
}
