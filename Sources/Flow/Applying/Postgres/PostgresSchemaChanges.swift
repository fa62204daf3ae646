import Changes
import Mapping
import PostgresKit

/// Makes schema changes at a PostgreSQL target. Indexes and foreign keys are created later, when the tables have their
/// rows.
///
/// Throws `schema-stopped` for changes that the operator must decide or that the server refuses.
struct PostgresSchemaChanges {
  let connection: PostgresConnection
  let state: PostgresApplyState
  let progress: ApplyProgress
  let tables: [NameKey: PostgresApplyState.Table]
  /// The suspended tables, by their names in apply's state. Foreign keys of these tables, and to them, are not created.
  let waiting: Set<NameKey>
  let isCatchUp: Bool
  let proof: OwnersProof
  var scope = TargetScope()
  /// The longest wait for a table's lock, in ms. Meanwhile, other sessions that need the table wait for apply.
  var lockMilliseconds: Int { isCatchUp ? 1000 : 2000 }

  func read(_ table: PostgresApplyState.Table) throws -> PostgresTargetTable? {
    try PostgresTargetTable.read(table.schema, table.name, connection)
  }

  /// Runs a body that changes the shape of one table. Throws `schema-stopped` for the table if the server refuses a
  /// statement for good.
  ///
  /// - Parameter phrases: The parts of the schema change; empty for a change of types alone.
  func refusing(
    _ phrases: @autoclosure () -> [String], _ source: TableSchema, _ body: () throws -> Void
  ) throws {
    do { try body() } catch let error as PostgresError where error.isOfShape {
      let phrases = phrases()
      let refusal = SchemaRefusal(
        place: connection.place, phrases: phrases.isEmpty ? ["the change of table \(source.fullName)"] : phrases)
      throw refusal.error(error.message, table: source.fullName)
    }
  }

  // MARK: Create and drop

  /// Creates a table without its indexes and foreign keys. If the table already exists, checks that it fits the source.
  ///
  /// - Returns: True if the table was created; false if it already exists, or if the policy is `ignore`.
  /// - Throws: `schema-stopped` if an existing table does not fit, the policy is `stop`, or the server refuses the
  ///   table.
  func create(_ source: TableSchema, _ mapped: TableSchema, _ policy: DDLPolicy) throws -> Bool {
    let known = PostgresApplyState.Table(schema: mapped.namespace, name: mapped.name)
    var refusal = SchemaRefusal(
      place: connection.place, phrases: ["create table \(mapped.fullName)"], after: mapped.createText)
    if try read(known) != nil {
      if policy == .ignore { return false }
      if policy == .follow { try TakenName(changes: self).check(known, source, refusal) }
      do { _ = try checked(source, mapped, known) } catch let error as CairnError where error.code == .schemaStopped {
        throw refusal.error(error.message, table: source.fullName)
      }
      return false
    }
    refusal.statements = PostgresScript.statements(mapped)
    switch policy {
    case .ignore: return false
    case .stop: throw refusal.error("'ddl' is stop", table: source.fullName)
    case .follow: break
    }
    let created = try connection.first(
      "SELECT count(*) FROM (SELECT FROM cairn.table_state WHERE created LIMIT \(SchemaRefusal.createdMax)) AS t")
    try refusal.checkRoom(created: created.flatMap { Int64($0) } ?? 0, table: source.fullName)
    try checkTypes([mapped], known, refusal, named: source.fullName)
    try prepareTypes(source, mapped, refusal)
    do {
      // Labels of an existing type have been added already, unless the type is out of reach.
      for statement in PostgresScript.creation(of: mapped)
      where scope.isOpen || !PostgresAlteration.isLabel(statement) { try connection.run(statement, []) }
    } catch let error as PostgresError where error.isOfShape {
      throw refusal.error(error.message, table: source.fullName)
    }
    // CREATE TABLE IF NOT EXISTS is silent if another relation has the name.
    guard try read(known) != nil else {
      throw refusal.error("the name \(mapped.fullName) is in use at the target", table: source.fullName)
    }
    // Another role may have made the table meanwhile.
    try TakenName(changes: self).check(known, source, refusal)
    try checkOwners(of: known, refusal, named: source.fullName)
    try publish(mapped)
    for object in mapped.objects {
      try state.add(
        .init(
          schema: mapped.namespace, table: mapped.name, kind: .index, name: object.name))
    }
    for key in PostgresForeignKey.all(of: mapped) { try state.add(.init(key, of: mapped)) }
    return true
  }

  /// If the target is captured too, adds a new table to the publications of its captures.
  ///
  /// Skips a table without a primary key: PostgreSQL would refuse its updates.
  private func publish(_ table: TableSchema) throws {
    let name = table.qualifiedName
    let publications = try connection.query(
      """
      SELECT pubname FROM pg_publication WHERE pubname ~ '^cairn_[0-9a-f]{16}$'
      AND NOT puballtables AND pg_has_role(pubowner, 'USAGE')
      AND EXISTS (SELECT FROM pg_index WHERE indrelid = $1::regclass AND indisprimary)
      """, [name])
    for row in publications {
      try connection.execute("ALTER PUBLICATION \((row[0] ?? "").quotedName) ADD TABLE ONLY \(name)")
    }
  }

  func drop(
    _ source: TableSchema, _ mapped: TableSchema, _ known: PostgresApplyState.Table, _ plan: SchemaPlan,
    _ sink: PostgresSink
  ) throws {
    guard try read(known) != nil else { return }
    let statement = "DROP TABLE \(known.schema.postgresIdentifier).\(known.name.postgresIdentifier)"
    let refusal = SchemaRefusal(
      place: connection.place, phrases: ["drop table \(mapped.fullName)"], before: mapped.createText,
      statements: [statement])
    switch plan.dropping(mapped.fullName) {
    case .refuse(let why): throw refusal.error(why, table: source.fullName)
    case .keep(let notice): return progress.note(notice)
    case .drop: break
    }
    do {
      try sink.attempt {
        try setReferencesAside(known)
        try connection.execute(statement)
      }
    } catch let error as PostgresError where error.isOfShape {
      throw refusal.error(error.message + (error.detail.isEmpty ? "" : ": \(error.detail)"), table: source.fullName)
    }
    try state.removePending(of: known)
  }

  // MARK: What is there

  /// Reads the target's table and checks that it can hold the source's rows and has the source's key.
  ///
  /// - Throws: `schema-stopped` if the table fails the check.
  func checked(
    _ source: TableSchema, _ mapped: TableSchema, _ known: PostgresApplyState.Table, goesBothWays: Bool = false
  ) throws -> PostgresTargetTable {
    guard let table = try read(known) else {
      let error = stopped("write to", mapped, "there is no such table")
      let hint = SchemaRefusal.hint(
        noTable: "\(known.schema).\(known.name)", mapped.createText, goesBothWays: goesBothWays)
      throw CairnError(error.code, error.message, hint: hint, context: error.context)
    }
    table.emptyColumns.forEach(progress.note)
    for (column, wanted) in zip(source.columns, mapped.columns) {
      guard let theirs = table.column(wanted.name) else {
        throw lacking(wanted.name, table, mapped, goesBothWays: goesBothWays)
      }
      if theirs.isGenerated { throw stopped("write to", mapped, "its column \(wanted.name) is generated") }
      if known.isCreated { continue }
      if case .refused(let why) = ColumnContract(column, of: source.engine, to: theirs.type).verdict {
        throw stopped("write to", mapped, "its column \(wanted.name) is \(theirs.type.name): \(why)")
      }
      let isNullable = !column.isNotNull && (column.keyOrdinal == 0 || source.flags.contains(.nullableKey))
      if theirs.isNotNull, isNullable {
        throw stopped("write to", mapped, "its column \(wanted.name) is NOT NULL, which the source's is not")
      }
    }
    guard !known.isCreated else { return table }
    let names = Set(mapped.columns.map(\.name.nameKey))
    for extra in table.columns where !names.contains(extra.name) {
      if extra.isNotNull, !extra.hasDefault, !extra.isGenerated, extra.identity == .none {
        throw stopped(
          "write to", mapped, "its column \(extra.name) is NOT NULL without a default, and the source has none such")
      }
    }
    let key = source.flags.contains(.wholeRow) ? [] : source.key.map { mapped.columns[$0].name }
    if !key.isEmpty, table.key(over: key) == nil {
      throw stopped("write to", mapped, "it has no unique key over \(key.joined(separator: ", "))")
    }
    // In a copy, one row would take the place of another. Between two columns of one type both ends compare alike.
    let isAlike =
      source.engine == .postgres
      && source.key.allSatisfy { index in
        let name = table.column(mapped.columns[index].name)?.type.name
        return PostgresType(source.columns[index]).name == name
      }
    let comparesAlike = try isAlike && !hasLooseCollation(source, mapped, known)
    if !comparesAlike, KeyCheck.declared(source) == nil,
      let problem = try KeyCheck.problem(of: mapped, in: .postgres(connection), includes: { _, _ in false })
    {
      throw stopped("write to", mapped, "\(problem), and the source distinguishes them: two rows could become one")
    }
    return table
  }

  /// Returns whether a key column has a nondeterministic collation at the target, and another one at the source.
  private func hasLooseCollation(
    _ source: TableSchema, _ mapped: TableSchema, _ known: PostgresApplyState.Table
  ) throws -> Bool {
    let loose = try connection.query(
      """
      SELECT a.attname, quote_ident(n.nspname) || '.' || quote_ident(l.collname) FROM pg_attribute AS a
        JOIN pg_collation AS l ON l.oid = a.attcollation JOIN pg_namespace AS n ON n.oid = l.collnamespace
      WHERE a.attrelid = to_regclass($1) AND NOT a.attisdropped AND NOT l.collisdeterministic
      """, ["\(known.schema.quotedName).\(known.name.quotedName)"])
    return source.key.contains { index in
      loose.contains { row in
        row[0]?.hasSameBytes(as: mapped.columns[index].name) ?? false
          && !(row[1] ?? "").hasSameBytes(as: source.columns[index].collation)
      }
    }
  }

  /// Returns those columns of the source that the target's table has, as indexes in `source`. Nil if the target has no
  /// such table. Used for the policy `ignore`.
  func columnsThere(_ source: TableSchema, _ mapped: TableSchema, _ known: PostgresApplyState.Table) throws -> [Int]? {
    guard let table = try read(known) else {
      progress.note("table \(mapped.fullName) is left out: the target lacks it, and 'ddl' is ignore")
      return nil
    }
    return try source.columns.indices.filter { index in
      let name = mapped.columns[index].name
      if table.column(name) != nil { return true }
      guard source.columns[index].keyOrdinal == 0 || source.flags.contains(.wholeRow) else {
        throw stopped("write to", mapped, "it has no column \(name), which is part of the key")
      }
      progress.note("column \(mapped.fullName).\(name) is left out: the target lacks it, and 'ddl' is ignore")
      return false
    }
  }

  private func lacking(
    _ column: String, _ table: PostgresTargetTable, _ mapped: TableSchema, goesBothWays: Bool
  ) -> CairnError {
    let error = stopped("write to", mapped, "it has no column \(column)")
    let there = mapped.columns.indices.filter { table.column(mapped.columns[$0].name) != nil }
    guard !there.isEmpty else { return error }
    let alteration = PostgresAlteration(
      mapped.keeping(there), mapped, origins: mapped.columns.indices.map { there.firstIndex(of: $0) })
    let statements = alteration.statements.filter { $0.contains(" ADD COLUMN ") }
    guard !statements.isEmpty else { return error }
    let hint = "run this at the target, and apply continues by itself:" + statements.map { "\n  \($0);" }.joined()
    if goesBothWays {
      return CairnError(
        error.code, error.message, hint: SchemaRefusal.hint(noColumn: hint), context: error.context)
    }
    return CairnError(
      error.code, error.message,
      hint: hint
        + "\nif rows lack it because 'ddl' was ignore, copy the table again afterwards (--existing overwrite)",
      context: error.context)
  }

  func stopped(_ what: String, _ mapped: TableSchema, _ why: String?) -> CairnError {
    CairnError(
      .schemaStopped,
      "cannot \(what) table \(mapped.fullName) of \(connection.place): \(why ?? "Cairn did not create it")",
      hint: "create it by hand, and apply continues by itself: \(mapped.createText)",
      context: ["table": mapped.fullName])
  }
}

extension PostgresError {
  /// Whether the server refuses a schema change for good, and not for a temporary reason such as a lock.
  var isOfShape: Bool { !isServerGone && !isTransient && !isCancelled && sqlState != "53100" }
}
