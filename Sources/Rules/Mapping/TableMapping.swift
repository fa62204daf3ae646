import Changes

/// The mapping of a source table to the target's engine: name, columns, types, keys, and the statements that create the
/// table. Source and target have the same order of columns.
///
/// A schema from a trail is untrusted: ``target`` contains only text from ``TableSchema/parsed``.
///
///     let mapping = try TableMapping(schema, to: .postgres)
///     mapping.target.name
///     mapping.contracts.map(\.verdict)
package struct TableMapping: Sendable {
  package let source: TableSchema
  /// The table at the target. `createText` creates the table with its schema, types and sequences. In PostgreSQL, it
  /// leaves out foreign keys. Create the indexes in `objects` afterwards.
  package private(set) var target: TableSchema
  package private(set) var contracts: [ColumnContract]
  /// Messages about properties of the source's table that the target's table lacks, or has in another form.
  package let notices: [String]
  /// The notices about objects that the DDL parser does not know.
  package let leftOut: [String]

  /// Maps a table of a source to an engine.
  ///
  /// - Parameter reach: The objects that the definition may use beside the table.
  /// - Throws: `name-collision` if two columns get the same name; `table-refused` if the target cannot have such a
  ///   table; `rule-refused` if a rule is impossible for the table.
  package init(
    _ source: TableSchema, to engine: Engine, names: NamePolicy = .fold, reach: TargetReach = TargetReach()
  ) throws(CairnError) {
    try self.init(source, to: engine, names: names, restores: true, reach: reach)
  }

  /// Maps a table to the other engine.
  ///
  /// - Parameter restores: Whether an unchanged SQLite copy of a PostgreSQL table is mapped to that original table.
  init(
    _ source: TableSchema, to engine: Engine, names: NamePolicy, restores: Bool, reach: TargetReach
  ) throws(CairnError) {
    self.source = source
    if let refusal = source.treatment?.refusal {
      throw CairnError(
        .ruleRefused, refusal.message, hint: refusal.hint, remedy: .badInput, context: ["table": source.fullName])
    }
    try source.checkNames()
    var (safe, left) = source.parsed(within: reach)
    safe.foreignKeys.removeAll { key in
      let place = Self.targetPlace(of: key, from: source.engine, in: engine, names: names)
      guard !reach.includes(place.namespace, place.name, in: engine) else { return false }
      // SQLite's own statement includes them, and its parser has added their notices.
      if (source.engine, engine) != (.sqlite, .sqlite) {
        let table = place.namespace.isEmpty ? place.name : "\(place.namespace).\(place.name)"
        left.append("table \(source.fullName): a foreign key is left out: \(TargetReach.why(table))")
      }
      return true
    }
    leftOut = left
    switch (source.engine, engine) {
    case (.sqlite, .sqlite), (.postgres, .postgres):
      target = safe
      if safe.engine == .sqlite, safe.createText.isEmpty {
        target.createText = safe.ownText(typesOf: safe, isWhole: true)
      }
      notices = left
      contracts = source.columns.map { column in
        let type = column.declaredType.isEmpty ? "no type" : column.declaredType
        return ColumnContract(column: column.name, sourceType: type, targetType: type, verdict: .lossless)
      }
    case (.postgres, .sqlite):
      var draft = SQLiteDraft(safe)
      target = try draft.schema()
      notices = left + draft.notices
      contracts = source.columns.map(ColumnContract.init(toSQLite:))
    case (.sqlite, .postgres):
      var draft = PostgresDraft(safe, names: names, restores: restores)
      let target = try draft.schema()
      self.target = target
      notices = left + draft.notices
      contracts = zip(source.columns, target.columns).map { column, mapped in
        ColumnContract(column, of: .sqlite, to: PostgresType(mapped), original: draft.isWayBack(column))
      }
      // The foreign keys of the original table.
      self.target.foreignKeys.removeAll { !reach.includes($0.namespace, $0.table, in: .postgres) }
    }
  }

  /// Returns the mapping with the column types of an existing target table.
  package func onto(_ table: TableSchema) -> TableMapping {
    var mapping = self
    for (index, column) in target.columns.enumerated() {
      guard let there = table.columns.first(where: { $0.name.sqliteKey == column.name.sqliteKey }),
        there.declaredType != column.declaredType || there.baseType != column.baseType
      else { continue }
      mapping.target.columns[index].declaredType = there.declaredType
      mapping.target.columns[index].baseType = there.baseType
      let was = contracts[index]
      mapping.contracts[index] =
        target.engine == .postgres
        ? ColumnContract(source.columns[index], of: source.engine, to: PostgresType(there))
        : ColumnContract(
          column: was.column, sourceType: was.sourceType,
          targetType: there.declaredType.isEmpty ? "no type" : there.declaredType, verdict: was.verdict)
    }
    return mapping
  }

  /// Returns the mapping with another name at the target.
  package func named(_ name: String) -> TableMapping {
    var mapping = self
    mapping.target.name = name
    return mapping
  }

  /// The types of the target's columns, if the target is PostgreSQL.
  package var postgresTypes: [PostgresType] { target.columns.map { PostgresType($0) } }

  /// Returns the name of the source's table at the target.
  package static func targetName(of source: TableSchema, in engine: Engine, names: NamePolicy = .fold) -> String {
    switch (source.engine, engine) {
    case (.postgres, .sqlite): NamePolicy.sqliteName(namespace: source.namespace, name: source.name)
    case (.sqlite, .postgres): PostgresDraft(source, names: names).fullName
    default: source.fullName
    }
  }

  /// Returns the schema and name of the source's table at the target. The schema is empty in SQLite.
  package static func targetPlace(
    of source: TableSchema, in engine: Engine, names: NamePolicy = .fold
  ) -> (namespace: String, name: String) {
    switch (source.engine, engine) {
    case (.postgres, .sqlite): ("", NamePolicy.sqliteName(namespace: source.namespace, name: source.name))
    case (.sqlite, .postgres): PostgresDraft(source, names: names).place
    default: (source.namespace, source.name)
    }
  }

  private static func targetPlace(
    of key: TableSchema.ForeignKey, from source: Engine, in target: Engine, names: NamePolicy
  ) -> (namespace: String, name: String) {
    switch (source, target) {
    case (.postgres, .sqlite): ("", NamePolicy.sqliteName(namespace: key.namespace, name: key.table))
    case (.sqlite, .postgres): ("public", names.postgresName(key.table))
    default: (key.namespace, key.table)
    }
  }

  /// Returns the error for two tables of a source that get the same name at the target.
  package static func collision(_ one: String, _ other: String, at target: String) -> CairnError {
    CairnError(
      .nameCollision,
      "tables \(one) and \(other) of the source would both be \(target) at the target",
      hint: "rename one of them, or leave one out with 'tables' (--tables)", context: ["table": other])
  }

  /// Throws `name-collision` if `key` gives the same name at the target to two columns of a table.
  static func checkColumns(_ table: TableSchema, _ key: (String) -> String) throws(CairnError) {
    var seen: [NameKey: String] = [:]
    for column in table.columns {
      let name = key(column.name)
      if let other = seen[name] {
        throw CairnError(
          .nameCollision,
          "columns \(other) and \(column.name) of table \(table.fullName) would both be \(name) at the target",
          hint: table.engine == .sqlite
            ? "use names = \"keep\", or rename one of them" : "rename one of them: SQLite ignores case in names",
          context: ["table": table.fullName])
      }
      seen[name] = column.name
    }
  }

  static let actions: Set<NameKey> = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"]

  /// Returns the actions of a foreign key: ` ON UPDATE … ON DELETE … DEFERRABLE …`. Actions that are the default are
  /// left out.
  static func actions(of key: TableSchema.ForeignKey) -> String {
    (actions.contains(key.onUpdate) ? " ON UPDATE \(key.onUpdate)" : "")
      + (actions.contains(key.onDelete) ? " ON DELETE \(key.onDelete)" : "") + key.timing.clause
  }
}

extension TableSchema {
  /// Checks that a database can have a table with these names.
  ///
  /// - Throws: `table-refused` if a name has the character NUL, or if two columns have one name.
  func checkNames() throws(CairnError) {
    if hasNUL { throw refused("a name with the character NUL, which no database takes") }
    var seen: Set<NameKey> = []
    for column in columns where !seen.insert(column.name.key(in: engine)).inserted {
      throw refused("two columns \(column.name), which no database takes")
    }
  }

  /// Checks that statements about rows of the table can be written.
  ///
  /// - Throws: `table-refused` if the table has no columns.
  package func checkHasColumns() throws(CairnError) {
    if columns.isEmpty { throw refused("no columns, so that no statement can name its rows") }
  }

  /// Whether a name in the definition has the character NUL. A program in C such as a shell ends its line there.
  private var hasNUL: Bool {
    var names = [namespace, name] + objects.map(\.name)
    for column in columns { names += [column.name, column.collation] }
    for key in foreignKeys { names += [key.namespace, key.table] + key.references }
    return names.contains { $0.utf8.contains(0) } || original?.hasNUL == true
  }

  private func refused(_ why: String) -> CairnError {
    CairnError(
      .tableRefused, "table \(fullName) has \(why)",
      hint: "run 'cairn trail verify' at the node that sends the trail; leave the table out with 'tables'",
      remedy: .badInput, context: ["table": fullName])
  }
}
