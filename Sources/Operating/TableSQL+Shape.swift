import Changes
import Mapping

// Statements that make, change and drop a table.
extension TableSQL {
  private static let aside = "cairn_aside"

  /// The table and its indexes, where there is none of that name yet.
  var create: [String] {
    switch dialect {
    case .sqlite:
      notices.map(\.sqlComment) + [sqliteTable] + schema.objects.compactMap { Self.tolerant($0.text, after: "INDEX") }
    case .postgres:
      postgresComments + [schema.createText + (schema.createText.hasSuffix(";") ? "" : ";")]
        + schema.objects.compactMap { Self.tolerant($0.text, after: "INDEX") }
    }
  }

  var drop: String { "DROP TABLE IF EXISTS \(name);" }

  func rename(to new: TableSQL) -> [String] {
    if new.name == name { return [] }
    let target = dialect == .postgres ? new.schema.name.postgresIdentifier : new.name
    if schema.namespace != new.schema.namespace {
      return [
        "CREATE SCHEMA IF NOT EXISTS \(new.schema.namespace.postgresIdentifier);",
        "ALTER TABLE \(name) SET SCHEMA \(new.schema.namespace.postgresIdentifier);",
      ]
        + (schema.name == new.schema.name
          ? []
          : [
            "ALTER TABLE \(new.schema.namespace.postgresIdentifier).\(schema.name.postgresIdentifier) RENAME TO \(target);"
          ])
    }
    // SQLite takes a name that differs in case only for one that is taken.
    guard dialect == .postgres || schema.name.lowercased() != new.schema.name.lowercased() else {
      return ["ALTER TABLE \(name) RENAME TO \(Self.aside);", "ALTER TABLE \(Self.aside) RENAME TO \(target);"]
    }
    return ["ALTER TABLE \(name) RENAME TO \(target);"]
  }

  /// Gives the table the shape of `new`, with its rows. Where a refresh follows, rows that do not fit may be left out.
  ///
  /// `indexes` are those of the table that are still its own, by name; `origins` which column each was before.
  func reshape(to new: TableSQL, isRefreshed: Bool, indexes: [String], origins: [Int?]?) -> [String] {
    switch dialect {
    case .sqlite: return rename(to: new) + reshapeSQLite(new, isRefreshed, indexes, origins)
    case .postgres: return rename(to: new) + reshapePostgres(new, isRefreshed, origins)
    }
  }

  // MARK: What stays

  /// Columns, before and after, that are the same.
  private func kept(_ after: TableSchema, _ origins: [Int?]?) -> [(before: Int, after: Int)] {
    TableDifference(schema, after, origins: origins).origins.enumerated().compactMap { new, old in
      old.map { ($0, new) }
    }
  }

  // MARK: SQLite

  private var sqliteTable: String { Self.tolerant(schema.createText, after: "TABLE") ?? schema.createText + ";" }

  /// A CREATE statement with IF NOT EXISTS behind the word TABLE or INDEX; nil when it is none.
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

  private func reshapeSQLite(_ new: TableSQL, _ isRefreshed: Bool, _ indexes: [String], _ origins: [Int?]?) -> [String]
  {
    let after = new.schema
    let own = schema.objects.filter { indexes.contains($0.name) }
    func drops(_ objects: [TableSchema.Object]) -> [String] {
      objects.map { "DROP INDEX IF EXISTS \($0.name.quotedName);" }
    }
    let creates = after.objects.compactMap { Self.tolerant($0.text, after: "INDEX") }
    if schema.createText == after.createText {
      // A unique index may not suit the rows that are there; all of them are about to come again.
      let empties = isRefreshed && after.objects.contains { !schema.objects.contains($0) }
      return drops(own.filter { !after.objects.contains($0) }) + (empties ? [new.deleteAll] : []) + creates
    }
    // With the legacy rules, references of other tables to this one stay as they are.
    var lines = ["PRAGMA legacy_alter_table = ON;", "ALTER TABLE \(new.name) RENAME TO \(Self.aside);"]
    lines += ["PRAGMA legacy_alter_table = OFF;"] + drops(own) + [new.sqliteTable] + creates
    let pairs = kept(after, origins)
    if !pairs.isEmpty {
      lines.append(
        "INSERT\(isRefreshed ? " OR IGNORE" : "") INTO \(new.name) "
          + "(\(pairs.map { new.column($0.after) }.joined(separator: ", "))) "
          + "SELECT \(pairs.map { column($0.before) }.joined(separator: ", ")) FROM \(Self.aside);")
    }
    return lines + ["DROP TABLE \(Self.aside);"]
  }

  // MARK: PostgreSQL

  /// What the table in PostgreSQL does not have, or has in another way.
  private var postgresComments: [String] {
    var lines = notices
    for key in schema.foreignKeys {
      let columns = key.columns.map { schema.columns[$0].name }.joined(separator: ", ")
      lines.append(
        "the foreign key of \(source.name) from \(columns) to \(key.table) is left out: "
          + "the order of rows need not keep to it")
    }
    return lines.map(\.sqlComment)
  }

  private func reshapePostgres(_ new: TableSQL, _ isRefreshed: Bool, _ origins: [Int?]?) -> [String] {
    let after = new.schema
    let pairs = kept(after, origins)
    let isSameKey =
      schema.flags.intersection([.nullableKey, .wholeRow]) == after.flags.intersection([.nullableKey, .wholeRow])
      && schema.key.count == after.key.count
      && zip(schema.key, after.key).allSatisfy { old, new in pairs.contains { $0 == (old, new) } }
    let isSameType = pairs.allSatisfy { type($0.before) == new.type($0.after) }
    let renamed = pairs.filter { column($0.before) != new.column($0.after) }
    let old = Set(schema.columns.indices.map(column))
    guard isSameKey, isSameType, renamed.allSatisfy({ !old.contains(new.column($0.after)) }) else {
      return rebuildPostgres(new, pairs, isRefreshed)
    }
    var lines: [String] = []
    for index in schema.columns.indices where !pairs.contains(where: { $0.before == index }) {
      lines.append("ALTER TABLE \(new.name) DROP COLUMN \(column(index));")
    }
    for pair in renamed {
      lines.append("ALTER TABLE \(new.name) RENAME COLUMN \(column(pair.before)) TO \(new.column(pair.after));")
    }
    for pair in pairs where schema.columns[pair.before].isNotNull && !after.columns[pair.after].isNotNull {
      guard !after.key.contains(pair.after) || after.flags.contains(.nullableKey) else { continue }
      lines.append("ALTER TABLE \(new.name) ALTER COLUMN \(new.column(pair.after)) DROP NOT NULL;")
    }
    for index in after.columns.indices where !pairs.contains(where: { $0.after == index }) {
      // The rows that are there have no value for it before the refresh, so it cannot be NOT NULL.
      lines.append("ALTER TABLE \(new.name) ADD COLUMN \(new.column(index)) \(new.type(index).name);")
    }
    return lines
  }

  private func rebuildPostgres(
    _ new: TableSQL, _ pairs: [(before: Int, after: Int)], _ isRefreshed: Bool
  ) -> [String] {
    var lines = ["ALTER TABLE \(new.name) RENAME TO \(Self.aside);"] + new.create
    if !isRefreshed, !pairs.isEmpty {
      lines.append(
        "INSERT INTO \(new.name) (\(pairs.map { new.column($0.after) }.joined(separator: ", "))) "
          + "SELECT \(pairs.map { column($0.before) }.joined(separator: ", ")) FROM \(Self.aside);")
    } else {
      lines.append("the rows of \(new.schema.name) follow with a refresh".sqlComment)
    }
    let prefix = schema.namespace.isEmpty ? "" : schema.namespace.postgresIdentifier + "."
    return lines + ["DROP TABLE \(prefix)\(Self.aside);"]
  }
}
