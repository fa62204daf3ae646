import Changes

/// The SQLite table that Cairn creates for a PostgreSQL table.
struct SQLiteDraft {
  private let source: TableSchema
  private let name: String
  private(set) var notices: [String] = []

  init(_ source: TableSchema) {
    self.source = source
    name = NamePolicy.sqliteName(namespace: source.namespace, name: source.name)
  }

  mutating func schema() throws(CairnError) -> TableSchema {
    let folded = name.asciiLowercased
    guard !folded.hasPrefix("sqlite_"), !folded.hasPrefix("cairn_") else {
      throw CairnError(
        .tableRefused, "table \(source.fullName) would be \(name) in SQLite, which is a reserved name",
        hint: "rename it, or leave it out with 'tables' (--tables)", context: ["table": source.fullName])
    }
    try TableMapping.checkColumns(source) { $0.asciiLowercased }
    let key = source.key
    var target = TableSchema(
      epoch: source.epoch, engine: .sqlite, name: name,
      flags: source.flags.intersection([.wholeRow, .nullableKey, .partitioned]),
      columns: [])
    for column in source.columns {
      target.columns.append(
        .init(
          name: column.name, declaredType: SQLiteValue(from: column).declaredType, isNotNull: column.isNotNull,
          keyOrdinal: column.keyOrdinal, collation: column.keyOrdinal > 0 ? "BINARY" : "",
          defaultText: defaultText(column)))
    }
    target.uniques = source.uniques.filter { !$0.isEmpty && Set($0) != Set(key) }
    target.foreignKeys = source.foreignKeys.map { key in
      .init(
        columns: key.columns, table: NamePolicy.sqliteName(namespace: key.namespace, name: key.table),
        references: key.references, onUpdate: key.onUpdate, onDelete: key.onDelete, timing: key.timing)
    }
    target.createText = createText(target)
    target.objects = indexes(uniques: target.uniques + [key])
    noteWhatIsLeft()
    return target
  }

  private mutating func noteWhatIsLeft() {
    let script = PostgresScript(source)
    let columns = Set(source.columns.map(\.name.nameKey))
    for column in script.columns where column.isGenerated {
      notices.append("the generated column \(column.name) of \(source.fullName) is left out")
    }
    for constraint in script.constraints {
      let name = constraint.name.map { "constraint \($0)" } ?? "constraint \(constraint.text)"
      switch constraint.kind {
      case .check, .exclude: notices.append("the \(name) of \(source.fullName) is left out: \(constraint.text)")
      case .primary, .unique:
        guard constraint.columns.contains(where: { !columns.contains($0) }) else { continue }
        notices.append("the \(name) of \(source.fullName) is left out: it needs a column that is left out")
      }
    }
  }

  private func createText(_ table: TableSchema) -> String {
    let key = table.key
    // A single integer key becomes the rowid: it holds any int8, and the column never held anything else.
    let rowid = key.count == 1 && SQLiteValue(from: source.columns[key[0]]).storage == .integer ? key.first : nil
    func list(_ columns: [Int]) -> String {
      "(" + columns.map { table.columns[$0].name.quotedName }.joined(separator: ", ") + ")"
    }
    var lines = table.columns.enumerated().map { index, column in
      let type = column.declaredType.isEmpty ? "" : " " + column.declaredType
      let isNotNull = column.isNotNull || (column.keyOrdinal > 0 && !table.flags.contains(.nullableKey))
      return column.name.quotedName + type + (index == rowid ? " PRIMARY KEY" : isNotNull ? " NOT NULL" : "")
        + (column.defaultText.map { " DEFAULT \($0)" } ?? "")
    }
    if !key.isEmpty, rowid == nil {
      lines.append((table.flags.contains(.nullableKey) ? "UNIQUE " : "PRIMARY KEY ") + list(key))
    }
    lines += table.uniques.map { "UNIQUE " + list($0) }
    lines += table.foreignKeys.map { key in
      let references = key.references.map(\.quotedName).joined(separator: ", ")
      return "FOREIGN KEY \(list(key.columns)) REFERENCES \(key.table.quotedName)"
        + (references.isEmpty ? "" : " (\(references))") + TableMapping.actions(of: key)
    }
    return "CREATE TABLE \(table.name.quotedName) (\n  \(lines.joined(separator: ",\n  "))\n)"
  }

  private mutating func defaultText(_ column: TableSchema.Column) -> String? {
    guard let text = column.defaultText else { return nil }
    if let literal = DefaultText.sqlite(text, of: column) { return literal }
    // SQLite generates the values of the key by itself, too.
    if column.keyOrdinal > 0, text.hasPrefix("nextval(") { return nil }
    notices.append("the default of \(source.fullName).\(column.name) is left out: \(text)")
    return nil
  }

  private mutating func indexes(uniques: [[Int]]) -> [TableSchema.Object] {
    var objects: [TableSchema.Object] = []
    for object in source.objects {
      let index = IndexText(object.text, columns: source.columns.map(\.name), engine: .postgres)
      let name = NamePolicy.sqliteName(namespace: source.namespace, name: object.name)
      let isReserved = name.asciiLowercased.hasPrefix("sqlite_") || name.asciiLowercased.hasPrefix("cairn_")
      guard let index, !isReserved else {
        notices.append("the index \(object.name) of \(source.fullName) is left out: \(object.text)")
        continue
      }
      if index.isUnique, uniques.contains(where: { Set($0) == Set(index.terms.map(\.column)) }) { continue }
      let terms = index.terms.map { source.columns[$0.column].name.quotedName + ($0.isDescending ? " DESC" : "") }
      objects.append(
        .init(
          name: name,
          text: "CREATE \(index.isUnique ? "UNIQUE " : "")INDEX \(name.quotedName) ON \(self.name.quotedName) "
            + "(\(terms.joined(separator: ", ")))"))
    }
    return objects
  }
}
