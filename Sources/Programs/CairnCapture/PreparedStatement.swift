import Changes
import SQLiteKit

/// A prepared statement that is reused when the same SQL text is executed again.
final class PreparedStatement {
  enum Kind {
    /// A statement that is not captured: it reads rows or sets an option of the connection.
    case other
    case change
    /// CREATE, ALTER or DROP.
    /// - Parameter dropsColumnOf: The table, if the statement drops a column; otherwise nil.
    case schemaChange(dropsColumnOf: String?)
  }

  let sql: String
  let statement: Statement
  let kind: Kind
  let text: JournalStatements.Text
  let isReadOnly: Bool
  let isChange: Bool
  /// Whether the statement is returning rows at the moment, so that it cannot be executed again yet.
  var isBusy = false
  private var names: (columns: [String], repreparedCount: Int32)?

  init(_ sql: String, _ database: ProgramDatabase) throws {
    guard !sql.utf8.contains(0) else {
      throw DatabaseError(
        .severalStatements, "the text contains the character NUL, and SQLite would ignore what follows it", sql: sql)
    }
    let words = SQLText.tokens(Array(sql.utf8))
    guard words.contains(where: { $0.symbol != UInt8(ascii: ";") }) else {
      throw DatabaseError(.emptyStatement, "the text contains no statement", sql: sql)
    }
    let first = words.first { $0.symbol != UInt8(ascii: ";") }?.word ?? ""
    guard !["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"].contains(first) else {
      throw DatabaseError(
        .transactionStatement, "\(first) is not allowed in execute: use transaction, and its savepoint", sql: sql)
    }
    let (statement, tables) = try database.prepare(sql)
    guard !statement.hasMore else {
      throw DatabaseError(.severalStatements, "the text contains more than one statement", sql: sql)
    }
    self.sql = sql
    self.statement = statement
    isReadOnly = statement.isReadOnly
    kind = Self.kind(first, words, sql, isReadOnly: isReadOnly)
    isChange = if case .change = kind { true } else { false }
    text = JournalStatements.Text(sql, tables: tables)
  }

  /// The column names of the current row, read again after a schema change.
  var columns: [String] {
    let count = statement.repreparedCount
    if let names, names.repreparedCount == count { return names.columns }
    let columns = (0..<statement.columnCount).map(statement.columnName)
    names = (columns, count)
    return columns
  }

  private static func kind(_ first: String, _ words: [SQLText.Token], _ sql: String, isReadOnly: Bool) -> Kind {
    if isReadOnly { return .other }
    switch first {
    case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH": return .change
    case "CREATE", "ALTER", "DROP": return .schemaChange(dropsColumnOf: droppedColumnTable(words, Array(sql.utf8)))
    default: return .other
    }
  }

  /// Returns the table of an `ALTER TABLE t DROP COLUMN c`; nil for other statements.
  private static func droppedColumnTable(_ words: [SQLText.Token], _ sql: [UInt8]) -> String? {
    guard words.count >= 5, words[0].word == "ALTER", words[1].word == "TABLE" else { return nil }
    // The name of the database may precede the name of the table: `main.t`.
    let name = words[3].symbol == UInt8(ascii: ".") ? 4 : 2
    guard words.count > name + 1, words[name + 1].word == "DROP" else { return nil }
    return unquoted(sql[words[name].range])
  }

  private static func unquoted(_ name: ArraySlice<UInt8>) -> String {
    guard let first = name.first, let last = name.last, name.count >= 2,
      [UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "["), UInt8(ascii: "'")].contains(first)
    else { return String(decoding: name, as: UTF8.self) }
    let inner = name.dropFirst().dropLast()
    return first == UInt8(ascii: "[") ? String(decoding: inner, as: UTF8.self) : String(undoubling: inner, last)
  }
}

/// A cache of 100 prepared statements, by their SQL text. A full cache removes its oldest half, except the four
/// statements used last.
struct StatementCache {
  private static let countMax = 100
  private var latest: PreparedStatement?
  /// The last four statements that were used, which are searched before `all`.
  private var recent: [PreparedStatement] = []
  private var all: [NameKey: PreparedStatement] = [:]
  private var order: [NameKey] = []

  /// Returns a prepared statement for an SQL text. Prepares a new one if the cache has none, or if the cached one is
  /// returning rows.
  mutating func statement(_ sql: String, _ database: ProgramDatabase) throws -> PreparedStatement {
    if let latest, latest.sql.hasSameBytes(as: sql), !latest.isBusy { return latest }
    for known in recent where known.sql.hasSameBytes(as: sql) && !known.isBusy {
      latest = known
      return known
    }
    if let known = all[sql], !known.isBusy {
      remember(known)
      return known
    }
    let made = try PreparedStatement(sql, database)
    guard all[sql] == nil else { return made }
    if order.count >= Self.countMax { forgetOldest() }
    all[sql] = made
    order.append(NameKey(sql))
    remember(made)
    return made
  }

  private mutating func remember(_ statement: PreparedStatement) {
    latest = statement
    recent.insert(statement, at: 0)
    if recent.count > 4 { recent.removeLast() }
  }

  private mutating func forgetOldest() {
    let half = Self.countMax / 2
    let kept = Set(recent.map(\.sql.nameKey))
    for sql in order.prefix(half) where !kept.contains(sql) { all[sql] = nil }
    order = order.filter { all[$0] != nil }
  }

  mutating func removeAll() { self = StatementCache() }
}
