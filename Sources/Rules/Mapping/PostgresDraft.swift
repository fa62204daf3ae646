import Changes

/// The PostgreSQL table that Cairn creates for an SQLite table.
///
/// If the SQLite table is an unchanged copy of a PostgreSQL table (``TableSchema/original``), the result is that
/// PostgreSQL table. In a changed copy, the unchanged columns get their original types.
struct PostgresDraft {
  private let source: TableSchema
  private let names: NamePolicy
  /// Whether an unchanged SQLite copy of a PostgreSQL table is mapped to that original table.
  private let restores: Bool
  /// The columns of the original PostgreSQL table, by name, except those whose declared type was changed in SQLite.
  private let originals: [NameKey: TableSchema.Column]
  /// The positions of the columns that are in keys, foreign keys and unique indexes.
  private let keyed: Set<Int>
  private(set) var notices: [String] = []

  init(_ source: TableSchema, names: NamePolicy, restores: Bool = true) {
    self.source = source
    (self.names, self.restores) = (names, restores)
    var originals: [NameKey: TableSchema.Column] = [:]
    for column in source.original?.columns ?? [] where source.original?.engine == .postgres {
      originals[column.name.sqliteKey] = column
    }
    for column in source.columns {
      let name = column.name.sqliteKey
      guard let original = originals[name] else { continue }
      let declared = SQLiteValue(from: original).declaredType
      if declared != column.declaredType.asciiUppercased { originals[name] = nil }
    }
    self.originals = originals
    let indexes = source.objects.compactMap { IndexText($0.text, columns: source.columns.map(\.name), engine: .sqlite) }
    keyed = Set(
      source.key + source.uniques.joined() + source.foreignKeys.flatMap(\.columns)
        + indexes.filter(\.isUnique).flatMap { $0.terms.map(\.column) })
  }

  /// Whether ``schema()`` returns the PostgreSQL table from which Cairn created the SQLite table.
  var isOriginal: Bool { unchangedOriginal != nil }

  /// Returns whether the SQLite column is a copy of a PostgreSQL column, with an unchanged type.
  func isWayBack(_ column: TableSchema.Column) -> Bool { originals[column.name.sqliteKey] != nil }

  private var original: TableSchema? {
    guard let original = source.original, original.engine == .postgres, !DDLParser.isReserved(original.namespace),
      NamePolicy.sqliteName(namespace: original.namespace, name: original.name).asciiLowercased
        == source.name.asciiLowercased
    else { return nil }
    return original
  }

  /// The PostgreSQL table from which Cairn created the SQLite table; nil if the SQLite table was changed since.
  private var unchangedOriginal: TableSchema? {
    guard restores, let original, original.columns.count == source.columns.count, original.key == source.key,
      zip(original.columns, source.columns).allSatisfy({
        $0.name.sqliteKey == $1.name.sqliteKey && isWayBack($1)
          && ($0.isNotNull || $0.keyOrdinal > 0) == ($1.isNotNull || $1.keyOrdinal > 0)
      })
    else { return nil }
    return original
  }

  private var namespace: String {
    original?.namespace ?? (source.namespace.isEmpty ? "public" : names.postgresName(source.namespace))
  }
  private var name: String { original?.name ?? names.postgresName(source.name) }
  var fullName: String { "\(namespace).\(name)" }
  var place: (namespace: String, name: String) { (namespace, name) }

  mutating func schema() throws(CairnError) -> TableSchema {
    if var original = unchangedOriginal {
      original.epoch = source.epoch
      return original
    }
    try TableMapping.checkColumns(source, names.postgresName)
    try checkLimits()
    var target = TableSchema(
      epoch: source.epoch, engine: .postgres, namespace: namespace, name: name,
      flags: source.flags.intersection([.wholeRow, .nullableKey]), columns: [])
    let identity = identityColumn
    for (index, column) in source.columns.enumerated() {
      let type = type(of: column)
      let isKey = column.keyOrdinal > 0
      target.columns.append(
        .init(
          name: originals[column.name.sqliteKey]?.name ?? names.postgresName(column.name),
          declaredType: type.name,
          isNotNull: column.isNotNull || (isKey && !source.flags.contains(.nullableKey)),
          keyOrdinal: column.keyOrdinal, collation: isKey && type.isCollatable ? "C" : "",
          defaultText: defaultText(column, type), identity: index == identity ? .byDefault : .none))
      if names.postgresName(column.name).utf8.count < column.name.utf8.count {
        notices.append("column \(source.name).\(column.name) is shortened to \(target.columns[index].name)")
      }
    }
    if name.utf8.count < source.name.utf8.count, original == nil {
      notices.append("table \(source.name) is shortened to \(name)")
    }
    target.foreignKeys = foreignKeys()
    let indexes = indexes(target)
    target.uniques = source.uniques.filter { isUnambiguous($0) && Set($0) != Set(source.key) }
    target.createText = createText(target, uniques: indexes.constraints)
    target.objects = indexes.objects
    noteWhatIsLeft()
    return target
  }

  // MARK: Columns

  /// Returns the PostgreSQL type for a column. For a user-defined type, returns the base type of a domain, or text.
  private func type(of column: TableSchema.Column) -> PostgresType {
    guard let original = originals[column.name.sqliteKey] else {
      let type = PostgresType(declaration: column.declaredType)
      return type.kind == .json && source.columns.firstIndex(of: column).map(keyed.contains) ?? false ? .text : type
    }
    let type = PostgresType(original)
    guard type.isUserDefined || original.baseType == "array" else { return type }
    return type.isDomain && !original.baseType.has(".") ? PostgresType(original.baseType) : .text
  }

  /// The index of the INTEGER PRIMARY KEY column; nil if there is none.
  private var identityColumn: Int? {
    guard source.key.count == 1, let index = source.key.first, !source.flags.contains(.withoutRowid),
      source.columns[index].declaredType.asciiUppercased == "INTEGER",
      SQLText.tokens(Array(source.createText.utf8)).contains(where: { $0.word == "PRIMARY" })
    else { return nil }
    return type(of: source.columns[index]).kind == .int8 ? index : nil
  }

  private mutating func defaultText(_ column: TableSchema.Column, _ type: PostgresType) -> String? {
    guard let text = column.defaultText else { return nil }
    if let mapped = DefaultText.postgres(text, of: column, type) { return mapped.isEmpty ? nil : mapped }
    notices.append("the default of \(source.name).\(column.name) is left out: \(text)")
    return nil
  }

  private func checkLimits() throws(CairnError) {
    func refused(_ why: String) -> CairnError {
      CairnError(
        .tableRefused, "table \(source.name) cannot exist in PostgreSQL: \(why)",
        hint: "change or drop it at the source, or leave it out with 'tables' (--tables) from the start",
        context: ["table": source.name])
    }
    if source.columns.count > 1600 { throw refused("it has \(source.columns.count) columns, more than 1600") }
    let reserved: Set<NameKey> = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"]
    for column in source.columns where reserved.contains(names.postgresName(column.name)) {
      throw refused("\(column.name) is the name of a system column in PostgreSQL")
    }
  }

  // MARK: Keys and indexes

  private func foreignKeys() -> [TableSchema.ForeignKey] {
    source.foreignKeys.filter { key in
      !key.columns.isEmpty && (key.references.isEmpty || key.references.count == key.columns.count)
    }.map { key in
      .init(
        columns: key.columns, namespace: "public", table: names.postgresName(key.table),
        references: key.references.map(names.postgresName), onUpdate: key.onUpdate, onDelete: key.onDelete)
    }
  }

  /// Returns the unique constraints and the indexes of the PostgreSQL table.
  private mutating func indexes(_ target: TableSchema) -> (constraints: [[Int]], objects: [TableSchema.Object]) {
    var constraints = source.uniques.filter { Set($0) != Set(source.key) || source.flags.contains(.wholeRow) }
    var objects: [TableSchema.Object] = []
    for object in source.objects {
      guard let index = IndexText(object.text, columns: source.columns.map(\.name), engine: .sqlite) else {
        notices.append("the index \(object.name) of \(source.name) is left out: \(object.text)")
        continue
      }
      let columns = index.terms.map(\.column)
      if index.isUnique {
        constraints.removeAll { $0 == columns }
        guard isUnambiguous(columns) else {
          note(unique: columns)
          continue
        }
        if Set(columns) == Set(source.key) { continue }
      }
      if columns.contains(where: { type(of: source.columns[$0]).kind == .json }) {
        notices.append("the index \(object.name) of \(source.name) is left out: PostgreSQL has no order for json")
        continue
      }
      let terms = index.terms.map {
        target.columns[$0.column].name.postgresIdentifier + ($0.isDescending ? " DESC" : "")
      }
      let name = names.postgresName(object.name)
      objects.append(
        .init(
          name: name,
          text: "CREATE \(index.isUnique ? "UNIQUE " : "")INDEX \(name.postgresIdentifier) ON "
            + "\(target.postgresIdentifier) (\(terms.joined(separator: ", ")))"))
    }
    for columns in constraints where !isUnambiguous(columns) { note(unique: columns) }
    return (constraints.filter(isUnambiguous), objects)
  }

  /// Returns whether different values in these SQLite columns stay different in PostgreSQL. In a column without a type,
  /// 5 and '5' become equal texts.
  private func isUnambiguous(_ columns: [Int]) -> Bool {
    columns.allSatisfy { index in
      let column = source.columns[index]
      let isOpen = column.affinity == "BLOB" || column.declaredType.asciiUppercased == "ANY"
      return !isOpen || type(of: column).kind == .bytea || isWayBack(column)
    }
  }

  private mutating func note(unique columns: [Int]) {
    let list = columns.map { source.columns[$0].name }.joined(separator: ", ")
    notices.append(
      "the unique key of \(source.name) over \(list) is left out: PostgreSQL does not separate numbers from text")
  }

  private mutating func noteWhatIsLeft() {
    for index in keyed.sorted() where PostgresType(declaration: source.columns[index].declaredType).kind == .json {
      guard type(of: source.columns[index]).kind == .text else { continue }
      notices.append(
        "column \(source.name).\(source.columns[index].name) becomes text: PostgreSQL cannot compare json in a key")
    }
    let words = Set(SQLText.tokens(Array(source.createText.utf8)).map(\.word))
    if words.contains("CHECK") { notices.append("the CHECK constraints of \(source.name) are left out") }
    if words.contains("AS") { notices.append("the generated columns of \(source.name) are left out") }
    if !words.isDisjoint(with: ["NOCASE", "RTRIM"]) {
      notices.append("the collations of \(source.name) are left out: PostgreSQL treats A and a as different")
    }
    if source.flags.contains(.nullableKey) {
      notices.append(
        "the key of \(source.name) may be NULL: it becomes a unique key, and the replica identity is the whole row")
    }
  }

  // MARK: The statement

  private func createText(_ table: TableSchema, uniques: [[Int]]) -> String {
    func list(_ columns: [Int]) -> String {
      "(" + columns.map { table.columns[$0].name.postgresIdentifier }.joined(separator: ", ") + ")"
    }
    var lines = table.columns.map { column in
      column.name.postgresIdentifier + " " + column.declaredType
        + (column.collation.isEmpty ? "" : " COLLATE \(column.collation.quotedName)")
        + (column.isNotNull ? " NOT NULL" : "")
        + (column.identity == .byDefault ? " GENERATED BY DEFAULT AS IDENTITY" : "")
        + (column.defaultText.map { " DEFAULT \($0)" } ?? "")
    }
    let key = table.key
    let isNullable = table.flags.contains(.nullableKey)
    if !key.isEmpty, !isNullable || isUnambiguous(key) {
      lines.append((isNullable ? "UNIQUE " : "PRIMARY KEY ") + list(key))
    }
    lines += uniques.map { "UNIQUE " + list($0) }
    let name = table.postgresIdentifier
    var statements: [String] = []
    if table.namespace != "public" {
      statements.append("CREATE SCHEMA IF NOT EXISTS \(table.namespace.postgresIdentifier);")
    }
    statements.append("CREATE TABLE IF NOT EXISTS \(name) (\n  \(lines.joined(separator: ",\n  "))\n);")
    // Without REPLICA IDENTITY, PostgreSQL refuses updates and deletes as soon as a publication includes the table.
    if key.isEmpty || isNullable { statements.append("ALTER TABLE \(name) REPLICA IDENTITY FULL;") }
    return statements.joined(separator: "\n")
  }
}
