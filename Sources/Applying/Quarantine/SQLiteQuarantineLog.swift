import Changes
import SQLiteKit

/// The transactions that an SQLite target has put aside, in its table `cairn_quarantine`.
package struct SQLiteQuarantineLog: QuarantineLog {
  let database: Database
  package init(_ database: Database) { self.database = database }

  package func isInstalled() throws -> Bool {
    try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_quarantine'") != nil
  }

  /// Creates the table. Numbers are not used again: an operator may still have one at hand.
  func install() throws {
    let columns = QuarantineColumns.names.map {
      "\($0) \(QuarantineColumns.numbers.contains($0) ? "INTEGER" : "TEXT")"
    }
    try database.execute(
      "CREATE TABLE cairn_quarantine(id INTEGER PRIMARY KEY AUTOINCREMENT, \(columns.joined(separator: ", ")))")
  }

  package func list() throws -> [QuarantinedTransaction] {
    guard try isInstalled() else { return [] }
    return try database.query("SELECT id, \(QuarantineColumns.list) FROM cairn_quarantine ORDER BY trail, number").map {
      row in
      guard case .integer(let id) = row[0],
        let one = QuarantineColumns.transaction(
          id: id,
          { index in
            switch row[index + 1] {
            case .text(let bytes): String(decoding: bytes, as: UTF8.self)
            case .integer(let number): String(number)
            default: nil
            }
          })
      else { throw QuarantineColumns.damaged("cairn_quarantine", database.path) }
      return one
    }
  }

  package func ask(_ id: Int64, for wish: QuarantinedTransaction.Wish) throws -> Bool {
    guard try isInstalled() else { return false }
    try database.run("UPDATE cairn_quarantine SET wanted = ? WHERE id = ?", [.text(wish.rawValue), .integer(id)])
    return database.changes == 1
  }

  // MARK: In apply's transaction

  func append(_ one: QuarantinedTransaction) throws -> Int64 {
    if try !isInstalled() { try install() }
    let marks = QuarantineColumns.names.map { _ in "?" }.joined(separator: ", ")
    try database.run(
      "INSERT INTO cairn_quarantine(\(QuarantineColumns.list)) VALUES (\(marks))", Self.values(one))
    return try database.integer("SELECT last_insert_rowid()") ?? 0
  }

  /// Writes all columns again, as the reason may have changed.
  func save(_ one: QuarantinedTransaction) throws {
    let list = QuarantineColumns.names.map { "\($0) = ?" }.joined(separator: ", ")
    try database.run("UPDATE cairn_quarantine SET \(list) WHERE id = ?", Self.values(one) + [.integer(one.id)])
  }

  func remove(_ id: Int64) throws {
    try database.run("DELETE FROM cairn_quarantine WHERE id = ?", [.integer(id)])
  }

  /// Deletes the transactions of a trail; nil: of all trails.
  func forget(_ trail: TrailName?) throws {
    guard try isInstalled() else { return }
    try database.run(
      "DELETE FROM cairn_quarantine WHERE ?1 IS NULL OR trail = ?1", [trail.map { .text($0.description) } ?? .null])
  }

  private static func values(_ one: QuarantinedTransaction) -> [Value] {
    zip(QuarantineColumns.names, QuarantineColumns.texts(one)).map { name, text in
      guard let text else { return .null }
      return QuarantineColumns.numbers.contains(name) ? Int64(text).map { .integer($0) } ?? .null : .text(text)
    }
  }
}
