import Changes

extension TableSchema {
  /// The statement that creates this table, made of its columns, key and unique keys alone: for a shape that no catalog
  /// has given. `source`: the table whose types its columns have.
  package func ownText(typesOf source: TableSchema) -> String {
    engine == .sqlite ? ownSQLiteText : ownPostgresText(source)
  }

  /// On one line: as ALTER TABLE would leave it that added its last column.
  private var ownSQLiteText: String {
    let key = key
    let rowid = key.count == 1 && columns[key[0]].declaredType.uppercased() == "INTEGER" ? key.first : nil
    func list(_ columns: [Int]) -> String {
      "(" + columns.map { self.columns[$0].name.quotedName }.joined(separator: ", ") + ")"
    }
    var lines = columns.enumerated().map { index, column in
      column.name.quotedName + (column.declaredType.isEmpty ? "" : " " + column.declaredType)
        + (index == rowid && !flags.contains(.withoutRowid) ? " PRIMARY KEY" : "")
        + (column.isNotNull && index != rowid ? " NOT NULL" : "")
        + (column.collation.isEmpty || column.collation.uppercased() == "BINARY" ? "" : " COLLATE \(column.collation)")
        + (column.defaultText.map { " DEFAULT \($0)" } ?? "")
    }
    if !key.isEmpty, !flags.contains(.wholeRow), rowid == nil || flags.contains(.withoutRowid) {
      lines.append("PRIMARY KEY " + list(key))
    }
    lines += uniques.map { "UNIQUE " + list($0) }
    return "CREATE TABLE \(name.quotedName)(\(lines.joined(separator: ", ")))"
      + (flags.contains(.withoutRowid) ? " WITHOUT ROWID" : "")
  }

  private func ownPostgresText(_ source: TableSchema) -> String {
    func list(_ columns: [Int]) -> String {
      "(" + columns.map { self.columns[$0].name.postgresIdentifier }.joined(separator: ", ") + ")"
    }
    var lines = columns.map(\.postgresDefinition)
    let isNullable = flags.contains(.nullableKey)
    if !key.isEmpty, !flags.contains(.wholeRow) { lines.append((isNullable ? "UNIQUE " : "PRIMARY KEY ") + list(key)) }
    lines += uniques.map { "UNIQUE " + list($0) }
    var statements: [String] = []
    if columns.contains(where: { PostgresType($0).isUserDefined || !$0.baseType.isEmpty }) {
      statements += PostgresScript(source).preamble.filter { !$0.uppercased().contains("CREATE SEQUENCE") }
    }
    if namespace != "public", !namespace.isEmpty {
      statements.append("CREATE SCHEMA IF NOT EXISTS \(namespace.postgresIdentifier)")
    }
    statements.append("CREATE TABLE IF NOT EXISTS \(postgresIdentifier) (\n  \(lines.joined(separator: ",\n  "))\n)")
    if flags.contains(.wholeRow) || isNullable {
      statements.append("ALTER TABLE \(postgresIdentifier) REPLICA IDENTITY FULL")
    }
    return statements.map { $0 + ";" }.joined(separator: "\n")
  }
}
