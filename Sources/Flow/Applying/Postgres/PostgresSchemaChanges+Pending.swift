import Changes
import Mapping
import PostgresKit
import SystemKit

// Indexes and foreign keys that are created after the rows of their tables are copied.
extension PostgresSchemaChanges {
  /// Creates a table's indexes that were put off until the table has its rows, and removes them from `cairn.pending`.
  func makeIndexes(_ table: PostgresApplyState.Table, of mapped: TableSchema, _ sink: PostgresSink) throws {
    for pending in try state.pending(.index) where pending.schema == table.schema && pending.table == table.name {
      guard let object = mapped.objects.first(where: { $0.name.utf8.elementsEqual(pending.name.utf8) }) else {
        try state.remove(pending)
        continue
      }
      do {
        let refusal = SchemaRefusal(place: connection.place, phrases: ["index \(pending.name)"])
        try checkTypes([mapped], table, refusal, named: mapped.fullName)
      } catch let error as CairnError {
        progress.note("\(error.message); \(error.hint)")
        try state.remove(pending)
        continue
      }
      try make(pending, sink) { try make(object, table, of: mapped, sink) }
    }
  }

  /// Creates an index unless the table has it. If its name is in use, the index gets a spare name.
  private func make(
    _ index: TableSchema.Object, _ table: PostgresApplyState.Table, of mapped: TableSchema, _ sink: PostgresSink
  ) throws {
    let place = "index \(index.name) of \(table.schema).\(table.name)"
    guard var there = try PostgresAlteration.Target.read(table, connection) else { return }
    there.isCreated = table.isCreated
    _ = IndexNames.adopt(&there, mapped, mapped)
    if let own = there.indexes.first(where: { $0.name.hasSameBytes(as: index.name) }) {
      if IndexNames.isAlike(own, index, in: mapped) { return }
      return progress.note("\(place) was not created: the target's table has another index of that name: \(own.text)")
    }
    let taken = try takenNames(among: [index.name], in: table.schema)
    for name in [index.name] + IndexNames.spare(for: index.name) where !taken.contains(name.nameKey) {
      do {
        let before = try UntrustedObject.read(of: table, connection)
        try sink.attempt {
          try connection.execute(IndexNames.statement(index.text, name))
          guard let found = try UntrustedObject.read(of: table, connection).first(where: { !before.contains($0) })
          else { return }
          throw PostgresError(
            sqlState: "42501", message: found.refusal, place: connection.place, isConnectionLost: false)
        }
      } catch let error as PostgresError where error.sqlState == "42P07" {
        // Another session has taken the name since.
        continue
      }
      if !name.hasSameBytes(as: index.name) {
        progress.note("\(place) is named \(name) at the target, as its name is in use there")
      }
      return
    }
    progress.note("\(place) was not created: its name is in use at the target, and 99 others with a number, too")
  }

  /// Returns the names that relations of a schema have, among some names and their spare names (``IndexNames``).
  func takenNames(among names: [String], in schema: String) throws -> Set<NameKey> {
    try namesInUse(among: names.flatMap { [$0] + IndexNames.spare(for: $0) }, in: schema)
  }

  /// Returns the names that relations of a schema have, among some names.
  func namesInUse(among names: [String], in schema: String) throws -> Set<NameKey> {
    guard !names.isEmpty else { return [] }
    let list = names.map(\.postgresLiteral).joined(separator: ", ")
    let rows = try connection.query(
      """
      SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname IN (\(list))
      """, [schema])
    return Set(rows.compactMap { $0[0]?.nameKey })
  }

  /// Creates the foreign keys in `cairn.pending` whose two tables have their rows and are not suspended.
  ///
  /// A foreign key that some rows violate stays NOT VALID, so it is checked only for new writes. If another session has
  /// locked one of the tables, the foreign key stays in `cairn.pending`, and apply tries again later.
  ///
  /// - Parameter some: The tables whose foreign keys, and foreign keys to them, are created; nil: all tables.
  /// - Returns: False if other sessions have locked tables of some foreign keys.
  @discardableResult
  func makeForeignKeys(_ sink: PostgresSink, of some: [PostgresApplyState.Table]? = nil) throws -> Bool {
    func isReady(_ schema: String, _ name: String) -> Bool {
      guard
        let (key, table) = tables.first(where: {
          $0.value.schema.hasSameBytes(as: schema) && $0.value.name.hasSameBytes(as: name)
        })
      else {
        return true
      }
      return table.refreshing == nil && (table.isLoaded || !table.isCreated) && !waiting.contains(key)
    }
    func isMeant(_ schema: String, _ name: String) -> Bool {
      some?.contains { $0.schema.hasSameBytes(as: schema) && $0.name.hasSameBytes(as: name) } ?? true
    }
    var isLocked = false
    for pending in try state.pending(.foreignKey)
    where isReady(pending.schema, pending.table) && isReady(pending.needsSchema, pending.needsTable)
      && (isMeant(pending.schema, pending.table) || isMeant(pending.needsSchema, pending.needsTable))
    {
      guard scope.verdict(pending.needsSchema, pending.needsTable, in: .postgres) == .allowed else {
        progress.note(
          "foreign key \(pending.name) of \(pending.schema).\(pending.table) is left out: it references table \(pending.needsSchema).\(pending.needsTable), which 'tables' of the apply does not include"
        )
        try state.remove(pending)
        continue
      }
      guard try PostgresTargetTable.isThere(pending.needsSchema, pending.needsTable, connection) else { continue }
      guard let key = pending.key else {
        progress.note(
          "foreign key \(pending.name) of \(pending.schema).\(pending.table) was not created: an earlier version of Cairn stored it as a statement, which Cairn does not execute; add it by hand as at the source"
        )
        try state.remove(pending)
        continue
      }
      let table = "\(pending.schema.quotedName).\(pending.table.quotedName)"
      let timeout = try connection.first("SELECT current_setting('lock_timeout')") ?? "0"
      // After the first one that is locked, the next ones wait only for a moment.
      try connection.execute("SET LOCAL lock_timeout = \(isLocked ? Self.momentMilliseconds : lockMilliseconds)")
      try connection.executeScript(Self.planFreely)
      let isMade = try make(pending, sink) {
        try ForeignKeyMaker(connection: connection, progress: progress).add(key, for: pending, sink)
        do {
          _ = try sink.attempt {
            let referenced = "\(pending.needsSchema.quotedName).\(pending.needsTable.quotedName)"
            for read in [table, referenced] { try proof.checkRead(of: read, "\(pending.schema).\(pending.table)") }
            try connection.execute("ALTER TABLE \(table) VALIDATE CONSTRAINT \(pending.name.quotedName)")
          }
        } catch let error as CairnError where [.ownersCode, .privilegeMissing].contains(error.code) {
          progress.note("foreign key \(pending.name) of \(table) stays NOT VALID: \(error.message); \(error.hint)")
        } catch let error as PostgresError where error.isConstraint {
          progress.note(
            "foreign key \(pending.name) of \(table) stays NOT VALID, as rows of the source break it: \(error.detail)")
        }
      }
      try connection.executeScript(Self.planAsApply)
      try connection.query("SELECT set_config('lock_timeout', $1, true)", [timeout])
      if !isMade { isLocked = true }
    }
    if isLocked { progress.update { $0.lateKeys = $0.lateKeys ?? CatchUpSchedule(from: Clock.monotonicMilliseconds) } }
    return !isLocked
  }

  private static let momentMilliseconds = 100

  /// The planner settings for statements that read whole tables.
  private static let planFreely =
    "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"
  private static let planAsApply =
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"

  /// Runs a body that creates an object, and removes the object from `cairn.pending`, also if the server refuses it.
  ///
  /// - Returns: False if another session has locked a table of a foreign key, which then stays in `cairn.pending`.
  @discardableResult
  private func make(
    _ pending: PostgresApplyState.Pending, _ sink: PostgresSink, _ body: () throws -> Void
  ) throws -> Bool {
    do { try sink.attempt(body) } catch let error as PostgresError
      where error.isLockTimeout && pending.kind == .foreignKey
    {
      progress.note(
        "foreign key \(pending.name) of \(pending.schema).\(pending.table) is created later: another session uses that table, or \(pending.needsSchema).\(pending.needsTable)"
      )
      return false
    } catch let error as PostgresError
      where !error.isServerGone && !error.isTransient && !error.isCancelled
    {
      // 42710: the table has a constraint of that name already.
      if error.sqlState != "42710" {
        progress.note(
          "\(pending.kind.rawValue) \(pending.name) of \(pending.schema).\(pending.table) was not created: \(error.message)"
        )
      }
    }
    try state.remove(pending)
    return true
  }

  /// Drops the foreign keys that reference this table, and stores them in `cairn.pending`.
  ///
  /// Only foreign keys of tables that Cairn created are dropped.
  ///
  /// - Parameter indexes: The names of the table's indexes whose foreign keys are dropped; nil: all.
  func setReferencesAside(_ table: PostgresApplyState.Table, over indexes: Set<NameKey>? = nil) throws {
    if let indexes, indexes.isEmpty { return }
    let rows = try connection.query(
      PendingForeignKey.ofReferences, ["\(table.schema.quotedName).\(table.name.quotedName)"])
    for row in rows.map({ $0.map { $0 ?? "" } })
    where tables.values.contains(where: {
      $0.isCreated && $0.schema.hasSameBytes(as: row[0]) && $0.name.hasSameBytes(as: row[1])
    }) && indexes?.contains(row[4].nameKey) ?? true {
      try connection.execute(
        "ALTER TABLE \(row[0].quotedName).\(row[1].quotedName) DROP CONSTRAINT \(row[2].quotedName)")
      try state.add(
        .init(
          schema: row[0], table: row[1], kind: .foreignKey, name: row[2], key: PendingForeignKey(json: row[3]),
          needsSchema: table.schema, needsTable: table.name))
    }
  }
}

extension PostgresApplyState.Pending {
  init(_ key: PostgresForeignKey, of table: TableSchema) {
    let parts = table.foreignKeys.first { other in
      other.table.hasSameBytes(as: key.table) && other.namespace.hasSameBytes(as: key.namespace)
        && other.columns.map { table.columns[$0].name }.hasSameBytes(as: key.columns)
    }
    self.init(
      schema: table.namespace, table: table.name, kind: .foreignKey, name: key.name,
      key: parts.map { PendingForeignKey($0, of: table) }, needsSchema: key.namespace, needsTable: key.table)
  }
}
