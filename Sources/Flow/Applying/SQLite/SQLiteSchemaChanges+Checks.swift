import Changes
import Mapping
import SQLiteKit

// Checks whether an existing table can take the rows of the source's.
extension SQLiteSchemaChanges {
  /// Throws `schema-stopped` unless the target's table can hold the source's rows.
  ///
  /// Under the policy `ignore`, the target's table may lack columns that are not part of the key.
  func check(_ mapping: TableMapping, _ change: Change) throws {
    let schema = mapping.target
    guard let table = try table(schema.name), !table.schema.columns.isEmpty else {
      throw unfit("it is not an ordinary table there", schema, change)
    }
    for (source, column) in zip(mapping.source.columns, schema.columns) {
      let isKey = column.keyOrdinal > 0
      let theirs = table.schema.columns.first { $0.name.sqliteKey == column.name.sqliteKey }
      guard let theirs else {
        if change.plan.policy == .ignore, !isKey { continue }
        throw unfit("it has no column \(column.name)", schema, change)
      }
      let isKept =
        mapping.source.engine == .sqlite
        ? theirs.affinity == column.affinity : PostgresType(source).isKept(under: theirs.affinity)
      guard isKept else {
        throw unfit(
          "its column \(column.name) has affinity \(theirs.affinity), the source's \(mapping.source.engine == .sqlite ? column.affinity : "type \(source.declaredType)"): values would change",
          schema, change)
      }
      if theirs.isNotNull, !column.isNotNull, !isKey {
        throw unfit("its column \(column.name) is NOT NULL, which the source's is not", schema, change)
      }
    }
    try checkOwnColumns(of: table, schema, change)
    try checkKeys(of: table, mapping, change)
  }

  /// Throws `schema-stopped` if a column that only the target has is NOT NULL without a default.
  private func checkOwnColumns(of table: SQLiteTable, _ schema: TableSchema, _ change: Change) throws {
    for column in table.schema.columns where column.isNotNull && column.defaultText == nil {
      let isKnown = schema.columns.contains { $0.name.sqliteKey == column.name.sqliteKey }
      let isRowid = table.rowidColumn.map { table.schema.columns[$0].name.hasSameBytes(as: column.name) } ?? false
      guard isKnown || isRowid else {
        throw unfit(
          "its column \(column.name), which the source has not, is NOT NULL and has no default", schema, change)
      }
    }
  }

  private func checkKeys(of table: SQLiteTable, _ mapping: TableMapping, _ change: Change) throws {
    let schema = mapping.target
    let key = Set(schema.key.map { schema.columns[$0].name.sqliteKey })
    try checkUniqueKeys(of: table, mapping, key, change)
    guard !key.isEmpty else { return }
    let rowid = table.rowidColumn.map { Set([table.schema.columns[$0].name.sqliteKey]) }
    let keys = table.uniqueKeys.filter { $0.predicate == nil }.map { unique in
      Set(unique.terms.map { $0.column.map { table.schema.columns[$0].name.sqliteKey } ?? NameKey("") })
    }
    guard rowid == key || keys.contains(key) else {
      throw unfit("it has no unique key over \(key.sorted().map(\.text).joined(separator: ", "))", schema, change)
    }
  }

  /// Throws `schema-stopped` for a unique key that only the target has. A row of the source could replace another row
  /// there.
  private func checkUniqueKeys(
    of table: SQLiteTable, _ mapping: TableMapping, _ key: Set<NameKey>, _ change: Change
  ) throws {
    let (source, schema) = (mapping.source, mapping.target)
    // A schema does not list a primary key that may be NULL.
    let isMadeAlike =
      source.engine == .sqlite && [source.createText, schema.createText].contains(table.schema.createText)
    let known = [key] + schema.uniques.map { Set($0.map { schema.columns[$0].name.sqliteKey }) }
    // The collations by which the source compares a column, besides BINARY.
    var collations: [NameKey: [String]] = [:]
    if source.engine == .sqlite {
      for (column, target) in zip(source.columns, schema.columns) {
        collations[target.name.sqliteKey] = LooseKey.collations(of: column, in: source).map(\.asciiUppercased)
      }
    }
    for unique in table.uniqueKeys {
      let names = unique.terms.map { $0.column.map { table.schema.columns[$0].name.sqliteKey } ?? NameKey($0.text) }
      // The columns in which values that differ at the source also differ in the key.
      let plain = zip(unique.terms, names).filter { term, name in
        let collation = term.collation.asciiUppercased
        return term.column != nil && (collation == "BINARY" || collations[name]?.contains(collation) ?? false)
      }.map(\.1)
      let isImplied = known.contains { !$0.isEmpty && $0.isSubset(of: plain) }
      // An operator created both indexes under one name, and is responsible for what they mean.
      let isLoose = plain.count < names.count || unique.predicate != nil
      let isNamed = isLoose && source.hasUniqueIndexOfItsOwn(named: unique.name)
      let isOfTable = unique.name.hasPrefix("sqlite_autoindex_") && isMadeAlike
      // A schema does not show which generated columns are unique.
      let isGenerated =
        source.engine == .sqlite && unique.name.hasPrefix("sqlite_autoindex_")
        && unique.terms.contains { $0.column == nil }
      let text = table.schema.objects.first { $0.name.sqliteKey == unique.name.sqliteKey }?.text
      let isSame = text.map { text in source.engine == .sqlite && source.objects.contains { $0.isSameIndex(as: text) } }
      guard isImplied || isNamed || isOfTable || isGenerated || isSame ?? false else {
        throw unfit(
          "its unique key over \(names.map(\.text).joined(separator: ", ")) is stricter than any of the source's: two rows could become one",
          schema, change)
      }
    }
  }

  private func unfit(_ why: String, _ schema: TableSchema, _ change: Change) -> CairnError {
    refusal(change).error(
      "table \(schema.name) exists, and \(why)", table: schema.name,
      hint: "create it by hand: \(schema.createText)")
  }
}

extension TableSchema.Object {
  /// Returns whether `other` creates the same unique index, apart from the names of the index and its table, blanks and
  /// case.
  fileprivate func isSameIndex(as other: String) -> Bool {
    let (own, theirs) = (Self.definition(text), Self.definition(other))
    return !own.isEmpty && own == theirs
  }

  /// Returns the words of a CREATE UNIQUE INDEX statement after the table's name; empty for other statements.
  private static func definition(_ text: String) -> [NameKey] {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let on = tokens.firstIndex(where: { $0.word == "ON" }) else { return [] }
    let words = tokens.dropFirst(on + 2).map { String(decoding: bytes[$0.range], as: UTF8.self).sqliteKey }
    return tokens.contains { $0.word == "UNIQUE" } ? words : []
  }
}
