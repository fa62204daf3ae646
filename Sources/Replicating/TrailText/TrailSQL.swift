import Changes
import Mapping
import SQLiteKit

/// Converts the records of a trail to SQL statements that repeat its transactions, without I/O.
///
/// Print ``prologue`` first, then pass every record in order to `render`. A value that the dialect cannot hold becomes
/// a comment, and is counted in ``problemCount``.
///
///     var sql = TrailSQL(.sqlite)
///     let lines = try sql.render(record, at: position, schema: schemas)
package struct TrailSQL {
  package enum Dialect: String, CaseIterable, Sendable {
    case sqlite
    case postgres
  }

  package let dialect: Dialect
  package private(set) var problemCount = 0
  /// The first values that the dialect cannot hold, each with position, table and reason.
  package private(set) var problems: [String] = []

  private static let problemsMax = 20

  /// The tables that the statements so far have created or used, by lower-case name.
  private var known: Set<NameKey> = []
  /// The table of each index, by the lower-case name of the index.
  private var indexOwners: [NameKey: String] = [:]
  /// The tables whose refresh has begun and not ended.
  private var refreshing: Set<NameKey> = []
  /// The tables that were emptied at the start of their refresh, so that chunks need no deletes.
  private var emptied: Set<NameKey> = []
  /// The table of each schema id. An id is valid only within its segment.
  private var tables: [UInt64: TableSQL] = [:]
  private var segment: UInt64 = 0
  /// The position of the record that is being converted.
  private var position = Position.start
  /// The user-defined types of PostgreSQL that the statements so far have created, by name.
  private var types: [NameKey: PostgresUserType] = [:]
  /// The CREATE statements of renamed PostgreSQL tables, by new name.
  private var scripts: [NameKey: String] = [:]
  /// The BEGIN statement of the current transaction, until the transaction's first statement is printed; nil
  /// afterwards.
  private var heldBegin: String?

  package init(_ dialect: Dialect) { self.dialect = dialect }

  /// The lines to print before all transactions.
  package var prologue: [String] {
    switch dialect {
    case .sqlite: ["PRAGMA foreign_keys = OFF;"]
    case .postgres:
      [
        "SET standard_conforming_strings = on;", "SET client_encoding = 'UTF8';", "SET TimeZone = 'UTC';",
        "SET DateStyle = 'ISO';", "SET IntervalStyle = 'postgres';",
        // Else an operator or a function that any user made in another schema may be taken for a built-in one.
        "SET search_path = pg_catalog;",
      ]
    }
  }

  /// Returns the statements and comments for one record; none for a transaction that changes nothing.
  /// - Parameter schema: A function that returns the schema for an id in the record's segment.
  /// - Throws: `trail-damaged` if there is no such schema, or if an image cannot be decoded; `trail-version` for an
  ///   unknown record type.
  package mutating func render(
    _ record: Record, at position: Position, schema: (UInt64) -> TableSchema?
  ) throws -> [String] {
    self.position = position
    do {
      return try statements(of: record, at: position, schema).map { line in
        guard line.utf8.contains(0) else { return line }
        return refused("record", "a statement has the character NUL, at which a shell ends a line")
      }
    } catch let error as DecodingError {
      throw damaged(position, "a value cannot be decoded: \(error)")
    }
  }

  private mutating func statements(
    of record: Record, at position: Position, _ schema: (UInt64) -> TableSchema?
  ) throws -> [String] {
    if position.segment != segment {
      segment = position.segment
      tables.removeAll()
    }
    func lookup(_ id: UInt64) throws -> TableSQL {
      if let table = tables[id] { return table }
      guard let schema = schema(id) else { throw damaged(position, "schema \(id) is not in the segment") }
      let table = try TableSQL(schema: schema, dialect: dialect)
      tables[id] = table
      return table
    }
    var lines: [String]
    switch record {
    case .begin(let header):
      heldBegin = "-- transaction \(header.number) at \(position), \(UTCTime(header.commitTime))\nBEGIN;"
      return []
    case .commit:
      defer { heldBegin = nil }
      return heldBegin == nil ? ["COMMIT;"] : []
    case .schema, .progress, .sequence, .statement, .statementEnd, .waitingRow: return []
    case .marker(_, let text): lines = [comment(text)]
    case .change(let change): lines = try render(change, lookup(change.schemaID), position)
    case .refresh(let refresh): lines = render(refresh, try lookup(refresh.schemaID))
    case .refreshRow(let id, let image):
      let table = try lookup(id)
      let row = try values(image, table, position)
      lines =
        ensured(table)
        + statement(table) { () throws(Unrepresentable) in
          try table.clear(for: row) + [table.insert(row, isTolerant: true)]
        }
    case .ddl(let ddl):
      let before = ddl.before == 0 ? nil : try lookup(ddl.before)
      let after = ddl.after == 0 ? nil : try lookup(ddl.after)
      if dialect == .postgres, let before, let after {
        return try render(postgres: ddl, before, after)
      }
      lines = render(ddl, before, after)
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(position) cannot be printed by this version",
        hint: "use a newer version of Cairn")
    }
    guard !lines.isEmpty, let begin = heldBegin else { return lines }
    heldBegin = nil
    lines.insert(begin, at: 0)
    return lines
  }

  // MARK: Changes

  private mutating func render(_ change: ChangeView, _ table: TableSQL, _ position: Position) throws -> [String] {
    let before = try change.before.map { try values($0, table, position) } ?? []
    let after = try change.after.map { try values($0, table, position) } ?? []
    let isTolerant = refreshing.contains(table.schema.foldedName)
    let needed =
      switch change.operation {
      case .insert: (false, true)
      case .update: (table.source.engine == .sqlite, true)
      case .delete: (true, false)
      case .truncate: (false, false)
      }
    guard !needed.0 || change.before != nil, !needed.1 || change.after != nil else {
      throw damaged(position, "a change has not the images that its operation needs")
    }
    return ensured(table)
      + statement(table) { () throws(Unrepresentable) in
        switch change.operation {
        case .insert: try (isTolerant ? table.clear(for: after) : []) + [table.insert(after, isTolerant: isTolerant)]
        case .update: try table.update(before, after, isTolerant: isTolerant)
        case .delete: try [table.delete(before)]
        case .truncate: [table.deleteAll]
        }
      }
  }

  // MARK: Refresh

  private mutating func render(_ refresh: Refresh, _ table: TableSQL) -> [String] {
    let name = table.schema.foldedName
    switch refresh.event {
    case .start(_, let method, _):
      refreshing.insert(name)
      guard method == .whole || (method == .byKey && !table.canDeleteRanges) else { return ensured(table) }
      // The final result is equal. Until the chunks bring them back, rows after the current range are missing.
      emptied.insert(name)
      return ensured(table) + [table.deleteAll]
    case .chunk(let range):
      refreshing.insert(name)
      guard !emptied.contains(name) else { return ensured(table) }
      if !table.canDeleteRanges, range.isOrdered {
        return ensured(table) + [
          comment("rows of a range of \(table.schema.name) are not deleted before they are copied")
        ]
      }
      return ensured(table)
        + statement(table) { () throws(Unrepresentable) in
          try table.delete(range)
        }
    case .end:
      refreshing.remove(name)
      emptied.remove(name)
      return []
    }
  }

  // MARK: Schema

  private mutating func render(_ ddl: DDL, _ before: TableSQL?, _ after: TableSQL?) -> [String] {
    switch (ddl.action, before, after) {
    case (.create, _, let after?): return ensured(after)
    case (.drop, let before?, _):
      forget(before.schema)
      return [before.drop]
    case (.rename, let before?, let after?):
      let lines = ensured(before) + before.rename(sqlite: after)
      move(before.schema, after.schema)
      return lines
    case (.reshape, let before?, let after?):
      let name = before.schema.foldedName
      var lines = ensured(before)
      let own = before.schema.objects.map(\.name).filter { indexOwners[$0.sqliteKey].hasSameBytes(as: name) }
      lines += freed(after.schema, from: name)
      lines += statement(after) { () throws(Unrepresentable) in
        try before.reshape(
          sqlite: after, isRefreshed: ddl.isRefreshed, indexes: own,
          origins: ddl.origins(from: before.source, to: after.source))
      }
      move(before.schema, after.schema)
      return lines
    default: return []
    }
  }

  /// Returns the statements of a schema change. New enum labels come before the transaction's BEGIN, because PostgreSQL
  /// cannot use a label in the transaction that adds it.
  private mutating func render(postgres ddl: DDL, _ before: TableSQL, _ after: TableSQL) throws -> [String] {
    var given = before.source
    // A renamed table has no script. The previous one still describes its keys and types.
    if let script = scripts.removeValue(forKey: before.schema.foldedName.nameKey) { given.createText = script }
    if after.source.createText.isEmpty { scripts[after.schema.foldedName] = given.createText }
    var lines = ensured(before)
    let (ahead, statements) = try TableSQL(schema: given, dialect: dialect).reshape(
      postgres: after, isRefreshed: ddl.isRefreshed, origins: ddl.origins(from: given, to: after.source),
      types: Array(types.values))
    move(before.schema, after.schema)
    learn(after.schema)
    lines += statements
    guard let begin = heldBegin else {
      return (ahead.isEmpty ? [] : ["COMMIT;"] + ahead + ["BEGIN;"]) + lines
    }
    if lines.isEmpty { return ahead }
    heldBegin = nil
    return ahead + [begin] + lines
  }

  private mutating func learn(_ schema: TableSchema) {
    for type in PostgresUserType.all(of: schema) { types[type.name] = type }
  }

  /// Returns the statements that create a table, if no earlier statement has created or used the table.
  private mutating func ensured(_ table: TableSQL) -> [String] {
    guard known.insert(table.schema.foldedName).inserted else { return [] }
    let prepared = dialect == .postgres ? table.prepared(Array(types.values)) : []
    let create = statement(table) { () throws(Unrepresentable) in try table.create() }
    let lines = freed(table.schema, from: table.schema.foldedName) + prepared + create
    own(table.schema)
    if dialect == .postgres { learn(table.schema) }
    return lines
  }

  /// Returns the statements that drop other tables' indexes whose names this table's indexes now have.
  private func freed(_ schema: TableSchema, from table: String) -> [String] {
    guard dialect == .sqlite else { return [] }
    return schema.objects.filter { !indexOwners[$0.name.sqliteKey, default: table].hasSameBytes(as: table) }
      .map { "DROP INDEX IF EXISTS \($0.name.quotedName);" }
  }

  private mutating func own(_ schema: TableSchema) {
    for object in schema.objects { indexOwners[object.name.sqliteKey] = schema.foldedName }
  }

  private mutating func move(_ before: TableSchema, _ after: TableSchema) {
    let wasRefreshing = refreshing.contains(before.foldedName)
    let wasEmptied = emptied.contains(before.foldedName)
    forget(before)
    known.insert(after.foldedName)
    own(after)
    if wasRefreshing { refreshing.insert(after.foldedName) }
    if wasEmptied { emptied.insert(after.foldedName) }
  }

  private mutating func forget(_ schema: TableSchema) {
    let name = schema.foldedName
    known.remove(name)
    refreshing.remove(name)
    emptied.remove(name)
    indexOwners = indexOwners.filter { $0.value != name }
  }

  // MARK: Problems

  private mutating func statement(
    _ table: TableSQL, _ body: () throws(Unrepresentable) -> [String]
  ) -> [String] {
    do { return try body() } catch { return [refused("table \(table.schema.name)", error.reason)] }
  }

  /// Counts a problem, and returns the comment that is printed in place of the statement.
  private mutating func refused(_ what: String, _ reason: String) -> String {
    let problem = "\(position), \(what), \(reason)"
    problemCount += 1
    if problems.count < Self.problemsMax { problems.append(problem) }
    return comment("cannot be represented: \(problem)")
  }

  private func values(_ image: ImageView, _ table: TableSQL, _ position: Position) throws -> [Value?] {
    let values = try image.values()
    guard values.count == table.schema.columns.count else {
      throw damaged(position, "an image has \(values.count) columns, not \(table.schema.columns.count)")
    }
    return values
  }

  private func damaged(_ position: Position, _ problem: String) -> CairnError {
    CairnError(
      .trailDamaged, "cannot print the record at \(position): \(problem)", hint: "run 'cairn trail verify'",
      context: ["position": position.description])
  }

  private func comment(_ text: String) -> String { text.sqlComment }
}

extension TableSchema {
  /// The lower-case name, with the namespace. SQLite compares table names without regard to case.
  var foldedName: String { (namespace.isEmpty ? "" : namespace + ".") + name.asciiLowercased }
}

extension Refresh.Range {
  fileprivate var isOrdered: Bool {
    switch self {
    case .nullKeys, .keys: true
    case .unkeyed, .row, .some: false
    }
  }
}
