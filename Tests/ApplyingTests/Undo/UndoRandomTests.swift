import Changes
import Foundation
import PostgresKit
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// Undoes transactions of random histories, and compares the rows with those of a history without the transaction.
@Suite struct UndoRandomTests {
  /// A database that executes statements of constant form.
  private enum Store {
    case sqlite(Database)
    case postgres(PostgresConnection)

    static let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, name INTEGER UNIQUE, price INTEGER)"

    func execute(_ sql: String) throws {
      switch self {
      case .sqlite(let database): try database.execute(sql)
      case .postgres(let connection): try connection.execute(sql)
      }
    }

    func schemas() throws -> [TableSchema] {
      switch self {
      case .sqlite(let database): try database.userTables().map(\.schema)
      case .postgres(let connection): try connection.userTables().map(\.schema)
      }
    }

    func rows() throws -> [String] {
      let sql = "SELECT id, name, price FROM item ORDER BY id"
      switch self {
      case .sqlite(let database):
        return try database.query(sql).map { $0.map { $0.shown(max: 9) }.joined(separator: " ") }
      case .postgres(let connection):
        return try connection.query(sql).map { $0.map { $0 ?? "NULL" }.joined(separator: " ") }
      }
    }

    func value(_ number: Int?) -> Value {
      guard let number else { return .null }
      if case .sqlite = self { return .integer(Int64(number)) }
      return .exact(Array(String(number).utf8))
    }

    func run(_ plan: UndoPlan, _ schemas: [TableSchema], isForced: Bool, isDry: Bool) throws -> UndoRun.Outcome {
      switch self {
      case .sqlite(let database):
        try UndoRun(database, schemas: schemas).run(plan, isForced: isForced, isDry: isDry)
      case .postgres(let connection):
        try UndoRun(connection, schemas: schemas).run(plan, isForced: isForced, isDry: isDry)
      }
    }
  }

  /// A change of a row by its place among all rows that ever were, so that it has a meaning in any history.
  private struct Write {
    let row: Int
    let old: [Int?]?
    let new: [Int?]?
  }

  /// The rows after some transactions, by their places.
  private static func rows(of history: [[Write]], without left: Int? = nil) -> [String] {
    var rows: [Int: [Int?]] = [:]
    for (number, transaction) in history.enumerated() where number != left {
      for write in transaction {
        guard let new = write.new else {
          rows[write.row] = nil
          continue
        }
        guard let old = write.old else {
          rows[write.row] = new
          continue
        }
        for column in new.indices where new[column] != old[column] { rows[write.row]?[column] = new[column] }
      }
    }
    return rows.values.sorted { ($0[0] ?? 0) < ($1[0] ?? 0) }
      .map { $0.map { $0.map { String($0) } ?? "NULL" }.joined(separator: " ") }
  }

  private static func text(_ value: Int?) -> String { value.map { String($0) } ?? "NULL" }

  /// Makes a random transaction in the database.
  private static func transaction(
    _ store: Store, _ rows: inout [Int: [Int?]], _ next: inout Int, _ random: inout Seeded
  ) throws -> [Write] {
    var writes: [Write] = []
    try store.execute("BEGIN")
    for _ in 0..<Int.random(in: 1...4, using: &random) {
      let keys = Set(rows.values.compactMap { $0[0] })
      let names = Set(rows.values.compactMap { $0[1] })
      let row = rows.keys.sorted().randomElement(using: &random)
      let key = Int.random(in: 1...8, using: &random)
      let name: Int? = Int.random(in: 0...9, using: &random)
      let price = Int.random(in: 0...3, using: &random)
      let kind = Int.random(in: 0..<8, using: &random)
      guard let row, kind > 1, let old = rows[row], let id = old[0] else {
        if keys.contains(key) { continue }
        let new = [key, name.flatMap { names.contains($0) ? nil : $0 }, price]
        try store.execute("INSERT INTO item VALUES (\(key), \(text(new[1])), \(price))")
        writes.append(Write(row: next, old: nil, new: new))
        rows[next] = new
        next += 1
        continue
      }
      if kind == 2 {
        try store.execute("DELETE FROM item WHERE id = \(id)")
        writes.append(Write(row: row, old: old, new: nil))
        rows[row] = nil
        continue
      }
      var new = old
      if kind == 3, !keys.contains(key) { new[0] = key }
      if kind < 6, name.map({ !names.contains($0) }) ?? true { new[1] = name }
      if kind > 4 { new[2] = price }
      try store.execute(
        "UPDATE item SET id = \(text(new[0])), name = \(text(new[1])), price = \(text(new[2])) WHERE id = \(id)")
      writes.append(Write(row: row, old: old, new: new))
      rows[row] = new
    }
    try store.execute("COMMIT")
    return writes
  }

  private static func check(_ store: Store, seed: UInt64, count: Int) throws {
    try store.execute(Store.table)
    let schemas = try store.schemas()
    let schema = try #require(schemas.first)
    var random = Seeded(seed)
    var (undone, refused) = (0, 0)
    for round in 0..<count {
      try store.execute("DELETE FROM item")
      var (rows, next): ([Int: [Int?]], Int) = ([:], 0)
      var history: [[Write]] = []
      for _ in 0..<Int.random(in: 2...9, using: &random) {
        history.append(try transaction(store, &rows, &next, &random))
      }
      let number = Int.random(in: 0..<history.count, using: &random)
      var plan = UndoPlan()
      for (place, transaction) in history.enumerated() where place >= number {
        for write in transaction {
          let (old, new) = (write.old?.map(store.value), write.new?.map(store.value))
          let operation: Changes.Operation = old == nil ? .insert : new == nil ? .delete : .update
          if place == number {
            plan.note(operation, schema, before: old, after: new)
          } else {
            plan.noteLater(
              operation, schema, before: old, after: new,
              by: UndoWriter(number: UInt64(place), node: "a", time: 0))
          }
        }
      }
      let before = try store.rows()
      #expect(before == Self.rows(of: history), "seed \(seed), round \(round)")
      let dry = try store.run(plan, schemas, isForced: false, isDry: true)
      #expect(try store.rows() == before, "a dry run wrote: seed \(seed), round \(round)")
      let outcome = try store.run(plan, schemas, isForced: false, isDry: false)
      #expect(dry.refusals.map(\.text) == outcome.refusals.map(\.text) && dry.changes.count == outcome.changes.count)
      if outcome.refusals.isEmpty {
        undone += 1
        #expect(try store.rows() == Self.rows(of: history, without: number), "seed \(seed), round \(round)")
        continue
      }
      refused += 1
      #expect(try store.rows() == before, "a refused undo wrote: seed \(seed), round \(round)")
      // Each refusal has its reason in the history: a later write of the same row, key or unique value.
      let touched = Set(history[number].map(\.row))
      let isWritten = history[(number + 1)...].joined().contains { touched.contains($0.row) }
      #expect(
        isWritten || outcome.refusals.contains { ["inserted", "deleted", "refused"].contains($0.kind) },
        "seed \(seed), round \(round): \(outcome.refusals.map(\.text))")
      if outcome.refusals.allSatisfy(\.isForceable) {
        let forced = try store.run(plan, schemas, isForced: true, isDry: false)
        // A refused undo leaves all rows as they were.
        #expect(
          forced.refusals.isEmpty || forced.refusals.allSatisfy { ["refused", "differs"].contains($0.kind) },
          "\(forced.refusals.map(\.text))")
        if !forced.refusals.isEmpty { #expect(try store.rows() == before, "seed \(seed), round \(round)") }
      }
    }
    #expect(undone > count / 8 && refused > count / 8, "\(undone) undone, \(refused) refused")
  }

  @Test func `undone transactions of random histories in SQLite leave the rows of histories without them`() throws {
    let folder = try TempFolder()
    let database = try Database(ofProgram: folder("a.db"))
    try Self.check(.sqlite(database), seed: drawnSeed(), count: isSoak ? 1000 : 150)
  }

  @Test func `undone transactions of random histories in PostgreSQL leave the rows of histories without them`() throws {
    let server = try PostgresServer.shared
    let name = "undo_" + UUID().uuidString.prefix(8).lowercased()
    let connection = try PostgresConnection(try server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    try connection.execute("SET search_path = public")
    try Self.check(.postgres(connection), seed: drawnSeed(), count: isSoak ? 1000 : 60)
  }

  private func drawnSeed() -> UInt64 {
    let seed = ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...1_000_000)
    print("seed \(seed), undo")
    return seed
  }
}
