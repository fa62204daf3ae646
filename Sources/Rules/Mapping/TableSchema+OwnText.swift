import Changes

extension TableSchema {
  /// Returns a CREATE TABLE statement for this table, written from its columns and keys.
  ///
  /// - Parameter source: The table whose script creates the user-defined types of the columns.
  /// - Parameter isWhole: Whether to include foreign keys and the options of an SQLite table.
  package func ownText(typesOf source: TableSchema, isWhole: Bool = false) -> String {
    engine == .sqlite ? ownSQLiteText(isWhole) : ownPostgresText(source)
  }

  /// Returns the CREATE TABLE statement on one line.
  private func ownSQLiteText(_ isWhole: Bool) -> String {
    let key = key
    let rowid = key.count == 1 && columns[key[0]].declaredType.asciiUppercased == "INTEGER" ? key.first : nil
    func list(_ columns: [Int]) -> String {
      "(" + columns.map { self.columns[$0].name.quotedName }.joined(separator: ", ") + ")"
    }
    var lines = columns.enumerated().map { index, column in
      column.name.quotedName + (column.declaredType.isEmpty ? "" : " " + column.declaredType)
        + (index == rowid && !flags.contains(.withoutRowid) ? " PRIMARY KEY" : "")
        + (column.isNotNull && index != rowid ? " NOT NULL" : "")
        + (column.collation.isEmpty || column.collation.asciiUppercased == "BINARY"
          ? "" : " COLLATE \(column.collation)")
        + (column.defaultText.map { " DEFAULT " + Self.sqliteDefault($0) } ?? "")
    }
    if !key.isEmpty, !flags.contains(.wholeRow), rowid == nil || flags.contains(.withoutRowid) {
      lines.append("PRIMARY KEY " + list(key))
    }
    lines += uniques.map { "UNIQUE " + list($0) }
    if isWhole {
      lines += foreignKeys.map { key in
        let references = key.references.map(\.quotedName).joined(separator: ", ")
        return "FOREIGN KEY " + list(key.columns) + " REFERENCES \(key.table.quotedName)"
          + (references.isEmpty ? "" : "(\(references))") + TableMapping.actions(of: key)
      }
    }
    let kinds =
      (flags.contains(.withoutRowid) ? ["WITHOUT ROWID"] : []) + (isWhole && flags.contains(.strict) ? ["STRICT"] : [])
    return "CREATE TABLE \(name.quotedName)(\(lines.joined(separator: ", ")))"
      + (kinds.isEmpty ? "" : " " + kinds.joined(separator: ", "))
  }

  /// Returns a default, in parentheses if it is an expression. SQLite reports defaults without their parentheses.
  private static func sqliteDefault(_ text: String) -> String {
    let tokens = (try? DDLTokenizer.tokens(text, .sqlite)) ?? []
    let isSigned = tokens.count == 2 && [.symbol("-"), .symbol("+")].contains(tokens[0].kind)
    let isWhole = tokens.count <= 1 || isSigned
    return isWhole ? text : "(\(text))"
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
      statements += PostgresScript(source).preamble.filter { !$0.asciiUppercased.contains("CREATE SEQUENCE") }
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
