import Changes

/// The statements that give an SQLite table another shape and keep its rows. If ALTER TABLE cannot make the change, the
/// table is created again and its rows are copied. Run the statements in one transaction, with foreign keys off.
///
/// Source: https://sqlite.org/lang_altertable.html
///
///     let alteration = SQLiteAlteration(TableDifference(before, after))
///     for statement in alteration.statements { try database.execute(statement) }
package struct SQLiteAlteration: Sendable {
  package static let aside = "cairn_aside"
  /// The statement that lets a rename leave triggers and views unchanged. ``rebuild`` runs it before the rename, and
  /// ``presentRules`` after the rename.
  package static let legacyRules = "PRAGMA legacy_alter_table = ON"
  package static let presentRules = "PRAGMA legacy_alter_table = OFF"

  package let difference: TableDifference
  /// The present table of the target.
  package let there: TableSchema
  package let triggers: [TableSchema.Object]
  /// Whether Cairn created the table, so that it gets exactly the source's shape. Otherwise it gets only the changes
  /// that the source's rows need.
  package let isOwn: Bool
  /// Whether the target's CREATE statement must equal the source's, byte by byte.
  package let keepsText: Bool
  /// Whether a refresh follows. Rows that do not fit the new shape may then be left out.
  package let isRefreshed: Bool

  private let folded: Set<NameKey>
  /// The names of indexes at the target that differ from their names at the source, by the latter.
  private let indexNames: [NameKey: String]

  /// Computes the statements for the difference between two shapes.
  /// - Parameter there: The present table of the target; nil if the table has the source's old shape.
  /// - Parameter takenNames: The names that other objects of the target have, among those of the source's indexes.
  package init(
    _ difference: TableDifference, there: TableSchema? = nil, triggers: [TableSchema.Object] = [], isOwn: Bool = true,
    keepsText: Bool = false, isRefreshed: Bool = false, takenNames: Set<NameKey> = []
  ) {
    self.difference = difference
    var there = there ?? difference.before
    let wanted = difference.before.objects + difference.after.objects
    indexNames = IndexNames.adopt(&there.objects, as: wanted, in: .sqlite, taken: isOwn ? nil : takenNames) {
      IndexNames.statement($0.text, $1.name).hasSameBytes(as: IndexNames.statement($1.text, $1.name))
    }
    // An index that is as at the source has the source's text.
    for (index, object) in there.objects.enumerated() where indexNames[object.name.sqliteKey] != nil {
      there.objects[index] =
        wanted.first {
          IndexNames.statement($0.text, $0.name).hasSameBytes(as: object.text)
        } ?? object
    }
    self.there = there
    self.triggers = triggers
    (self.isOwn, self.keepsText, self.isRefreshed) = (isOwn, keepsText, isRefreshed)
    folded = Set(self.there.columns.map { $0.name.sqliteKey })
  }

  package static func create(_ table: TableSchema) -> [String] {
    [table.createText.isEmpty ? table.ownText(typesOf: table, isWhole: true) : table.createText]
      + table.objects.map(\.text)
  }

  package static func drop(_ table: TableSchema) -> [String] { ["DROP TABLE \(table.name.quotedName)"] }

  private var before: TableSchema { difference.before }
  private var after: TableSchema { difference.after }
  private var name: String { after.name.quotedName }

  /// All statements that change the table, in the order in which they must run.
  package var statements: [String] { rename + (alters.map { $0 + indexes } ?? rebuild) }

  // MARK: The name

  package var rename: [String] { Self.rename(before.name, to: after.name) }

  package static func rename(_ old: String, to new: String) -> [String] {
    if old.hasSameBytes(as: new) { return [] }
    // To SQLite, a name that differs only in case is taken already.
    guard old.isSameInSQLite(as: new) else {
      return ["ALTER TABLE \(old.quotedName) RENAME TO \(new.quotedName)"]
    }
    return [
      "ALTER TABLE \(old.quotedName) RENAME TO \(aside)", "ALTER TABLE \(aside) RENAME TO \(new.quotedName)",
    ]
  }

  // MARK: ALTER TABLE

  /// The ALTER TABLE statements for columns, to run after the statements of ``rename``; nil if ALTER TABLE cannot make
  /// the change. If ``keepsText`` is true, check afterwards that the stored CREATE statement equals the source's.
  package var alters: [String]? {
    if keepsText, !isInOrder { return nil }
    if keepsText, difference.isEmpty, !isWanted(there.createText) { return nil }
    guard !difference.changes.contains(where: needsRebuild) else { return nil }
    guard let added = addedColumns else { return nil }
    return droppedColumns + renamedColumns + added
  }

  /// Whether the remaining columns keep their order, and new ones come after them.
  private var isInOrder: Bool {
    let kept = difference.origins.prefix { $0 != nil }.compactMap { $0 }
    return kept == kept.sorted() && difference.origins.dropFirst(kept.count).allSatisfy { $0 == nil }
  }

  private func needsRebuild(_ change: TableDifference.Change) -> Bool {
    switch change {
    case .renameTable, .addColumn, .dropColumn, .renameColumn, .identityOfColumn, .addIndex, .dropIndex: return false
    case .retypeColumn(let old, let new):
      guard !isOwn else {
        return before.columns[old].declaredType != after.columns[new].declaredType
          || before.columns[old].collation != after.columns[new].collation
      }
      return theirs(old).map { $0.affinity != after.columns[new].affinity } ?? false
    case .requireColumn(let old, let new):
      return isOwn || (theirs(old)?.isNotNull == true && !after.columns[new].isNotNull)
    case .key: return isOwn || !hasKey
    // Properties that the statement does not show cannot be changed here.
    case .defaultOfColumn, .kind: return isOwn && before.createText != after.createText
    case .uniques: return isOwn || there.uniques.contains { unique in !isUniqueAfter(unique) }
    case .addForeignKey(let index):
      // The key of an added column is part of the column's definition.
      return isOwn && !(keepsText && after.foreignKeys[index].columns.allSatisfy { difference.origins[$0] == nil })
    case .dropForeignKey(let index):
      return isOwn && !(keepsText && before.foreignKeys[index].columns.allSatisfy { !difference.origins.contains($0) })
    }
  }

  /// Returns the target's column for a column of the shape `before`; nil if there is none.
  private func theirs(_ old: Int) -> TableSchema.Column? {
    let name = before.columns[old].name.sqliteKey
    return there.columns.first { $0.name.sqliteKey == name }
  }

  private func names(_ table: TableSchema, _ columns: [Int]) -> Set<NameKey> {
    Set(columns.map { table.columns[$0].name.sqliteKey })
  }

  private var hasKey: Bool {
    let key = names(after, after.key)
    return key.isEmpty || ([there.key] + there.uniques).contains { names(there, $0) == key }
  }

  private func isUniqueAfter(_ unique: [Int]) -> Bool {
    let columns = names(there, unique)
    return ([after.key] + after.uniques).contains { !$0.isEmpty && names(after, $0).isSubset(of: columns) }
  }

  private var droppedColumns: [String] {
    difference.changes.compactMap { change in
      guard case .dropColumn(let index) = change else { return nil }
      let column = before.columns[index].name
      return folded.contains(column.sqliteKey)
        ? "ALTER TABLE \(name) DROP COLUMN \(column.quotedName)" : nil
    }
  }

  private var renamedColumns: [String] {
    var pairs: [(old: String, new: String)] = []
    for case .renameColumn(let old, let new) in difference.changes {
      let (was, now) = (before.columns[old].name, after.columns[new].name)
      let isMade =
        !folded.contains(was.sqliteKey)
        || (!isOwn && folded.contains(now.sqliteKey)
          && !before.columns.contains { $0.name.sqliteKey == now.sqliteKey })
      if !isMade { pairs.append((was, now)) }
    }
    let leaving = Set(pairs.map { $0.old.sqliteKey })
    var first: [String] = []
    var second: [String] = []
    for (index, pair) in pairs.enumerated() {
      let isTaken = leaving.contains(pair.new.sqliteKey) && pair.old.sqliteKey != pair.new.sqliteKey
      let third = "cairn_moving_\(index)"
      if isTaken { first.append("ALTER TABLE \(name) RENAME COLUMN \(pair.old.quotedName) TO \(third)") }
      second.append(
        "ALTER TABLE \(name) RENAME COLUMN \(isTaken ? third : pair.old.quotedName) TO \(written(pair.new))")
    }
    return first + second.filter { !$0.contains("RENAME COLUMN cairn_moving_") }
      + second.filter { $0.contains("RENAME COLUMN cairn_moving_") }
  }

  /// Returns a column's name as written in the CREATE TABLE statement.
  private func written(_ column: String) -> String {
    SQLiteTableText(after.createText)?.definition(of: column)?.name ?? column.quotedName
  }

  private var addedColumns: [String]? {
    var lines: [String] = []
    let text = SQLiteTableText(after.createText)
    for case .addColumn(let index) in difference.changes {
      let column = after.columns[index]
      let isThere =
        folded.contains(column.name.sqliteKey)
        && !before.columns.contains { $0.name.sqliteKey == column.name.sqliteKey }
      if isThere { continue }
      guard let definition = text?.definition(of: column.name) else { return nil }
      guard column.keyOrdinal == 0, !after.uniques.contains(where: { $0.contains(index) }) || !isOwn else { return nil }
      lines.append("ALTER TABLE \(name) ADD COLUMN \(definition.text)")
    }
    return lines
  }

  // MARK: Indexes

  /// The statements that drop obsolete indexes and create new ones. Other indexes of the target stay.
  package var indexes: [String] {
    let stale = there.objects.filter { known($0) && !after.objects.contains($0) && !isKept($0) }
    let fresh = after.objects.filter { object in
      !there.objects.contains { own in
        own == object || (own.name.sqliteKey == object.name.sqliteKey && (!isOwn || isKept(own)))
      }
    }
    return stale.map { "DROP INDEX IF EXISTS \(ownName($0).quotedName)" } + fresh.map(\.text)
  }

  /// Returns whether an index of the target stays although the source's index of that name has another text. The schema
  /// change does not alter such an index, or both texts say the same.
  private func isKept(_ index: TableSchema.Object) -> Bool {
    let name = index.name.sqliteKey
    guard let now = after.objects.first(where: { $0.name.sqliteKey == name }) else { return false }
    if let was = before.objects.first(where: { $0.name.sqliteKey == name }) { return was == now }
    let columns = after.columns.map(\.name)
    guard difference.renamedColumns.isEmpty, let own = IndexText(index.text, columns: columns, engine: .sqlite),
      let wanted = IndexText(now.text, columns: columns, engine: .sqlite)
    else { return false }
    return own.terms == wanted.terms && own.isUnique == wanted.isUnique
  }

  /// The statements that create the source's indexes again in ``rebuild``. An index that stays has the target's text.
  package var rebuiltIndexes: [String] {
    after.objects.map { object in
      let own = there.objects.first { $0.name.sqliteKey == object.name.sqliteKey && isKept($0) }
      return difference.renamedColumns.isEmpty ? own?.text ?? object.text : object.text
    }
  }

  private func ownName(_ index: TableSchema.Object) -> String { indexNames[index.name.sqliteKey] ?? index.name }

  /// Returns whether an index of the target corresponds, by name, to an index of the source.
  private func known(_ object: TableSchema.Object) -> Bool {
    let name = object.name.sqliteKey
    return before.objects.contains { $0.name.sqliteKey == name && (isOwn || !after.objects.contains($0)) }
      || (isOwn && after.objects.contains { $0.name.sqliteKey == name })
  }

  // MARK: Rebuild

  /// The columns that only the target has.
  package var extras: [TableSchema.Column] {
    let theirs = Set((before.columns + after.columns).map { $0.name.sqliteKey })
    return there.columns.filter { !theirs.contains($0.name.sqliteKey) }
  }

  /// The columns whose values the new table keeps, each with its new name and its old name.
  package var kept: [(new: String, old: String)] {
    var pairs: [(new: String, old: String)] = []
    for (index, column) in after.columns.enumerated() {
      let name = column.name.sqliteKey
      if let old = difference.origins[index], folded.contains(before.columns[old].name.sqliteKey) {
        pairs.append((column.name, before.columns[old].name))
      } else if folded.contains(name), !before.columns.contains(where: { $0.name.sqliteKey == name }) {
        pairs.append((column.name, column.name))
      }
    }
    return pairs + extras.map { ($0.name, $0.name) }
  }

  /// The statement that copies the rows into the table that ``rebuild`` creates; nil if no column is kept.
  package var copy: String? {
    let pairs = kept
    guard !pairs.isEmpty else { return nil }
    return
      "INSERT\(isRefreshed && extras.isEmpty ? " OR IGNORE" : "") INTO \(name)(\(pairs.map(\.new.quotedName).joined(separator: ","))) "
      + "SELECT \(pairs.map(\.old.quotedName).joined(separator: ",")) FROM \(Self.aside)"
  }

  /// The statements that create the table again with its rows, to run after the statements of ``rename``. Indexes and
  /// triggers that only the target has are kept.
  package var rebuild: [String] {
    let own = there.objects.filter { object in
      let name = object.name.sqliteKey
      return !before.objects.contains { $0.name.sqliteKey == name }
        && !after.objects.contains { $0.name.sqliteKey == name }
    }
    // With the legacy rules, references from other tables to this one stay unchanged.
    return triggers.map { "DROP TRIGGER \($0.name.quotedName)" }
      + there.objects.map { "DROP INDEX \(ownName($0).quotedName)" } + [
        Self.legacyRules, "ALTER TABLE \(name) RENAME TO \(Self.aside)", Self.presentRules, newText,
      ] + (copy.map { [$0] } ?? []) + ["DROP TABLE \(Self.aside)"]
      + rebuiltIndexes + own.map(\.text) + triggers.map(\.text)
  }

  /// If a statement of ``rebuild`` creates an index or trigger that only the target has, returns its name, such as
  /// `index mine`. Otherwise nil.
  package func owner(of statement: String) -> String? {
    if let trigger = triggers.first(where: { $0.text == statement }) { return "trigger \(trigger.name)" }
    return there.objects.first { $0.text == statement && !after.objects.contains($0) }.map { "index \($0.name)" }
  }

  private var newText: String { wantedText ?? after.createText }

  /// The CREATE TABLE statement that the table gets: the source's, with the parts that only the target has. Nil if
  /// source and target have altered the same definition.
  package var wantedText: String? {
    guard let text = SQLiteTableText(after.createText), let theirs = SQLiteTableText(there.createText) else {
      return after.createText
    }
    guard let was = SQLiteTableText(before.createText) else {
      return text.adding(extras.map { theirs.definition(of: $0.name)?.text ?? $0.name.quotedName })
    }
    let own = Set(extras.map(\.name.sqliteKey))
    return text.keepingOwn(of: theirs, besides: was, extras: own) { name in
      let index = after.columns.firstIndex { $0.name.sqliteKey == name }
      // The schema does not have generated columns: those keep their names.
      guard let index else { return name }
      return difference.origins[index].map { before.columns[$0].name.sqliteKey }
    }
  }

  /// Returns whether a CREATE TABLE statement of the target is the one that the table gets.
  package func isWanted(_ text: String?) -> Bool {
    guard let wanted = wantedText, let text else { return false }
    if wanted.hasSameBytes(as: after.createText) { return text.hasSameBytes(as: wanted) }
    guard let there = SQLiteTableText(text), let parts = SQLiteTableText(wanted) else { return false }
    return there.hasSameParts(as: parts)
  }
}

extension SQLiteAlteration {
  /// Returns a statement for a script that the operator pipes into `sqlite3`. The result has no comments, no control
  /// characters, and no line that the shell reads as its own command. Nil if that is not certain, as for a statement
  /// that is too long.
  ///
  /// Source: https://sqlite.org/cli.html
  package static func forShell(_ statement: String) -> String? {
    guard let tokens = try? DDLTokenizer.tokens(statement, .sqlite) else { return nil }
    return tokens.enumerated().map { index, token in
      let isPlain = token.space.utf8.allSatisfy { [0x20, 0x09, 0x0a].contains($0) }
      let isCommand = token.printed.utf8.first.map(".#/".utf8.contains) ?? false || token.word == "GO"
      let space = isPlain && !isCommand ? token.space : index == 0 || token.space.isEmpty ? "" : " "
      return space + printedForShell(token)
    }.joined()
  }

  private static func printedForShell(_ token: DDLToken) -> String {
    guard case .string(let text) = token.kind, text.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 && $0 != 0x0a })
    else { return token.printed }
    return "(CAST(x'\(text.utf8.hex)' AS TEXT))"
  }

  /// Returns the name of the index in a CREATE INDEX statement; nil if there is none.
  package static func indexName(_ text: String) -> String? {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let on = tokens.firstIndex(where: { $0.word == "ON" }), on > 0 else { return nil }
    return IndexText.name(String(decoding: bytes[tokens[on - 1].range], as: UTF8.self))
  }
}
