import Changes
import Mapping
import PostgresKit

/// Makes the tables of a PostgreSQL target follow those of the source: create, drop, rename, reshape; indexes and foreign
/// keys once the rows are there.
///
/// Tables that Cairn made follow. A table that was there before is left alone: apply stops until a person has changed
/// it, and goes on when its shape is the one that is wanted.
struct PostgresShape {
  let connection: PostgresConnection
  let state: PostgresTargetState
  let progress: ApplyProgress

  func read(_ table: PostgresTargetState.Table) throws -> PostgresTargetTable? {
    try PostgresTargetTable.read(table.schema, table.name, connection)
  }

  // MARK: Create and drop

  /// Creates the table; its indexes and foreign keys wait for its rows. False when it was there: then it has been looked
  /// at.
  func create(_ source: TableSchema, _ mapped: TableSchema) throws -> Bool {
    let known = PostgresTargetState.Table(schema: mapped.namespace, name: mapped.name)
    if try read(known) != nil {
      _ = try checked(source, mapped, known)
      return false
    }
    try run(mapped.createText, mapped)
    for object in mapped.objects {
      try state.add(
        .init(
          schema: mapped.namespace, table: mapped.name, kind: .index, name: object.name, statement: object.text))
    }
    for pending in foreignKeys(of: mapped) { try state.add(pending) }
    return true
  }

  func drop(_ mapped: TableSchema, _ known: PostgresTargetState.Table) throws {
    guard try read(known) != nil else { return }
    guard known.isCreated else { throw stopped("drop", mapped, nil) }
    try run("DROP TABLE \(known.schema.quotedName).\(known.name.quotedName)", mapped)
    try state.removePending(of: known)
  }

  // MARK: What is there

  /// The target's table, which must have every column, must hold what the source's columns hold, and must tell rows
  /// apart as the source does. Throws `schema-stopped`.
  func checked(_ source: TableSchema, _ mapped: TableSchema, _ known: PostgresTargetState.Table) throws
    -> PostgresTargetTable
  {
    guard let table = try read(known) else { throw stopped("write to", mapped, "there is no such table") }
    for (column, wanted) in zip(source.columns, mapped.columns) {
      guard let theirs = table.column(wanted.name) else {
        throw stopped("write to", mapped, "it has no column \(wanted.name)")
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
    let names = mapped.columns.map(\.name)
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
    return table
  }

  // MARK: Indexes and foreign keys

  func makeIndexes(_ table: PostgresTargetState.Table, _ sink: PostgresSink) throws {
    for pending in try state.pending(.index) where pending.schema == table.schema && pending.table == table.name {
      try make(pending, sink) { try connection.execute(pending.statement) }
    }
  }

  /// Makes those for which both tables have their rows. One that the rows do not keep stays NOT VALID: it holds for what
  /// programs write from now on.
  func makeForeignKeys(_ tables: [String: PostgresTargetState.Table], _ sink: PostgresSink) throws {
    func isReady(_ schema: String, _ name: String) -> Bool {
      guard let table = tables.values.first(where: { $0.schema == schema && $0.name == name }) else { return true }
      return table.refreshing == nil && (table.isLoaded || !table.isCreated)
    }
    for pending in try state.pending(.foreignKey)
    where isReady(pending.schema, pending.table) && isReady(pending.needsSchema, pending.needsTable) {
      guard try PostgresTargetTable.read(pending.needsSchema, pending.needsTable, connection) != nil else { continue }
      let table = "\(pending.schema.quotedName).\(pending.table.quotedName)"
      try connection.execute("SET LOCAL enable_seqscan = on")
      try make(pending, sink) {
        try connection.execute("\(pending.statement) NOT VALID")
        do {
          _ = try sink.attempt {
            try connection.execute("ALTER TABLE \(table) VALIDATE CONSTRAINT \(pending.name.quotedName)")
          }
        } catch let error as PostgresError where error.isConstraint {
          progress.note(
            "foreign key \(pending.name) of \(table) stays NOT VALID, as rows of the source break it: \(error.detail)")
        }
      }
      try connection.execute("SET LOCAL enable_seqscan = off")
    }
  }

  private func make(_ pending: PostgresTargetState.Pending, _ sink: PostgresSink, _ body: () throws -> Void) throws {
    do { try sink.attempt(body) } catch let error as PostgresError
      where !error.isServerGone && !error.isTransient && !error.isCancelled
    {
      // 42P07, 42710: it is there already.
      if error.sqlState != "42P07", error.sqlState != "42710" {
        progress.note(
          "\(pending.kind.rawValue) \(pending.name) of \(pending.schema).\(pending.table) was not made: \(error.message)"
        )
      }
    }
    try state.remove(pending)
  }

  func foreignKeys(of mapped: TableSchema) -> [PostgresTargetState.Pending] {
    var taken: Set<[Int]> = []
    return mapped.foreignKeys.map { key in
      let columns = key.columns.map { mapped.columns[$0].name }
      // The same columns may reference two tables.
      let more = taken.insert(key.columns).inserted ? [] : [key.table]
      let name = Self.constraintName([mapped.name] + columns + more + ["fkey"])
      let references = key.references.isEmpty ? "" : "(\(key.references.map(\.quotedName).joined(separator: ",")))"
      let actions =
        [("ON UPDATE", key.onUpdate), ("ON DELETE", key.onDelete)].filter {
          !$0.1.isEmpty && $0.1 != "NO ACTION"
        }
        .map { " \($0.0) \($0.1)" }.joined() + key.timing.clause
      return .init(
        schema: mapped.namespace, table: mapped.name, kind: .foreignKey, name: name,
        statement:
          "ALTER TABLE \(mapped.qualifiedName) ADD CONSTRAINT \(name.quotedName) FOREIGN KEY (\(columns.map(\.quotedName).joined(separator: ","))) REFERENCES \(key.namespace.quotedName).\(key.table.quotedName)\(references)\(actions)",
        needsSchema: key.namespace, needsTable: key.table)
    }
  }

  /// At most 63 bytes, as PostgreSQL takes them; what is cut off is told apart by a sum over it.
  static func constraintName(_ parts: [String]) -> String {
    let name = parts.joined(separator: "_")
    guard name.utf8.count > 63 else { return name }
    var sum: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in name.utf8 { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
    var head = name
    while head.utf8.count > 46 { head.removeLast() }
    return head + "_" + sum.hex(16)
  }

  // MARK: Errors

  func run(_ text: String, _ mapped: TableSchema) throws {
    do { try connection.execute(text) } catch let error as PostgresError
      where !error.isServerGone && !error.isTransient && !error.isCancelled && error.sqlState != "53100"
    {
      throw CairnError(
        error.isPrivilege ? .privilegeMissing : .schemaStopped,
        "\(connection.place) refuses the shape of table \(mapped.fullName): \(error.message)",
        hint: "run this at the target once it is possible, then run again: \(text)",
        context: ["table": mapped.fullName])
    }
  }

  func stopped(_ what: String, _ mapped: TableSchema, _ why: String?) -> CairnError {
    CairnError(
      .schemaStopped,
      "cannot \(what) table \(mapped.fullName) of \(connection.place): \(why ?? "Cairn did not create it")",
      hint: what == "drop"
        ? "drop or rename it by hand, then run again"
        : "make it so by hand and run again; wanted is: \(mapped.createText)", context: ["table": mapped.fullName])
  }
}
