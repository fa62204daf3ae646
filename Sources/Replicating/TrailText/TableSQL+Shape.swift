import Changes
import Mapping
import SQLiteKit

// Statements that create, alter and drop a table.
extension TableSQL {
  /// Returns the statements that create the table and its indexes unless they exist.
  func create() throws(Unrepresentable) -> [String] {
    switch dialect {
    case .sqlite:
      try notices.map(\.sqlComment)
        + Self.forShell([sqliteTable] + schema.objects.compactMap { Self.tolerant($0.text, after: "INDEX") })
    case .postgres:
      postgresComments + [schema.createText + (schema.createText.hasSuffix(";") ? "" : ";")]
        + schema.objects.compactMap { Self.tolerant($0.text, after: "INDEX") }
    }
  }

  /// Returns statements that the sqlite3 shell reads as nothing else. Without one of them, the others are of no use.
  private static func forShell(_ statements: [String]) throws(Unrepresentable) -> [String] {
    var lines: [String] = []
    for statement in statements {
      guard let line = SQLiteAlteration.forShell(statement) else {
        let size = statement.utf8.count.counted("byte")
        throw Unrepresentable(reason: "the sqlite3 shell may read a statement of \(size) as its own command")
      }
      lines.append(line)
    }
    return lines
  }

  var drop: String { "DROP TABLE IF EXISTS \(name);" }

  // MARK: SQLite

  private var sqliteTable: String { Self.tolerant(schema.createText, after: "TABLE") ?? schema.createText + ";" }

  private static func tolerant(_ text: String, after word: String) -> String? {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let place = tokens.prefix(4).firstIndex(where: { $0.word == word }), let end = tokens.last else { return nil }
    let hasClause = place + 1 < tokens.count && tokens[place + 1].word == "IF"
    let head = String(decoding: bytes[..<tokens[place].range.upperBound], as: UTF8.self)
    let tail = String(
      decoding: bytes[tokens[place].range.upperBound..<end.range.upperBound], as: UTF8.self)
    return head + (hasClause ? "" : " IF NOT EXISTS") + tail + ";"
  }

  func rename(sqlite new: TableSQL) -> [String] {
    SQLiteAlteration.rename(schema.name, to: new.schema.name).map { $0 + ";" }
  }

  /// Returns the statements that give the table the shape of `new` and keep its rows.
  /// - Parameter isRefreshed: Whether a refresh follows. Rows that do not fit the new shape may then be deleted.
  /// - Parameter indexes: The names of the indexes that still belong to the table.
  /// - Parameter origins: For each column of `new`, its index in this table, nil for a new column; nil if unknown.
  func reshape(
    sqlite new: TableSQL, isRefreshed: Bool, indexes: [String], origins: [Int?]?
  ) throws(Unrepresentable) -> [String] {
    var there = schema
    there.objects = there.objects.filter { indexes.contains($0.name) }
    let alteration = SQLiteAlteration(
      TableDifference(schema, new.schema, origins: origins), there: there, keepsText: source.engine == .sqlite,
      isRefreshed: isRefreshed)
    let alters = alteration.alters.flatMap { gives(new, alteration.rename + $0) ? $0 : nil }
    // Existing rows may violate a new unique index. The refresh brings all of them again.
    let empties = isRefreshed && new.schema.objects.contains { !schema.objects.contains($0) }
    let shaping = try Self.forShell((alters.map { $0 + alteration.indexes } ?? alteration.rebuild).map(Self.ended))
    return rename(sqlite: new) + (empties ? [new.deleteAll] : []) + shaping
  }

  /// Returns whether SQLite stores the exact CREATE TABLE statement of `new` after the statements in `alters` have run.
  private func gives(_ new: TableSQL, _ alters: [String]) -> Bool {
    guard source.engine == .sqlite, schema.createText != new.schema.createText else { return true }
    guard let database = try? Database(path: ":memory:", mode: .create) else { return false }
    return (try? database.execute(schema.createText)) != nil
      && alters.allSatisfy { (try? database.execute($0)) != nil }
      && (try? database.text("SELECT sql FROM sqlite_master WHERE type = 'table'")) == new.schema.createText
  }

  private static func ended(_ statement: String) -> String {
    let bytes = Array(statement.utf8)
    guard let last = SQLText.tokens(bytes).last else { return statement + ";" }
    return String(decoding: bytes[..<last.range.upperBound], as: UTF8.self) + ";"
  }

  // MARK: PostgreSQL

  /// SQL comments about properties that the table in PostgreSQL lacks, or has in another form.
  private var postgresComments: [String] {
    var lines = notices
    for key in schema.foreignKeys {
      let columns = key.columns.map { schema.columns[$0].name }.joined(separator: ", ")
      lines.append(
        "the foreign key of \(source.name) from \(columns) to \(key.table) is left out: "
          + "the rows do not arrive in an order that satisfies it")
    }
    return lines.map(\.sqlComment)
  }

  /// Returns the statements that give the table the name and shape of `new` and keep its rows. Commit the statements in
  /// `ahead`, which add labels of enums, before all others.
  /// - Parameter isRefreshed: Whether a refresh follows. If the new shape may refuse rows, all rows are then deleted.
  /// - Parameter types: The existing user-defined types.
  func reshape(
    postgres new: TableSQL, isRefreshed: Bool, origins: [Int?]?, types: [PostgresUserType]
  ) throws -> (ahead: [String], statements: [String]) {
    let shapes = try TableMapping.change(source, new.source, origins: origins, to: .postgres)
    let (before, after) = (shapes.before.target.withoutReferences, shapes.after.target.withoutReferences)
    let alteration = PostgresAlteration(
      before, after, origins: origins, types: types, isRefreshed: isRefreshed)
    let mayFail = alteration.difference.changes.contains { change in
      switch change {
      case .renameTable, .renameColumn, .dropColumn, .defaultOfColumn, .dropIndex: false
      case .addColumn(let index): after.columns[index].isNotNull
      default: true
      }
    }
    let labels = alteration.labels.map { $0 + ";" }
    let adds = labels.filter { PostgresAlteration.isLabel($0) }
    var lines = labels.filter { !PostgresAlteration.isLabel($0) }
    if isRefreshed, mayFail {
      lines += ["the rows of \(new.schema.name) follow with a refresh".sqlComment, deleteAll]
    }
    lines += (alteration.statements + alteration.newIndexes.map(\.text)).map { $0 + ";" }
    return (adds, lines)
  }

  /// Returns the statements that change existing user-defined types to those that this table needs.
  func prepared(_ types: [PostgresUserType]) -> [String] {
    PostgresUserType.all(of: schema).flatMap { wanted in
      types.first { $0.name == wanted.name }?.statements(to: wanted) ?? []
    }.map { $0 + ";" }
  }
}

extension TableSchema {
  /// The table without foreign keys, because rows may arrive in an order that violates them.
  fileprivate var withoutReferences: TableSchema {
    var copy = self
    copy.foreignKeys = []
    return copy
  }
}
