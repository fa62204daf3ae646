import Changes

/// The tables to which triggers of the application and foreign keys lead from a table.
///
///     TriggerWrites([("t", "CREATE TRIGGER a BEFORE INSERT ON t BEGIN DELETE FROM t; END", true)], []).mayReturn(to: "t")
struct TriggerWrites {
  private struct Step: Hashable {
    let table: NameKey
    let isByTrigger: Bool
  }

  private var written: [NameKey: Set<NameKey>] = [:]
  private var writtenEarly: [NameKey: Set<NameKey>] = [:]
  private var children: [NameKey: Set<NameKey>] = [:]

  init(_ triggers: [(table: String, text: String, isEarly: Bool)], _ tables: [SQLiteTable]) {
    for trigger in triggers {
      let names = Self.written(trigger.text)
      written[trigger.table.sqliteKey, default: []].formUnion(names)
      if trigger.isEarly { writtenEarly[trigger.table.sqliteKey, default: []].formUnion(names) }
    }
    guard !triggers.isEmpty else { return }
    for table in tables {
      for key in table.schema.foreignKeys { children[key.table.sqliteKey, default: []].insert(table.name.sqliteKey) }
    }
  }

  /// Returns whether a write to a table may lead to another write of the table before it replaces rows.
  func mayReturn(to table: NameKey) -> Bool {
    var next = (writtenEarly[table] ?? []).map { Step(table: $0, isByTrigger: true) }
    next += (children[table] ?? []).map { Step(table: $0, isByTrigger: false) }
    var seen = Set(next)
    while let step = next.popLast() {
      if step.isByTrigger, step.table == table { return true }
      var steps = (written[step.table] ?? []).map { Step(table: $0, isByTrigger: true) }
      steps += (children[step.table] ?? []).map { Step(table: $0, isByTrigger: step.isByTrigger) }
      for one in steps where seen.insert(one).inserted { next.append(one) }
    }
    return false
  }

  /// Returns the names that follow INSERT INTO, REPLACE INTO, UPDATE and DELETE FROM in a trigger's body.
  private static func written(_ text: String) -> Set<NameKey> {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let begin = tokens.firstIndex(where: { $0.word == "BEGIN" }) else { return [] }
    var names: Set<NameKey> = []
    for place in tokens.indices[begin...] {
      var next = place + 1
      switch tokens[place].word {
      case "INTO": break
      case "UPDATE": if next < tokens.count, tokens[next].word == "OR" { next += 2 }
      case "DELETE": next += 1
      default: continue
      }
      if next < tokens.count { names.insert(SQLText.name(bytes, tokens[next]).sqliteKey) }
    }
    return names
  }
}

/// The time at which a trigger runs, by the words of its definition before ON.
private struct TriggerTime {
  let isBefore: Bool
  /// Whether the trigger may run before a write deletes the rows that it replaces. Such a trigger is a BEFORE trigger,
  /// or the delete of a row fires it.
  let isEarly: Bool

  init(_ text: String) {
    let words = SQLText.tokens(Array(text.utf8)).map(\.word)
    guard let on = words.firstIndex(of: "ON") else {
      (isBefore, isEarly) = (true, true)
      return
    }
    isBefore = !words[..<on].contains("AFTER") && !words[..<on].contains("INSTEAD")
    isEarly = isBefore || words[..<on].contains("DELETE")
  }
}

/// Finds properties of tables that affect which values triggers read, or whether Cairn's statements can use the table.
extension Database {
  /// Sets ``SQLiteTable/givesWrongOld`` of each table whose AFTER triggers get wrong values of OLD.
  ///
  /// SQLite 3.40.1 converts a value of OLD to the type of a foreign key's column that references the value. For an
  /// INTEGER column, the text '01234' becomes 1234.
  static func markWrongOld(_ tables: inout [SQLiteTable]) {
    let places = Dictionary(
      tables.enumerated().map { ($1.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
    for child in tables {
      for key in child.schema.foreignKeys {
        guard let place = places[key.table.sqliteKey], !tables[place].givesWrongOld else { continue }
        tables[place].givesWrongOld = isMistyped(key, child.schema, parent: tables[place])
      }
    }
  }

  private static func isMistyped(
    _ key: TableSchema.ForeignKey, _ child: TableSchema, parent: SQLiteTable
  ) -> Bool {
    let untyped: Set = ["TEXT", "BLOB"]
    let columns = parent.schema.columns
    let referenced =
      key.references.isEmpty
      ? parent.primaryColumns.map { columns[$0] }
      : key.references.compactMap { name in columns.first { $0.name.sqliteKey == name.sqliteKey } }
    // If a generated column takes part, or the key is broken, any column of the table may be the referenced one.
    guard referenced.count == key.columns.count else { return columns.contains { untyped.contains($0.affinity) } }
    return zip(referenced, key.columns).contains { theirs, column in
      untyped.contains(theirs.affinity) && !untyped.contains(child.columns[column].affinity)
    }
  }

  /// Sets ``SQLiteTable/mayNestWrites``. The triggers of the application that run while a row is written are the BEFORE
  /// triggers of its table. If REPLACE deletes a row, they are also those of tables that refer to it.
  func markNestedWrites(_ tables: inout [SQLiteTable]) throws {
    let triggers = try query("SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'")
      .filter { !$0[1].string.hasPrefix("cairn_") }
    var names = Set(triggers.filter { TriggerTime($0[2].string).isBefore }.map { $0[0].string.sqliteKey })
    if !triggers.isEmpty {
      for table in tables { names.formUnion(table.schema.foreignKeys.map(\.table.sqliteKey)) }
    }
    let referenced = Set(tables.flatMap { $0.schema.foreignKeys.map(\.table.sqliteKey) })
    let writes = TriggerWrites(
      triggers.map { (table: $0[0].string, text: $0[2].string, isEarly: TriggerTime($0[2].string).isEarly) }, tables)
    for index in tables.indices {
      let name = tables[index].name.sqliteKey
      tables[index].mayNestWrites = names.contains(name)
      tables[index].mayWriteBeforeReplace = writes.mayReturn(to: name)
      tables[index].isReferenced = referenced.contains(name)
    }
  }

  /// Sets ``SQLiteTable/refusal`` of tables that need a collation which only the application defines. If only an index
  /// that is not unique needs such a collation, the table is accepted without that index.
  func refuseUnknownCollations(_ tables: inout [SQLiteTable]) {
    // SQLite also lists an undefined collation, once a statement has named it.
    let known: Set = ["BINARY", "NOCASE", "RTRIM"]
    for index in tables.indices where tables[index].refusal == nil {
      if let name = SQLText.collations(tables[index].schema.createText).first(where: {
        !known.contains($0.asciiUppercased)
      }) {
        tables[index].refusal = "it needs the collation \(name.quotedName), which only the application has"
      }
      for object in tables[index].schema.objects {
        guard let name = SQLText.collations(object.text).first(where: { !known.contains($0.asciiUppercased) }) else {
          continue
        }
        if tables[index].uniqueKeys.contains(where: { $0.name.hasSameBytes(as: object.name) }) {
          tables[index].refusal =
            "its unique index \(object.name) needs the collation \(name.quotedName), which only the application has"
        }
        tables[index].schema.objects.removeAll { $0 == object }
      }
    }
  }
}
