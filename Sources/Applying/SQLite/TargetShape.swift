import Changes
import Mapping
import SQLiteKit

/// Makes the tables of an SQLite target follow those of a source: create, drop, rename, reshape.
///
/// Tables that Cairn made follow. A table that was there before is left alone: apply stops until a person has changed
/// it, and goes on when its shape is the one that is wanted.
struct TargetShape {
  let database: Database

  /// The table's own statement, as the target has it; nil when there is no such table.
  private func text(_ name: String) throws -> String? {
    try database.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [.text(name)])
  }

  func exists(_ name: String) throws -> Bool { try text(name) != nil }

  // MARK: Create and drop

  /// Creates the table with its indexes. False when it was there: then its columns have been looked at.
  func create(_ mapping: TableMapping) throws -> Bool {
    let schema = mapping.target
    if try exists(schema.name) {
      try checkColumns(mapping)
      return false
    }
    try run(schema.createText, schema)
    try createIndexes(schema, isRefreshed: false)
    return true
  }

  func drop(_ schema: TableSchema, isCreated: Bool) throws {
    guard try exists(schema.name) else { return }
    guard isCreated else { throw stopped("drop", schema, nil) }
    try database.execute("DROP TABLE \(schema.name.quotedName)")
  }

  /// The target must have every column, keep its values, and not refuse NULLs that the source allows.
  private func checkColumns(_ mapping: TableMapping) throws {
    let schema = mapping.target
    guard let table = try database.userTables().first(where: { $0.name.lowercased() == schema.name.lowercased() }),
      !table.schema.columns.isEmpty
    else {
      throw stopped("write to", schema, "it is not an ordinary table")
    }
    for (source, column) in zip(mapping.source.columns, schema.columns) {
      let theirs = table.schema.columns.first { $0.name.lowercased() == column.name.lowercased() }
      guard let theirs else { throw stopped("write to", schema, "it has no column \(column.name)") }
      let isKey = column.keyOrdinal > 0
      let isKept =
        mapping.source.engine == .sqlite
        ? theirs.affinity == column.affinity : PostgresType(source).isKept(under: theirs.affinity)
      guard isKept else {
        throw stopped(
          "write to", schema,
          "its column \(column.name) has affinity \(theirs.affinity), the source's \(mapping.source.engine == .sqlite ? column.affinity : "type \(source.declaredType)"): values would change"
        )
      }
      if theirs.isNotNull, !column.isNotNull, !isKey {
        throw stopped("write to", schema, "its column \(column.name) is NOT NULL, which the source's is not")
      }
    }
    let key = Set(schema.key.map { schema.columns[$0].name.lowercased() })
    try checkUniqueKeys(of: table, mapping, key)
    guard !key.isEmpty else { return }
    let rowid = table.rowidColumn.map { Set([table.schema.columns[$0].name.lowercased()]) }
    let keys = table.uniqueKeys.filter { $0.predicate == nil }.map { unique in
      Set(unique.terms.map { $0.column.map { table.schema.columns[$0].name.lowercased() } ?? "" })
    }
    guard rowid == key || keys.contains(key) else {
      throw stopped("write to", schema, "it has no unique key over \(key.sorted().joined(separator: ", "))")
    }
  }

  /// A key that only the target has would make one row of two: in a copy, the second would push the first aside.
  private func checkUniqueKeys(of table: SQLiteTable, _ mapping: TableMapping, _ key: Set<String>) throws {
    let schema = mapping.target
    let known = [key] + schema.uniques.map { Set($0.map { schema.columns[$0].name.lowercased() }) }
    for unique in table.uniqueKeys {
      let names = unique.terms.map { $0.column.map { table.schema.columns[$0].name.lowercased() } ?? $0.text }
      let isPlain = unique.predicate == nil && unique.terms.allSatisfy { $0.column != nil }
      // How SQLite compares in a key of its own is not in a schema.
      let isOwn = mapping.source.engine == .sqlite && !isPlain
      let isBinary =
        mapping.source.engine == .sqlite || unique.terms.allSatisfy { $0.collation.uppercased() == "BINARY" }
      let isImplied = isPlain && isBinary && known.contains { !$0.isEmpty && $0.isSubset(of: names) }
      guard isOwn || isImplied else {
        throw stopped(
          "write to", schema,
          "its unique key over \(names.joined(separator: ", ")) is stricter than any of the source's: two rows could become one"
        )
      }
    }
  }

  // MARK: Rename and reshape

  func rename(_ before: TableSchema, _ after: TableSchema, isCreated: Bool) throws {
    if try !exists(before.name), try exists(after.name) { return }
    guard isCreated else { throw stopped("rename", before, nil) }
    if before.name.lowercased() == after.name.lowercased() {
      // SQLite refuses a rename that changes nothing but the case.
      try database.execute("ALTER TABLE \(before.name.quotedName) RENAME TO cairn_aside")
      try database.execute("ALTER TABLE cairn_aside RENAME TO \(after.name.quotedName)")
    } else {
      try database.execute("ALTER TABLE \(before.name.quotedName) RENAME TO \(after.name.quotedName)")
    }
  }

  func reshape(_ old: TableMapping, _ new: TableMapping, isCreated: Bool, isRefreshed: Bool) throws {
    let (before, after) = (old.target, new.target)
    if before.name != after.name, try exists(before.name), try !exists(after.name) {
      try rename(before, after, isCreated: isCreated)
    }
    guard isCreated else {
      do { try checkColumns(new) } catch { throw stopped("change the shape of", after, nil) }
      return
    }
    guard try exists(after.name) else {
      _ = try create(new)
      return
    }
    for (old, new) in Self.renamedColumns(before, after) ?? [] {
      try database.execute(
        "ALTER TABLE \(after.name.quotedName) RENAME COLUMN \(old.quotedName) TO \(new.quotedName)")
    }
    if try text(after.name) == after.createText {
      try syncIndexes(after, isRefreshed: isRefreshed)
    } else {
      try rebuild(before, after, isRefreshed: isRefreshed)
    }
  }

  /// Pairs of names when nothing but names of columns differs, none of which was the name of another before.
  private static func renamedColumns(_ before: TableSchema, _ after: TableSchema) -> [(String, String)]? {
    guard hasEqualValues(before, after) else { return nil }
    let pairs = zip(before.columns, after.columns).filter { $0.name != $1.name }.map { ($0.name, $1.name) }
    let old = Set(before.columns.map { $0.name.lowercased() })
    return pairs.allSatisfy { !old.contains($1.lowercased()) } ? pairs : nil
  }

  private static func hasEqualValues(_ before: TableSchema, _ after: TableSchema) -> Bool {
    before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
  }

  /// The table under the new statement, with its rows. Where no refresh follows, the columns are those before, in their
  /// order, perhaps under other names. Where one follows, the rows are kept as far as they can be, so that programs at
  /// the target see some meanwhile; a new constraint may refuse them.
  private func rebuild(_ before: TableSchema, _ after: TableSchema, isRefreshed: Bool) throws {
    let name = after.name.quotedName
    let aside = "cairn_aside"
    let objects = try database.query(
      "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql NOT NULL",
      [.text(after.name)])
    for row in objects { try database.execute("DROP \(row[0].string) \(row[1].string.quotedName)") }
    // With the legacy rules, references of other tables to this one stay as they are.
    try database.execute("PRAGMA legacy_alter_table = ON; ALTER TABLE \(name) RENAME TO \(aside)")
    try database.execute("PRAGMA legacy_alter_table = OFF")
    try run(after.createText, after)
    let was = try database.query("SELECT name FROM pragma_table_info(?)", [.text(aside)]).map { $0[0].string }
    let pairs: [(new: String, old: String)] =
      Self.hasEqualValues(before, after)
      ? zip(after.columns, before.columns).map { new, old in
        // Columns that could be renamed one by one have their new names already.
        (new.name, was.contains(old.name) ? old.name : new.name)
      }
      : after.columns.compactMap { new in
        was.first { $0.lowercased() == new.name.lowercased() }.map { (new.name, $0) }
      }
    if !pairs.isEmpty {
      let into = pairs.map(\.new.quotedName).joined(separator: ",")
      let from = pairs.map(\.old.quotedName).joined(separator: ",")
      try database.execute("SAVEPOINT cairn_copy")
      do {
        try database.execute("INSERT INTO \(name)(\(into)) SELECT \(from) FROM \(aside)")
      } catch  where isRefreshed {
        try database.execute("ROLLBACK TO cairn_copy")
      }
      try database.execute("RELEASE cairn_copy")
    }
    try database.execute("DROP TABLE \(aside)")
    try createIndexes(after, isRefreshed: isRefreshed)
    for row in objects where row[0].string == "trigger" { try run(row[2].string, after) }
  }

  private func createIndexes(_ schema: TableSchema, isRefreshed: Bool) throws {
    for object in schema.objects { try create(object, schema, isRefreshed: isRefreshed) }
  }

  /// An index of that name on another table of ours is one that the source has dropped already: it goes first.
  private func create(_ object: TableSchema.Object, _ schema: TableSchema, isRefreshed: Bool) throws {
    let stale = try database.integer(
      """
      SELECT 1 FROM sqlite_master AS m JOIN cairn_table AS t ON t.name = m.tbl_name COLLATE NOCASE AND t.created = 1
      WHERE m.type = 'index' AND m.name = ? COLLATE NOCASE AND m.sql NOT NULL
      """, [.text(object.name)])
    if stale != nil { try database.execute("DROP INDEX \(object.name.quotedName)") }
    do { try run(object.text, schema) } catch  where isRefreshed {
      // Rows that the source no longer has stand in the way of a unique index; all of them are about to come again.
      try database.execute("DELETE FROM \(schema.name.quotedName)")
      try run(object.text, schema)
    }
  }

  func syncIndexes(_ schema: TableSchema, isRefreshed: Bool) throws {
    let there = try database.query(
      "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE AND sql NOT NULL",
      [.text(schema.name)])
    for row in there where !schema.objects.contains(where: { $0.name == row[0].string && $0.text == row[1].string }) {
      try database.execute("DROP INDEX \(row[0].string.quotedName)")
    }
    for object in schema.objects
    where !there.contains(where: { $0[0].string == object.name && $0[1].string == object.text }) {
      try create(object, schema, isRefreshed: isRefreshed)
    }
  }

  private func run(_ text: String, _ schema: TableSchema) throws {
    do { try database.execute(text) } catch let error as SQLiteError where error.primary == 1 || error.isConstraint {
      throw CairnError(
        .schemaStopped, "the target \(database.path) refuses the shape of table \(schema.name): \(error.message)",
        hint: "run this at the target once it is possible, then run again: \(text)", context: ["table": schema.name])
    }
  }

  private func stopped(_ what: String, _ schema: TableSchema, _ why: String?) -> CairnError {
    CairnError(
      .schemaStopped,
      "cannot \(what) table \(schema.name) of \(database.path)"
        + (why ?? "").prefixed(with: ": ") + (why == nil ? ": Cairn did not create it" : ""),
      hint: what == "drop"
        ? "drop or rename it by hand, then run again"
        : "make it so by hand and run again; wanted is: \(schema.createText)", context: ["table": schema.name])
  }
}

extension String {
  fileprivate func prefixed(with prefix: String) -> String { isEmpty ? "" : prefix + self }
}
