import Changes
import PostgresKit

// Tables whose shape changes at the source.
extension PostgresShape {
  /// Where the table goes by another name now, at the target too. Returns what is known of it under the new name.
  func rename(_ before: TableSchema, _ after: TableSchema, _ known: PostgresTargetState.Table) throws
    -> PostgresTargetState.Table
  {
    var moved = known
    (moved.schema, moved.name) = (after.namespace, after.name)
    if (known.schema, known.name) == (moved.schema, moved.name) { return moved }
    if try read(known) == nil, try read(moved) != nil { return moved }
    guard known.isCreated else { throw stopped("rename", before, nil) }
    if known.schema != moved.schema {
      try run("CREATE SCHEMA IF NOT EXISTS \(moved.schema.quotedName)", after)
      try run(
        "ALTER TABLE \(known.schema.quotedName).\(known.name.quotedName) SET SCHEMA \(moved.schema.quotedName)", after)
    }
    if known.name != moved.name {
      try run(
        "ALTER TABLE \(moved.schema.quotedName).\(known.name.quotedName) RENAME TO \(moved.name.quotedName)", after)
    }
    try connection.run(
      """
      UPDATE cairn.pending SET schema_name = $3, table_name = $4,
        statement = replace(statement, $5, $6) WHERE schema_name = $1 AND table_name = $2
      """,
      [
        known.schema, known.name, moved.schema, moved.name, "\(known.schema.quotedName).\(known.name.quotedName)",
        after.qualifiedName,
      ])
    return moved
  }

  /// `old` and `new` are the mapped schemas. A refresh may follow: then rows that stand in the way may go.
  func reshape(
    _ old: TableSchema, _ new: TableSchema, source: TableSchema, _ known: PostgresTargetState.Table, isRefreshed: Bool,
    _ sink: PostgresSink
  ) throws -> PostgresTargetState.Table {
    guard known.isCreated else {
      var moved = known
      if (old.namespace, old.name) != (new.namespace, new.name) {
        (moved.schema, moved.name) = (new.namespace, new.name)
      }
      do { _ = try checked(source, new, moved) } catch { throw stopped("change the shape of", new, nil) }
      return moved
    }
    let moved = try rename(old, new, known)
    guard let table = try read(moved) else {
      _ = try create(source, new)
      return moved
    }
    // What columns need that are new: types, sequences. What is there already is left as it is.
    do { _ = try sink.attempt { try connection.execute(new.createText) } } catch let error as PostgresError
      where !error.isServerGone && !error.isTransient && !error.isCancelled
    {}
    do {
      try sink.attempt { try alter(old, new, table) }
    } catch let error as PostgresError
      where isRefreshed && !error.isServerGone && !error.isTransient && !error.isCancelled
    {
      // All rows are about to come again.
      try connection.execute("DELETE FROM \(new.qualifiedName)")
      do { try sink.attempt { try alter(old, new, table) } } catch let error as PostgresError
        where !error.isServerGone && !error.isTransient && !error.isCancelled
      {
        throw refusedShape(new, error)
      }
    } catch let error as PostgresError where !error.isServerGone && !error.isTransient && !error.isCancelled {
      throw refusedShape(new, error)
    }
    try syncIndexes(old, new, sink, isRefreshed: isRefreshed)
    try syncForeignKeys(old, new)
    return moved
  }

  private func refusedShape(_ new: TableSchema, _ error: PostgresError) -> CairnError {
    CairnError(
      .schemaStopped, "\(connection.place) refuses the new shape of table \(new.fullName): \(error.message)",
      hint: "make it so by hand and run again; wanted is: \(new.createText)", context: ["table": new.fullName])
  }

  private func alter(_ old: TableSchema, _ new: TableSchema, _ table: PostgresTargetTable) throws {
    let name = new.qualifiedName
    func alter(_ action: String) throws { try connection.execute("ALTER TABLE \(name) \(action)") }
    var there = table.columns.map(\.name)
    for (was, now) in Self.renamedColumns(old, new) where there.contains(was) && !there.contains(now) {
      try alter("RENAME COLUMN \(was.quotedName) TO \(now.quotedName)")
      there = there.map { $0 == was ? now : $0 }
    }
    let wanted = new.columns.map(\.name)
    let renamed = Dictionary(uniqueKeysWithValues: Self.renamedColumns(old, new).map { ($0.1, $0.0) })
    if key(of: old, renamed: Self.renamedColumns(old, new)) != new.key.map({ new.columns[$0].name }) {
      for index in table.uniqueIndexes where index.isPrimary { try alter("DROP CONSTRAINT \(index.name.quotedName)") }
    }
    for column in old.columns where there.contains(column.name) && !wanted.contains(column.name) {
      try alter("DROP COLUMN \(column.name.quotedName)")
    }
    for column in new.columns {
      let quoted = column.name.quotedName
      let collation = column.collation.isEmpty ? "" : " COLLATE \(column.collation.quotedName)"
      guard there.contains(column.name) else {
        let value = column.defaultText.map { " DEFAULT \($0)" } ?? ""
        let kind = column.identity == .always ? "ALWAYS" : "BY DEFAULT"
        let identity = column.identity == .none ? "" : " GENERATED \(kind) AS IDENTITY"
        try alter(
          "ADD COLUMN \(quoted) \(column.declaredType)\(collation)\(identity)\(value)\(column.isNotNull ? " NOT NULL" : "")"
        )
        continue
      }
      guard let was = old.columns.first(where: { $0.name == renamed[column.name] ?? column.name }) else { continue }
      if was.declaredType != column.declaredType {
        if was.identity != .none { try alter("ALTER COLUMN \(quoted) DROP IDENTITY IF EXISTS") }
        if was.defaultText != nil { try alter("ALTER COLUMN \(quoted) DROP DEFAULT") }
        try alter(
          "ALTER COLUMN \(quoted) TYPE \(column.declaredType)\(collation) USING \(quoted)::text::\(column.declaredType)"
        )
        if let value = column.defaultText { try alter("ALTER COLUMN \(quoted) SET DEFAULT \(value)") }
      } else if was.defaultText != column.defaultText {
        try alter("ALTER COLUMN \(quoted) " + (column.defaultText.map { "SET DEFAULT \($0)" } ?? "DROP DEFAULT"))
      }
      if was.identity == .none, column.identity != .none, column.isNotNull || column.keyOrdinal > 0 {
        try alter("ALTER COLUMN \(quoted) SET NOT NULL, ALTER COLUMN \(quoted) ADD GENERATED BY DEFAULT AS IDENTITY")
      } else if was.identity != .none, column.identity == .none, was.declaredType == column.declaredType {
        try alter("ALTER COLUMN \(quoted) DROP IDENTITY IF EXISTS")
      }
      if was.isNotNull != column.isNotNull, column.isNotNull || column.keyOrdinal == 0 {
        try alter("ALTER COLUMN \(quoted) \(column.isNotNull ? "SET" : "DROP") NOT NULL")
      }
    }
    try alterKeys(old, new, alter)
  }

  private func alterKeys(_ old: TableSchema, _ new: TableSchema, _ alter: (String) throws -> Void) throws {
    guard let now = try PostgresTargetTable.read(new.namespace, new.name, connection) else { return }
    let key = new.key.map { new.columns[$0].name }
    func list(_ names: [String]) -> String { names.map(\.quotedName).joined(separator: ",") }
    if !key.isEmpty, !new.flags.contains(.wholeRow), now.key(over: key) == nil {
      try alter("ADD \(new.flags.contains(.nullableKey) ? "UNIQUE" : "PRIMARY KEY") (\(list(key)))")
    }
    if key.isEmpty || new.flags.contains(.nullableKey) { try alter("REPLICA IDENTITY FULL") }
    let wanted = new.uniques.map { $0.map { new.columns[$0].name } }
    let before = old.uniques.map { $0.map { old.columns[$0].name } }
    for names in before where !wanted.contains(where: { Set($0) == Set(names) }) && Set(names) != Set(key) {
      guard let index = now.key(over: names), !index.isPrimary else { continue }
      let isConstraint =
        try connection.first(
          "SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass($1) AND conname = $2",
          [new.qualifiedName, index.name])
        != nil
      try connection.execute(
        isConstraint
          ? "ALTER TABLE \(new.qualifiedName) DROP CONSTRAINT \(index.name.quotedName)"
          : "DROP INDEX \(new.namespace.quotedName).\(index.name.quotedName)")
    }
    let made = new.objects.map(\.text)
    for names in wanted where now.key(over: names) == nil && Set(names) != Set(key) {
      // One that is an index of its own is made with the other indexes.
      if made.contains(where: { $0.contains("UNIQUE") }), !before.contains(where: { Set($0) == Set(names) }) {
        continue
      }
      if !before.contains(where: { Set($0) == Set(names) }) { try alter("ADD UNIQUE (\(list(names)))") }
    }
  }

  private func key(of old: TableSchema, renamed: [(String, String)]) -> [String] {
    old.key.map { index in
      let name = old.columns[index].name
      return renamed.first { $0.0 == name }?.1 ?? name
    }
  }

  /// Columns that stand where they stood, with their type, under another name that none had before.
  private static func renamedColumns(_ old: TableSchema, _ new: TableSchema) -> [(String, String)] {
    guard old.columns.count == new.columns.count,
      zip(old.columns, new.columns).allSatisfy({ $0.declaredType == $1.declaredType })
    else { return [] }
    let pairs = zip(old.columns, new.columns).filter { $0.name != $1.name }.map { ($0.name, $1.name) }
    let were = Set(old.columns.map(\.name))
    return pairs.allSatisfy { !were.contains($1) } ? pairs : []
  }

  private func syncIndexes(_ old: TableSchema, _ new: TableSchema, _ sink: PostgresSink, isRefreshed: Bool) throws {
    for object in old.objects where !new.objects.contains(object) {
      try connection.execute("DROP INDEX IF EXISTS \(new.namespace.quotedName).\(object.name.quotedName)")
      try state.remove(
        .init(schema: new.namespace, table: new.name, kind: .index, name: object.name, statement: ""))
    }
    for object in new.objects where !old.objects.contains(object) {
      try state.add(
        .init(schema: new.namespace, table: new.name, kind: .index, name: object.name, statement: object.text))
    }
    // Rows that the source no longer has may stand in the way of a unique index until they have come again.
    if !isRefreshed { try makeIndexes(.init(schema: new.namespace, name: new.name), sink) }
  }

  private func syncForeignKeys(_ old: TableSchema, _ new: TableSchema) throws {
    let (before, after) = (foreignKeys(of: old), foreignKeys(of: new))
    for key in before where !after.contains(where: { $0.name == key.name && $0.needsTable == key.needsTable }) {
      try connection.execute("ALTER TABLE \(new.qualifiedName) DROP CONSTRAINT IF EXISTS \(key.name.quotedName)")
      try state.remove(key)
    }
    for key in after where !before.contains(where: { $0.name == key.name && $0.needsTable == key.needsTable }) {
      try state.add(key)
    }
  }
}
