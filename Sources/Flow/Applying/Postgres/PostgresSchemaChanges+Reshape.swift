import Changes
import Mapping
import PostgresKit

// Tables whose name or columns change at the source.
extension PostgresSchemaChanges {
  /// A schema change of one table: as the source made it, and as it is for PostgreSQL.
  struct Change {
    let source: TableDifference
    let before: TableSchema
    let after: TableSchema
    let plan: SchemaPlan
    var name: String { source.after.fullName }
    var isRetyped: Bool { source.changes.contains { if case .retypeColumn = $0 { true } else { false } } }
    var phrases: [String] {
      source.isEmpty ? ["a change of constraints of table \(after.fullName)"] : source.phrases
    }
  }

  /// Makes a schema change at the target as far as the policy allows. Returns the new state of the table.
  ///
  /// - Throws: `schema-stopped` if the operator must make the schema change, or if the server refuses it.
  func make(_ change: Change, _ known: PostgresApplyState.Table, _ sink: PostgresSink) throws
    -> PostgresApplyState.Table
  {
    let (plan, policy, right) = (change.plan, change.plan.policy, change.plan.right)
    var moved = known
    let isRenamed =
      !change.before.namespace.hasSameBytes(as: change.after.namespace)
      || !change.before.name.hasSameBytes(as: change.after.name)
    if isRenamed { (moved.schema, moved.name) = (change.after.namespace, change.after.name) }
    let target = try PostgresAlteration.Target.read(known, connection)
    var there = try target ?? PostgresAlteration.Target.read(moved, connection)
    there?.types = try types(of: change)
    there?.isCreated = right.isCreated
    if target != nil { try there.map { there = try MovedNames(changes: self, from: known, to: moved).noted(in: $0) } }
    let names = (change.before.objects + change.after.objects).map(\.name)
    let absent = names.filter { name in !(there?.indexes.contains { $0.name.hasSameBytes(as: name) } ?? true) }
    there?.takenNames = try takenNames(among: absent, in: moved.schema)
    let table = try target == nil ? read(moved) : read(known)
    let columns = table?.columns ?? []
    let alteration = PostgresAlteration(
      change.before, change.after, origins: change.source.origins, target: there, isRefreshed: change.plan.isRefreshed)
    let refusal = SchemaRefusal(
      place: connection.place, phrases: change.phrases, before: change.before.createText,
      after: change.after.createText, statements: alteration.all)
    guard there != nil else {
      if policy == .ignore { return moved }
      // Only a copy brings the rows again.
      guard plan.mayCreateAgain else {
        throw refusal.error(
          noTable: change.after.fullName, table: change.name, goesBothWays: right.goesBothWays)
      }
      moved.isCreated = try create(change.source.after, change.after, .follow)
      return moved
    }
    if let table {
      try proof.checkChange(
        of: table, change.after.fullName, isAltered: policy == .follow, isRetyped: change.isRetyped)
    }
    let columnNames = Set(there?.columns.map(\.name.nameKey) ?? [])
    if let taken = plan.takenName(alteration.difference, in: columnNames) {
      throw refusal.error(inTheWay: taken, table: change.name)
    }
    if let why = plan.refusalOfReusedNames(alteration.difference) {
      throw refusal.error(reusedNames: why, table: change.name)
    }
    switch policy {
    case .ignore:
      if isRenamed, target != nil {
        throw refusal.error(
          "it has another name now, and 'ddl' is ignore", table: change.name)
      }
      if let type = try unfitType(change) {
        throw refusal.error(
          "\(type) has other attributes now, and 'ddl' is ignore", table: change.name)
      }
      try checkFilled(columns, change, moved, refusal, sink)
    case .stop:
      let why = right.refusal
      if isRenamed, target != nil { throw refusal.error(why, table: change.name) }
      if let missing = try whatIsMissing(change, moved) {
        throw refusal.error("\(why), and \(missing)", table: change.name)
      }
      try checkFilled(columns, change, moved, refusal, sink)
    case .follow:
      try checkTypes([change.before, change.after], known, refusal, named: change.name)
      if let why = try objection(alteration.alteredTypes, known) { throw refusal.error(why, table: change.name) }
      try checkOwnTypes(columns, change, refusal)
      let before = try UntrustedObject.read(of: known, connection)
      try follow(alteration, change, known, moved, refusal, sink)
      try checkOwners(of: moved, since: before, refusal, named: change.name)
      try checkFilled(columns, change, moved, refusal, sink)
    }
    return moved
  }

  /// Returns whether a schema change is not made yet: the target's table and its columns have their former names.
  func isOpen(_ change: Change, _ known: PostgresApplyState.Table) throws -> Bool {
    func has(_ schema: TableSchema) -> Bool {
      known.schema.hasSameBytes(as: schema.namespace) && known.name.hasSameBytes(as: schema.name)
    }
    guard has(change.before), let there = try read(known) else { return false }
    if !has(change.after) {
      guard try read(.init(schema: change.after.namespace, name: change.after.name)) == nil else { return false }
    }
    return TableDifference(change.before, change.after, origins: change.source.origins)
      .isOpen(in: Set(there.columns.map(\.name.nameKey)))
  }

  // MARK: By the operator

  /// Returns a text that names a difference between the target's table and the table after the schema change. Nil if
  /// there is none.
  private func whatIsMissing(_ change: Change, _ known: PostgresApplyState.Table) throws -> String? {
    guard let table = try read(known) else { return "there is no such table" }
    do { _ = try checked(change.source.after, change.after, strictly(known)) } catch let error as CairnError
      where error.code == .schemaStopped
    {
      return error.message
    }
    for part in change.source.changes {
      switch part {
      case .dropColumn(let index):
        let name = change.before.columns[index].name
        if table.column(name) != nil, !change.after.columns.contains(where: { $0.name.hasSameBytes(as: name) }) {
          return "it still has the column \(name)"
        }
      case .retypeColumn(_, let index):
        let (wanted, was) = (change.after.columns[index], change.before)
        guard let column = table.column(wanted.name), PostgresType(wanted).name != column.type.name,
          was.columns.contains(where: { $0.declaredType == column.type.name })
        else { continue }
        return "its column \(wanted.name) is still \(column.type.name)"
      default: continue
      }
    }
    if let type = try unchangedType(change) { return "the type \(type) is still as it was" }
    let wanted = (change.after.uniques + [change.after.key]).map {
      Set($0.map { change.after.columns[$0].name.nameKey })
    }
    for unique in change.before.uniques + [change.before.key] where !unique.isEmpty {
      let names = unique.compactMap { old in
        change.source.origins.firstIndex(of: old).map { change.after.columns[$0].name }
      }
      guard names.count == unique.count, !wanted.contains(Set(names.map(\.nameKey))), table.key(over: names) != nil
      else { continue }
      return "it still has a unique key over \(names.joined(separator: ", "))"
    }
    return nil
  }

  /// Throws `schema-stopped` if the source adds a column, and the target already has one of that name whose type cannot
  /// hold the source's values.
  private func checkOwnTypes(
    _ there: [PostgresTargetTable.Column], _ change: Change, _ refusal: SchemaRefusal
  ) throws {
    for case .addColumn(let index) in change.source.changes {
      let (source, name) = (change.source.after.columns[index], change.after.columns[index].name)
      guard let own = there.first(where: { $0.name.hasSameBytes(as: name) }) else { continue }
      let wanted = PostgresType(change.after.columns[index])
      let contract = ColumnContract(source, of: change.source.after.engine, to: own.type)
      if case .refused(let why) = contract.verdict {
        throw refusal.error(ownColumn: name, "is \(own.type.name): \(why)", table: change.name)
      }
      // Integers of another length take most values; apply reports each row that does not fit.
      guard !wanted.name.hasSameBytes(as: own.type.name), own.type.kind != .text,
        !contract.misfits.hasSameBytes(as: ColumnContract(source, of: .sqlite, to: wanted).misfits)
      else { continue }
      throw refusal.error(
        ownColumn: name, "is \(own.type.name), and the new one is \(wanted.name)", table: change.name)
    }
  }

  /// - Parameter there: The target's columns before the schema change.
  private func checkFilled(
    _ there: [PostgresTargetTable.Column], _ change: Change, _ known: PostgresApplyState.Table,
    _ refusal: SchemaRefusal, _ sink: PostgresSink
  ) throws {
    try change.plan.checkFilled(
      change.source, of: change.source.after, from: change.before, to: change.after, named: change.name, refusal,
      note: progress.note
    ) { key -> SchemaPlan.OwnColumn<PostgresFilledRows>? in
      guard let own = there.first(where: { $0.name.nameKey == key }), let now = try read(known) else { return nil }
      let rows = PostgresFilledRows(
        table: now.qualifiedName, rowsName: now.rowsName, own: now.column(own.name) ?? own, connection: connection,
        sink: sink, store: change.plan.ownTrail.map { _ in PostgresDisplacedRows(connection) })
      let column = TableSchema.Column(name: own.name, defaultText: own.defaultText)
      return .init(column: column, wasFilled: own.wasFilled, rows: rows)
    }
  }

  private func strictly(_ known: PostgresApplyState.Table) -> PostgresApplyState.Table {
    var table = known
    table.isCreated = false
    return table
  }

  // MARK: By Cairn

  private func follow(
    _ alteration: PostgresAlteration, _ change: Change, _ known: PostgresApplyState.Table,
    _ moved: PostgresApplyState.Table, _ refusal: SchemaRefusal, _ sink: PostgresSink
  ) throws {
    func run() throws {
      try setReferencesAside(known, over: alteration.dropped.indexes)
      try keepingOthers(alteration, refusal, change) {
        for statement in alteration.statements { try connection.run(statement, []) }
      }
    }
    do { try sink.attempt(run) } catch let error as PostgresError where error.isOfShape {
      guard change.plan.isRefreshed, error.isConstraint || error.isBadValue else {
        throw refused(error, refusal, change)
      }
      // All rows are about to come again, but not the values of columns that only the target has.
      if let own = try ownValues(change, known) { throw refused(error, refusal, change, own: own) }
      do {
        try sink.attempt {
          if let table = try read(known) { try connection.execute("DELETE FROM \(table.rowsName)") }
          try run()
        }
      } catch let error as PostgresError where error.isOfShape { throw refused(error, refusal, change) }
    }
    try movePending(known, moved, change)
    for index in alteration.newIndexes {
      try state.add(
        .init(
          schema: moved.schema, table: moved.name, kind: .index, name: index.name))
    }
    for key in alteration.newForeignKeys { try state.add(.init(key, of: change.after)) }
    // Rows that the source no longer has may violate a unique index until the copy has replaced them.
    if !change.plan.isRefreshed { try makeIndexes(moved, of: change.after, sink) }
  }

  private func refused(
    _ error: PostgresError, _ refusal: SchemaRefusal, _ change: Change, own: String? = nil
  ) -> CairnError {
    let text = error.message + (error.detail.isEmpty ? "" : ": \(error.detail)")
    let why = own.map {
      "; the table is not emptied for the following copy, because only the target has column \($0)"
    }
    return refusal.error("the server refuses it: \(text)\(why ?? "")", table: change.name)
  }

  private func ownValues(_ change: Change, _ known: PostgresApplyState.Table) throws -> String? {
    guard let table = try read(known) else { return nil }
    let names = Set((change.before.columns + change.after.columns).map(\.name.nameKey))
    let own = table.columns.filter { !names.contains($0.name) && !$0.isGenerated }.map(\.name.quotedName)
    guard !own.isEmpty else { return nil }
    let filled = own.map { "\($0) IS NOT NULL" }.joined(separator: " OR ")
    let found = try connection.first("SELECT 1 FROM \(table.rowsName) WHERE \(filled) LIMIT 1")
    return found == nil ? nil : own.joined(separator: ", ")
  }

  /// Updates a table's indexes and foreign keys in `cairn.pending` after a rename or other change of the table.
  private func movePending(
    _ known: PostgresApplyState.Table, _ moved: PostgresApplyState.Table, _ change: Change
  ) throws {
    let (before, after) = (PostgresForeignKey.all(of: change.before), PostgresForeignKey.all(of: change.after))
    for pending in try state.pending(.foreignKey) where pending.schema == known.schema && pending.table == known.name {
      if before.contains(where: { $0.name.hasSameBytes(as: pending.name) }),
        !after.contains(where: { $0.name.hasSameBytes(as: pending.name) })
      {
        try state.remove(pending)
      }
    }
    for pending in try state.pending(.index) where pending.schema == known.schema && pending.table == known.name {
      // The index is added again with its present definition at the source.
      try state.remove(pending)
      guard let object = change.after.objects.first(where: { $0.name.hasSameBytes(as: pending.name) }) else { continue }
      try state.add(
        .init(
          schema: moved.schema, table: moved.name, kind: .index, name: object.name))
    }
    if known.schema.hasSameBytes(as: moved.schema), known.name.hasSameBytes(as: moved.name) { return }
    try connection.run(
      """
      UPDATE cairn.pending SET schema_name = CASE WHEN (schema_name, table_name) = ($1, $2) THEN $3 ELSE schema_name END,
        table_name = CASE WHEN (schema_name, table_name) = ($1, $2) THEN $4 ELSE table_name END,
        needs_schema = CASE WHEN (needs_schema, needs_table) = ($1, $2) THEN $3 ELSE needs_schema END,
        needs_table = CASE WHEN (needs_schema, needs_table) = ($1, $2) THEN $4 ELSE needs_table END
      WHERE (schema_name, table_name) = ($1, $2) OR (needs_schema, needs_table) = ($1, $2)
      """, [known.schema, known.name, moved.schema, moved.name])
  }
}

extension PostgresAlteration.Target {
  static func read(_ table: PostgresApplyState.Table, _ connection: PostgresConnection) throws -> Self? {
    guard let there = try PostgresTargetTable.read(table.schema, table.name, connection) else { return nil }
    let name = "\(table.schema.quotedName).\(table.name.quotedName)"
    let kinds: [NameKey: Constraint.Kind] = [
      "p": .primary, "u": .unique, "c": .check, "f": .foreign, "x": .exclude,
    ]
    let constraints = try connection.query(
      """
      SELECT k.conname, k.contype, pg_get_constraintdef(k.oid), (SELECT json_agg(a.attname ORDER BY c.place)
        FROM unnest(k.conkey) WITH ORDINALITY AS c(n, place) JOIN pg_attribute a ON a.attrelid = k.conrelid
          AND a.attnum = c.n)
      FROM pg_constraint k WHERE k.conrelid = to_regclass($1) ORDER BY k.conname
      """, [name])
    let indexes = try connection.query(
      """
      SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      WHERE i.indrelid = to_regclass($1) AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid
        AND k.conrelid = i.indrelid) ORDER BY c.relname
      """, [name])
    let collations = try connection.query(
      """
      SELECT a.attname, quote_ident(n.nspname) || '.' || quote_ident(l.collname) FROM pg_attribute a
        JOIN pg_type t ON t.oid = a.atttypid JOIN pg_collation l ON l.oid = a.attcollation
        JOIN pg_namespace n ON n.oid = l.collnamespace
      WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND a.attcollation <> t.typcollation
      """, [name])
    return Self(
      namespace: table.schema, name: table.name,
      columns: there.columns.map { column in
        var known = Column(
          name: column.name, type: column.type.name, isNotNull: column.isNotNull, isGenerated: column.isGenerated,
          identity: column.identity)
        known.collation = collations.first { $0[0].hasSameBytes(as: column.name) }?[1] ?? ""
        known.defaultText = column.defaultText
        return known
      },
      constraints: constraints.compactMap { row in
        guard let kind = kinds[row[1] ?? ""], let text = row[2] else { return nil }
        return .init(
          name: row[0] ?? "", kind: kind, columns: names(row[3]),
          text: text.hasSuffix(" NOT VALID") ? String(text.dropLast(10)) : text)
      }, indexes: indexes.map { .init(name: $0[0] ?? "", text: $0[1] ?? "") })
  }

  static func names(_ json: String?) -> [String] {
    guard let json, case .list(let list)? = try? JSONReader.read(Array(json.utf8)) else { return [] }
    return list.compactMap { if case .text(let name) = $0 { name } else { nil } }
  }
}

extension PostgresTargetTable.Column {
  /// The column as an SQL term that can be compared with a literal: its name, cast to text for `json` and `xml`. Nil if
  /// its type cannot be compared.
  fileprivate var comparable: String? {
    if hasEquality { return name.quotedName }
    return ["json", "xml"].contains(castType) ? "\(name.quotedName)::text" : nil
  }
}

/// The rows of a table of a PostgreSQL target in a column that the source has added and the target already had.
private struct PostgresFilledRows: FilledRows {
  let table: String
  /// The table's name without tables that inherit from it.
  let rowsName: String
  let own: PostgresTargetTable.Column
  let connection: PostgresConnection
  let sink: PostgresSink
  let store: PostgresDisplacedRows?

  func areThere(where condition: String) throws -> Bool {
    try sink.attempt { try connection.first("SELECT 1 FROM \(rowsName) WHERE \(condition) LIMIT 1") } != nil
  }

  func condition(_ column: String, is isEqual: Bool, _ literal: String) -> String? {
    if literal == "NULL" { return "\(column.quotedName) IS \(isEqual ? "" : "NOT ")NULL" }
    return own.comparable.map { "\($0) IS \(isEqual ? "NOT " : "")DISTINCT FROM \(literal)" }
  }

  func statements(settingDefault literal: String, of column: String) -> [String] {
    ["ALTER TABLE \(table) ALTER COLUMN \(column.quotedName) SET DEFAULT \(literal)"]
  }

  func value(_ literal: String, of column: String) throws -> Value {
    let text = try connection.first("SELECT CAST(\(literal) AS \(own.type.name))::text")
    return text.map { PostgresForm.value(Array($0.utf8), own.type) } ?? .null
  }
}
