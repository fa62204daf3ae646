import Changes

/// A table of an SQLite file: its definition, and the other facts that capture and apply need.
package struct SQLiteTable: Sendable {
  /// A unique key: terms whose values no two rows may share. A term is an SQL expression over the table's columns.
  package struct UniqueKey: Equatable, Sendable {
    package struct Term: Equatable, Sendable {
      @ByBytes package var text: String
      @ByBytes package var collation: String
      /// The index of the term's column in the table's ``TableSchema``; nil for an expression or a generated column.
      package var column: Int?
    }
    @ByBytes package var name: String
    package var terms: [Term]
    @ByBytes package var predicate: String? = nil
  }

  /// The definition of the table. `epoch`, which numbers the successive definitions, is 0 here: capture sets it.
  package var schema: TableSchema
  /// The names of the generated columns, which images leave out.
  package var generated: [String]
  /// A name by which SQL reads the rowid; nil for WITHOUT ROWID, or if columns hide all three names.
  package var rowidName: String?
  package var rowidColumn: Int?
  /// The indexes of the primary key's columns, in the order of the key.
  package var primaryColumns: [Int] = []
  /// The unique indexes of the table, including the primary key's index, but not the rowid.
  package var uniqueKeys: [UniqueKey]
  /// The reason why the table cannot be captured; nil if it can be.
  package var refusal: String?
  /// Whether SQLite gives wrong values of OLD to AFTER triggers of this table.
  package var givesWrongOld = false
  /// Whether triggers of this table get a wrong NEW at times, and capture cannot read the written row by its rowid.
  ///
  /// In a table that refers to itself, a foreign key action may have changed the row since.
  package var mayGiveWrongNew: Bool {
    givesWrongOld
      && (rowidName == nil && rowidColumn == nil
        || schema.foreignKeys.contains { $0.table.sqliteKey == schema.name.sqliteKey })
  }
  /// Whether triggers of the application may write to this table while another write to it is in progress.
  package var mayNestWrites = false
  /// Whether such a write may come before the other write deletes the rows that it replaces.
  package var mayWriteBeforeReplace = false
  /// Whether a foreign key references this table, so that its actions may run before AFTER triggers of this table.
  package var isReferenced = false

  package var name: String { schema.name }

  /// The prefix of the names of the triggers that refuse writes of applications to a table.
  package static let guardPrefix = "cairn_refuse_"

  /// The names of the tables that capture adds to an SQLite file.
  package static let captureNames: Set<NameKey> = [
    "cairn_journal", "cairn_stage", "cairn_layout", "cairn_unhooked", "cairn_control",
  ]
  /// The names of the tables that Cairn adds to sources and targets. All other names with `cairn_` at the start are
  /// reserved.
  package static let ownNames = captureNames.union([
    "cairn_checkpoint", "cairn_table", "cairn_origin", "cairn_conflict", "cairn_candidate", "cairn_decision",
    "cairn_quarantine", "cairn_discarded", "cairn_returned", "cairn_snapshot",
  ])
}

extension Database {
  /// Returns the application's tables in order of creation. A virtual table has a ``SQLiteTable/refusal``.
  ///
  /// Call it in a transaction, so that all tables are read in one snapshot.
  package func userTables() throws -> [SQLiteTable] {
    try SchemaLimit.checkTexts(self)
    let list = try query(
      """
      SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid
      """
    ).compactMap { StoredTable(name: $0[0].string, text: $0[1].string) }
    let modules = Dictionary(
      list.compactMap { table in table.module.map { (table.name.sqliteKey, $0) } }, uniquingKeysWith: { $1 })
    let originals = try originalShapes()
    var tables = try list.filter { !SQLiteTable.ownNames.contains($0.name) && !$0.isShadow(of: modules) }.map { row in
      func refused(_ why: String) -> SQLiteTable {
        SQLiteTable(
          schema: TableSchema(epoch: 0, engine: .sqlite, name: row.name, columns: [], createText: row.text),
          generated: [], uniqueKeys: [], refusal: why)
      }
      if row.name.isEmpty { return refused("its name is empty, which is no name at a target") }
      if ReservedName.isReserved("", row.name) { return refused("names that begin with cairn_ are reserved") }
      if row.module != nil { return refused("it is a virtual table, which cannot have triggers") }
      var found = try table(row.name, withoutRowid: row.isWithoutRowid, strict: row.isStrict, text: row.text)
      found.schema.original = originals[row.name.sqliteKey]
      return found
    }
    Self.refuseAmbiguousNames(&tables)
    Self.markWrongOld(&tables)
    try markNestedWrites(&tables)
    refuseUnknownCollations(&tables)
    return tables
  }

  /// Refuses tables if names of tables or columns differ only in case, or in how Unicode composes letters.
  private static func refuseAmbiguousNames(_ tables: inout [SQLiteTable]) {
    // Keys of a Swift dictionary are equal if they are canonically equivalent.
    let names = Dictionary(grouping: tables.indices, by: { tables[$0].name.lowercased() })
    for group in names.values where group.count > 1 {
      for index in group where tables[index].refusal == nil {
        guard let other = group.first(where: { $0 != index }) else { continue }
        tables[index].refusal =
          "its name differs from \(tables[other].name.quotedName) only in case or in how Unicode composes its letters"
      }
    }
    for index in tables.indices where tables[index].refusal == nil {
      guard let (one, other) = tables[index].schema.columns.map(\.name).firstAlike(by: { $0.lowercased() }) else {
        continue
      }
      tables[index].refusal =
        "its columns \(one.quotedName) and \(other.quotedName) differ only in case or in how Unicode composes their letters"
    }
  }

  /// Returns the definitions that tables have at their source, by the table's name in lower case.
  ///
  /// The definitions are untrusted input: any application that uses the file can write them.
  private func originalShapes() throws -> [NameKey: TableSchema] {
    guard try integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_origin'") != nil else {
      return [:]
    }
    return OriginalShapes.read(try query("SELECT name, shape FROM cairn_origin"))
  }

  private func table(_ name: String, withoutRowid: Bool, strict: Bool, text: String) throws -> SQLiteTable {
    var schema = TableSchema(epoch: 0, engine: .sqlite, name: name, columns: [], createText: text)
    if withoutRowid { schema.flags.insert(.withoutRowid) }
    if strict { schema.flags.insert(.strict) }
    if SQLText.tokens(Array(text.utf8)).contains(where: { $0.word == "AUTOINCREMENT" }) {
      schema.flags.insert(.autoincrement)
    }
    var generated: [String] = []
    var primary: [(ordinal: Int64, column: Int)] = []
    for row in try query(
      "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)", [.text(name)])
    {
      guard case .integer(let hidden) = row[5], case .integer(let ordinal) = row[4] else { continue }
      if hidden != 0 {
        generated.append(row[0].string)
        continue
      }
      if ordinal > 0 { primary.append((ordinal, schema.columns.count)) }
      schema.columns.append(
        .init(
          name: row[0].string, declaredType: row[1].string, isNotNull: row[2] != .integer(0),
          defaultText: row[3] == .null ? nil : row[3].string))
    }
    primary.sort { $0.ordinal < $1.ordinal }
    var table = SQLiteTable(
      schema: schema, generated: generated, primaryColumns: primary.map(\.column), uniqueKeys: [])

    let names = Set(schema.columns.map { $0.name.sqliteKey } + generated.map { $0.sqliteKey })
    if !withoutRowid { table.rowidName = ["rowid", "_rowid_", "oid"].first { !names.contains($0.nameKey) } }
    var primaryKey: [(column: Int, collation: String)] = []
    var uniques: [[(column: Int, collation: String)]] = []
    let indexes = try query(
      """
      SELECT i.name, i."unique", i.origin, i.partial, m.sql FROM pragma_index_list(?) AS i
      LEFT JOIN sqlite_master AS m ON m.type = 'index' AND m.name = i.name ORDER BY m.rowid, i.seq DESC
      """, [.text(name)])
    let places = schema.columnPlaces
    for index in indexes {
      if index[4] != .null, index[2].string == "c" {
        table.schema.objects.append(.init(name: index[0].string, text: index[4].string))
      }
      guard index[1] == .integer(1) else { continue }
      let key = try uniqueKey(index[0].string, text: index[4] == .null ? nil : index[4].string, columns: places)
      table.uniqueKeys.append(key)
      let plain = key.terms.compactMap { term in term.column.map { (column: $0, collation: term.collation) } }
      guard plain.count == key.terms.count, key.predicate == nil else { continue }
      if index[2].string == "pk" { primaryKey = plain } else { uniques.append(plain) }
    }
    if !withoutRowid, primary.count == 1, primaryKey.isEmpty { table.rowidColumn = primary[0].column }
    table.schema.uniques = uniques.map { $0.map(\.column) }
    table.schema.foreignKeys = try foreignKeys(name, columns: places)
    chooseKey(&table, primary: primary.map(\.column), primaryKey: primaryKey, uniques: uniques)
    if schema.columns.count > 1900 { table.refusal = "it has more than 1900 columns" }
    if !withoutRowid, table.schema.flags.contains(.wholeRow), table.rowidName == nil {
      table.refusal = "it has no key, and its columns hide rowid, _rowid_ and oid"
    }
    if table.schema.flags.contains(.wholeRow),
      generated.contains(where: { ["rowid", "_rowid_", "oid"].contains($0.asciiLowercased) })
    {
      table.refusal = "it has no key, and a generated column hides its rowid"
    }
    return table
  }

  /// Chooses the key by which rows of the table are identified.
  ///
  /// The order of choice is INTEGER PRIMARY KEY, primary key without NULLs, unique key without NULLs, primary key with
  /// NULLs, whole row.
  private func chooseKey(
    _ table: inout SQLiteTable, primary: [Int], primaryKey: [(column: Int, collation: String)],
    uniques: [[(column: Int, collation: String)]]
  ) {
    func hasNulls(_ key: [(column: Int, collation: String)]) -> Bool {
      !table.schema.flags.contains(.withoutRowid) && key.contains { !table.schema.columns[$0.column].isNotNull }
    }
    var chosen: [(column: Int, collation: String)] = []
    if let rowid = table.rowidColumn {
      chosen = [(rowid, "BINARY")]
    } else if !primaryKey.isEmpty, !hasNulls(primaryKey) {
      chosen = primaryKey
    } else if let unique = uniques.first(where: { !hasNulls($0) }) {
      chosen = unique
    } else if !primaryKey.isEmpty {
      chosen = primaryKey
      table.schema.flags.insert(.nullableKey)
    } else {
      table.schema.flags.insert(.wholeRow)
    }
    for (ordinal, part) in chosen.enumerated() {
      table.schema.columns[part.column].keyOrdinal = ordinal + 1
      table.schema.columns[part.column].collation = part.collation
    }
  }

  private func uniqueKey(_ index: String, text: String?, columns: [NameKey: Int]) throws -> SQLiteTable.UniqueKey {
    let parts = text.flatMap(SQLText.indexParts)
    if let text, parts == nil {
      throw SQLiteError(code: 1, message: "cannot take index \(index) apart", sql: text, path: path)
    }
    var terms: [SQLiteTable.UniqueKey.Term] = []
    for row in try query("SELECT cid, name, coll, key, seqno FROM pragma_index_xinfo(?)", [.text(index)]) {
      guard row[3] == .integer(1), case .integer(let place) = row[4] else { continue }
      let name = row[1] == .null ? nil : row[1].string
      let expression = parts.flatMap { Int(place) < $0.terms.count ? $0.terms[Int(place)] : nil }
      terms.append(
        .init(
          text: name?.quotedName ?? expression ?? "NULL", collation: row[2] == .null ? "BINARY" : row[2].string,
          column: name.flatMap { columns[$0.sqliteKey] }))
    }
    return .init(name: index, terms: terms, predicate: parts?.predicate)
  }

  private func foreignKeys(_ table: String, columns: [NameKey: Int]) throws -> [TableSchema.ForeignKey] {
    var keys: [Int64: TableSchema.ForeignKey] = [:]
    let rows = try query(
      "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?) ORDER BY id, seq",
      [.text(table)])
    for row in rows {
      guard case .integer(let id) = row[0] else { continue }
      var key =
        keys[id]
        ?? .init(
          columns: [], table: row[1].string, references: [], onUpdate: row[4].string, onDelete: row[5].string)
      if let column = columns[row[2].string.sqliteKey] { key.columns.append(column) }
      if row[3] != .null { key.references.append(row[3].string) }
      keys[id] = key
    }
    return keys.keys.sorted(by: >).compactMap { keys[$0] }
  }
}

extension [String] {
  /// Returns the elements, which are SQL terms, joined by an operator, in balanced parentheses: SQLite limits the depth
  /// of an expression to 1000.
  package func balanced(_ operation: String) -> String {
    guard count > 2 else { return joined(separator: " \(operation) ") }
    let (left, right) = (Array(prefix(count / 2)), Array(dropFirst(count / 2)))
    return "(\(left.balanced(operation))) \(operation) (\(right.balanced(operation)))"
  }
}

/// The definitions that a file names as those of its tables' sources. Any application that uses the file can write them.
enum OriginalShapes {
  /// The maximum size of a definition, in bytes.
  private static let shapeBytesMax = 1 << 20

  /// Returns the shapes in rows of `cairn_origin`, as far as they fit into `room` bytes of memory.
  static func read(_ rows: [[Value]], room: Int = TableSchema.memoryMax) -> [NameKey: TableSchema] {
    var shapes: [NameKey: TableSchema] = [:]
    var room = room
    for row in rows {
      guard case .blob(let bytes) = row[1], bytes.count <= shapeBytesMax else { continue }
      var shape = bytes.withUnsafeBytes {
        var reader = ByteReader($0)
        return try? reader.readSchema(room: room)
      }
      room -= shape?.memoryBytes ?? 0
      // A record cannot hold a shape within a shape.
      shape?.original = nil
      shapes[row[0].string.sqliteKey] = shape
    }
    return shapes
  }
}
