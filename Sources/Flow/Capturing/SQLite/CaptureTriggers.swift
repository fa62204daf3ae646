import Changes
import SQLiteKit

/// The kind of a journal row. The column `code` of the row is `layout id * 8 + kind`; a layout is one recorded shape of
/// a table.
enum JournalKind: Int64 {
  /// A row that marks schema changes; its layout id is 0. Columns `since` and `ended` of `cairn_layout` have the
  /// numbers of such rows.
  case marker = 0
  case insert = 1
  /// The row before an update. The next journal row, ``updateNew``, has the values after the update.
  case updateOld = 2
  case updateNew = 3
  case delete = 4
  /// An existing row whose rowid another row is about to get. SQLite deletes the existing row if the other row is
  /// written.
  case replaceCandidate = 5
  case vanished = 6
  /// A request to send the row with this key again.
  case asked = 7
}

/// The SQL of the triggers that capture one table (`docs/explanation/sqlite-capture.md`). No trigger calls a function,
/// because a function makes each statement of the application slower.
struct CaptureTriggers {
  let table: SQLiteTable
  let layout: Int64
  var prefix = CaptureTriggers.namePrefix
  var isTemporary = false

  static func carriesRowid(_ schema: TableSchema) -> Bool { schema.flags.contains(.wholeRow) }

  static let namePrefix = "cairn_"
  static func name(_ layout: Int64, _ role: String, _ prefix: String = namePrefix) -> String {
    "\(prefix)\(layout)_\(role) (to drop a column: cairn unhook, ALTER TABLE, cairn rehook)"
  }

  /// Returns the layout id in a trigger's name; nil if the name is not one of capture's triggers.
  static func layout(ofTrigger name: String) -> Int64? {
    let parts = name.split(at: "_", maxSplits: 2)
    guard parts.count == 3, parts[0] == "cairn", name.hasPrefix(namePrefix), let layout = Int64(parts[1]),
      String(layout) == parts[1], CaptureInstance.ids.contains(layout)
    else { return nil }
    return layout
  }

  private var target: String { table.name.quotedName }
  private var columns: [String] { table.schema.columns.map(\.name.quotedName) }
  private var rowid: String { table.rowidColumn.map { columns[$0] } ?? table.rowidName ?? "rowid" }
  private var carriesRowid: Bool { Self.carriesRowid(table.schema) }
  private var isRowidOnly: Bool {
    table.uniqueKeys.isEmpty && !table.schema.flags.contains(.withoutRowid)
      && !(table.mayWriteBeforeReplace && table.rowidColumn != nil)
  }

  private var valueNames: String {
    (0..<columns.count + (carriesRowid ? 1 : 0)).map { "v\($0)" }.joined(separator: ",")
  }

  private func values(_ row: String) -> String {
    (columns + (carriesRowid ? [rowid] : [])).map { "\(row)\($0)" }.joined(separator: ",")
  }

  private func code(_ kind: JournalKind) -> Int64 { layout * 8 + kind.rawValue }

  private func log(_ kind: JournalKind, _ row: String) -> String {
    "INSERT INTO cairn_journal(code,\(valueNames)) VALUES (\(code(kind)),\(values(row)));"
  }

  /// Returns two statements by which a trigger purges the journal, for about one row in 128.
  private func maintenance(_ guardText: String) -> String {
    let last = "(SELECT max(seq) FROM cairn_journal)"
    return """
      UPDATE cairn_control SET purged = CASE WHEN taken > \(last) - cap \
      THEN CASE WHEN taken < purged + 1024 THEN taken ELSE purged + 1024 END ELSE \(last) - cap END \
      WHERE \(guardText) AND id = 0; \
      DELETE FROM cairn_journal WHERE \(guardText) AND seq < (SELECT purged FROM cairn_control WHERE id = 0);
      """
  }

  // MARK: OLD before the write

  /// The value of column `layout` in `cairn_stage` for a saved OLD row that is not logged yet.
  private var keptLayout: Int64 { -layout }

  /// Returns the SQL condition that finds the saved OLD row of the current write in `cairn_stage`.
  private func isKept(_ stage: String) -> String {
    if rowidIsKnown { return "\(stage).layout = \(keptLayout) AND \(stage).v\(columns.count) = OLD.\(rowid)" }
    let same = identity("c.", "OLD.", leftNames: stageNames, rightNames: columns)
    let there = identity("\(target).", "c.", rightNames: stageNames)
    return """
      \(stage).rowid = (SELECT max(c.rowid) FROM cairn_stage AS c WHERE c.layout = \(keptLayout) \
      AND ((\(same)) OR NOT EXISTS (SELECT 1 FROM \(target) WHERE \(there))))
      """
  }

  /// The SQL expressions for the OLD row's values in an AFTER trigger. If OLD is wrong, they read the saved row.
  private var oldColumns: [String] {
    guard table.givesWrongOld else { return columns.map { "OLD.\($0)" } }
    return columns.indices.map { "(SELECT kept.v\($0) FROM cairn_stage AS kept WHERE \(isKept("kept")))" }
  }

  /// The SQL expressions for the NEW row's values in an AFTER trigger. If NEW may be wrong, they read the written row.
  private var newColumns: [String] {
    guard table.givesWrongOld, !table.mayGiveWrongNew else { return columns.map { "NEW.\($0)" } }
    return columns.map { "(SELECT written.\($0) FROM \(target) AS written WHERE written.\(rowid) = NEW.\(rowid))" }
  }

  private func logNew(_ kind: JournalKind) -> String {
    let row = newColumns + (carriesRowid ? ["NEW.\(rowid)"] : [])
    return "INSERT INTO cairn_journal(code,\(valueNames)) VALUES (\(code(kind)),\(row.joined(separator: ",")));"
  }

  private var rowidIsKnown: Bool { table.rowidName != nil || table.rowidColumn != nil }

  /// The BEFORE triggers that save the OLD row in `cairn_stage`, for tables whose AFTER triggers see a wrong OLD.
  var keepers: [Trigger] {
    guard table.givesWrongOld else { return [] }
    let names = (0..<columns.count).map { "v\($0)" } + (rowidIsKnown ? ["v\(columns.count)"] : [])
    let values = (columns + (rowidIsKnown ? [rowid] : [])).map { "OLD.\($0)" }.joined(separator: ",")
    let last = "(SELECT rowid FROM cairn_stage ORDER BY rowid DESC LIMIT 1)"
    let same = rowidIsKnown ? " OR v\(columns.count) = OLD.\(rowid)" : ""
    let body = [
      // Rows left by a write that a trigger of the application ignored.
      "DELETE FROM cairn_stage WHERE layout = \(keptLayout) AND (rowid < \(last) - 64\(same));",
      "INSERT INTO cairn_stage(layout,\(names.joined(separator: ","))) VALUES (\(keptLayout),\(values));",
    ]
    return [trigger("keep", "BEFORE UPDATE", body), trigger("keepdelete", "BEFORE DELETE", body)]
  }

  private func logOld(_ kind: JournalKind) -> [String] {
    guard table.givesWrongOld else { return [log(kind, "OLD.")] }
    return [
      "INSERT INTO cairn_journal(code,\(valueNames)) SELECT \(code(kind)),\(valueNames) FROM cairn_stage WHERE \(isKept("cairn_stage"));",
      "DELETE FROM cairn_stage WHERE \(isKept("cairn_stage"));",
    ]
  }

  private var sometimes: String {
    maintenance("((SELECT max(seq) FROM cairn_journal) & 127) < 2")
  }

  /// The statements that purge the journal for about one row in 128, chosen by a hash of the rowid.
  private var sometimesByRowid: String {
    table.rowidName == nil && table.rowidColumn == nil
      ? sometimes : maintenance("((((NEW.\(rowid) % 2147483629) * 1640531527) >> 31) & 127) = 0")
  }

  /// The names and texts of the triggers, in the order in which they are created. SQLite fires the newest trigger
  /// first, and Cairn's must fire before those of the application.
  var statements: [Trigger] { base + keepers }

  /// The triggers without which capture misses changes: all except those that save OLD rows.
  var base: [Trigger] { isRowidOnly ? rowidOnly : staged }

  struct Trigger {
    let name: String
    let text: String
  }

  private func trigger(_ role: String, _ event: String, when: String? = nil, _ body: [String]) -> Trigger {
    let name = Self.name(layout, role, prefix)
    return Trigger(
      name: name,
      text: """
        CREATE\(isTemporary ? " TEMP" : "") TRIGGER \(name.quotedName) \(event) ON \(target)\
        \(when.map { " WHEN \($0)" } ?? "") BEGIN \(body.joined(separator: " ")) END
        """)
  }

  // MARK: Tables whose rowid is their only unique key

  private var rowidOnly: [Trigger] {
    let candidate =
      "INSERT INTO cairn_journal(code,\(valueNames)) SELECT \(code(.replaceCandidate)),\(values("")) FROM \(target) WHERE \(rowid) = NEW.\(rowid);"
    let exists = "EXISTS (SELECT 1 FROM \(target) WHERE \(rowid) = NEW.\(rowid))"
    // Until SQLite has chosen a rowid, it reads as -1 here. The reader handles a row whose rowid is really -1.
    let given = table.rowidColumn == nil ? "" : "NEW.\(rowid) <> -1 AND "
    return [
      trigger("replace", "BEFORE INSERT", when: given + exists, [candidate, sometimes]),
      trigger("move", "BEFORE UPDATE", when: "NEW.\(rowid) <> OLD.\(rowid) AND \(exists)", [candidate]),
      trigger("insert", "AFTER INSERT", [logNew(.insert), sometimesByRowid]),
      trigger("update", "AFTER UPDATE", logOld(.updateOld) + [logNew(.updateNew), sometimes]),
      trigger("delete", "AFTER DELETE", logOld(.delete) + [sometimes]),
    ]
  }

  // MARK: Tables with other unique keys

  /// Whether the key may be NULL, or the table has none, so that rows may be equal in every column.
  private var comparesAllColumns: Bool { !table.schema.flags.isDisjoint(with: [.nullableKey, .wholeRow]) }

  /// Returns the SQL terms that compare two rows by their key; by every column if the key has a NULL, or there is none.
  private func identity(
    _ left: String, _ right: String, leftNames: [String]? = nil, rightNames: [String]
  ) -> String {
    func equal(_ compared: [Int]) -> String {
      compared.map { index in
        let collation = table.schema.columns[index].collation
        let suffix = collation.isEmpty ? "" : " COLLATE \(collation.quotedName)"
        return "\(left)\((leftNames ?? columns)[index])\(suffix) IS \(right)\(rightNames[index])"
      }.balanced("AND")
    }
    let key = table.schema.key
    let others = columns.indices.filter { !key.contains($0) }
    guard comparesAllColumns, !others.isEmpty else { return equal(key) }
    guard !key.isEmpty else { return equal(others) }
    let hasNull = key.map { "\(left)\((leftNames ?? columns)[$0]) IS NULL" }.joined(separator: " OR ")
    // A staged row may have former values of other columns, if a foreign key or a trigger changed it within a write.
    return "(\(equal(key))) AND (NOT (\(hasNull)) OR (\(equal(others))))"
  }

  /// The highest number of the table's rows in `cairn_stage`. Triggers of the application can nest writes, for which 64
  /// rows suffice.
  private var stagedRowsMax: Int {
    table.mayNestWrites || table.mayWriteBeforeReplace ? 64 : table.uniqueKeys.count + 4
  }

  private var stageNames: [String] { valueNames.split(separator: ",").map(String.init) }

  /// The SQL condition for existing rows that have a unique key of the NEW row.
  private var conflicts: String {
    var keys = table.uniqueKeys.map { key in
      var terms = key.terms.map { term -> String in
        let collation = " COLLATE \(term.collation.quotedName)"
        guard let column = term.column else {
          // The value of an expression for the new row, evaluated over a one-row table with the new row's columns.
          let all =
            columns.map { "NEW.\($0) AS \($0)" } + table.generated.map { "NEW.\($0.quotedName) AS \($0.quotedName)" }
          return "(\(term.text))\(collation) = (SELECT \(term.text) FROM (SELECT \(all.joined(separator: ","))))"
        }
        return "\(columns[column])\(collation) = NEW.\(columns[column])"
      }
      if let predicate = key.predicate { terms.append("(\(predicate))") }
      return "(" + terms.joined(separator: " AND ") + ")"
    }
    if !table.schema.flags.contains(.withoutRowid), table.rowidName != nil || table.rowidColumn != nil {
      keys.append("(\(rowid) = NEW.\(rowid))")
    }
    return keys.joined(separator: " OR ")
  }

  // MARK: Writes within a write

  /// The value of column `layout` in `cairn_stage` for a row whose key a write in progress changes.
  private var parkedLayout: Int64 { layout + 1 << 32 }
  /// The value of column `layout` in `cairn_stage` for the NEW row of a write in progress.
  private var pendingLayout: Int64 { layout + 2 << 32 }

  private var isOld: String { identity("cairn_stage.", "", leftNames: stageNames, rightNames: oldColumns) }

  /// Saves the NEW row of a write. A trigger of the application may write a row that this write then replaces.
  private var pend: [String] {
    guard table.mayWriteBeforeReplace else { return [] }
    let names = (0..<columns.count + (rowidIsKnown ? 1 : 0)).map { "v\($0)" }.joined(separator: ",")
    let values = (columns + (rowidIsKnown ? [rowid] : [])).map { "NEW.\($0)" }.joined(separator: ",")
    return ["INSERT INTO cairn_stage(layout,\(names)) VALUES (\(pendingLayout),\(values));"]
  }

  /// Ends the write of a row, and stages the row if a write around this one may replace it. A saved row of a write that
  /// ended early only adds staged rows.
  private var endPending: [String] {
    guard table.mayWriteBeforeReplace else { return [] }
    var keys = table.uniqueKeys.map { key in
      let terms = key.terms.compactMap { term in
        term.column.map { "\(newColumns[$0]) COLLATE \(term.collation.quotedName) = p.v\($0)" }
      }
      return terms.isEmpty ? "1" : "(\(terms.joined(separator: " AND ")))"
    }
    if rowidIsKnown { keys.append("NEW.\(rowid) = p.v\(columns.count)") }
    let row = (newColumns + (carriesRowid ? ["NEW.\(rowid)"] : [])).joined(separator: ",")
    let isStaged = identity("", "s.", leftNames: newColumns, rightNames: stageNames)
    return [
      "DELETE FROM cairn_stage WHERE rowid = (SELECT max(rowid) FROM cairn_stage WHERE layout = \(pendingLayout));",
      """
      INSERT INTO cairn_stage(layout,\(valueNames)) SELECT \(layout),\(row) \
      WHERE EXISTS (SELECT 1 FROM cairn_stage AS p WHERE p.layout = \(pendingLayout) AND (\(keys.joined(separator: " OR ")))) \
      AND NOT EXISTS (SELECT 1 FROM cairn_stage AS s WHERE s.layout = \(layout) AND \(isStaged));
      """,
    ]
  }

  private var staged: [Trigger] {
    let names = (["layout"] + stageNames).joined(separator: ",")
    let images = values("")
    let isOfStaged = identity("\(target).", "cairn_stage.", rightNames: stageNames)
    // The fewer terms for tables without foreign keys and triggers of the application.
    let layouts = table.isReferenced ? "IN (\(layout),\(parkedLayout))" : "= \(layout)"
    let oldest = "(SELECT rowid FROM cairn_stage ORDER BY rowid DESC LIMIT 1) - \(stagedRowsMax)"
    let isPending = table.mayWriteBeforeReplace ? "(layout = \(pendingLayout) AND rowid < \(oldest)) OR " : ""
    func stage(_ condition: String) -> [String] {
      [
        // Rows left by an OR IGNORE or an upsert. Those that the write may delete are staged again, as the newest ones.
        """
        DELETE FROM cairn_stage WHERE \(isPending)layout \(layouts) AND (rowid < \(oldest) \
        OR EXISTS (SELECT 1 FROM \(target) WHERE (\(condition)) AND \(isOfStaged)));
        """,
        "INSERT INTO cairn_stage(\(names)) SELECT \(layout),\(images) FROM \(target) WHERE (\(condition));",
      ]
    }
    let isNew = identity("", "cairn_stage.", leftNames: newColumns, rightNames: stageNames)
    let isGone =
      if !comparesAllColumns {
        "NOT EXISTS (SELECT 1 FROM \(target) WHERE \(isOfStaged)) OR (\(isNew))"
      } else if rowidIsKnown {
        // The new row may equal a staged row that is still there, as they have no key.
        "NOT EXISTS (SELECT 1 FROM \(target) WHERE \(isOfStaged) AND \(target).\(rowid) <> NEW.\(rowid))"
      } else {
        """
        NOT EXISTS (SELECT 1 FROM \(target) WHERE \(isOfStaged)) \
        OR (\(isNew)) AND NOT EXISTS (SELECT 1 FROM \(target) WHERE \(isOfStaged) LIMIT 1 OFFSET 1)
        """
      }
    // Logs staged rows that no longer exist, or whose place the new row has taken.
    func emit(unless exception: String = "") -> [String] {
      let gone = "cairn_stage.layout = \(layout)\(exception) AND (\(isGone))"
      return [
        "INSERT INTO cairn_journal(code,\(stageNames.joined(separator: ","))) SELECT \(code(.vanished)),\(stageNames.joined(separator: ",")) FROM cairn_stage WHERE \(gone);",
        "DELETE FROM cairn_stage WHERE \(gone);",
      ]
    }
    let isSame = " AND NOT (\(isOld))"
    let unstage =
      "DELETE FROM cairn_stage WHERE cairn_stage.layout = \(layout) AND \(identity("OLD.", "cairn_stage.", rightNames: stageNames));"
    // A row that a BEFORE trigger of the application changes stays in `cairn_stage`, with its new values.
    let refresh =
      "UPDATE cairn_stage SET \(table.isReferenced ? "layout = \(layout)," : "")\(zip(stageNames, newColumns + (carriesRowid ? ["NEW.\(rowid)"] : [])).map { "\($0) = \($1)" }.joined(separator: ",")) WHERE cairn_stage.layout \(layouts) AND \(isOld);"
    let isMoved = "NOT (\(identity("NEW.", "OLD.", rightNames: columns)))"
    let another = "NOT (\(identity("", "OLD.", rightNames: columns)))"
    let park =
      "UPDATE cairn_stage SET layout = \(parkedLayout) WHERE cairn_stage.layout = \(layout) AND \(identity("OLD.", "cairn_stage.", rightNames: stageNames)) AND \(isMoved);"
    let isStaged = "EXISTS (SELECT 1 FROM cairn_stage)"
    func when(_ condition: String) -> String? { table.mayWriteBeforeReplace ? nil : condition }
    return [
      trigger(
        "replace", "BEFORE INSERT", when: when("EXISTS (SELECT 1 FROM \(target) WHERE \(conflicts))"),
        stage(conflicts) + pend + [sometimes]),
      // Foreign key actions run before AFTER triggers. The triggers that they fire would report a staged row as vanished
      // while a write changes its key or deletes it. A row that a write then leaves in place is not staged any more.
      trigger(
        "move", "BEFORE UPDATE",
        when: when("\(isStaged) OR EXISTS (SELECT 1 FROM \(target) WHERE (\(conflicts)) AND \(another))"),
        (table.isReferenced ? [park] : []) + stage("(\(conflicts)) AND \(another)") + pend),
      table.isReferenced
        ? trigger("remove", "BEFORE DELETE", when: isStaged, [unstage])
        : trigger("remove", "AFTER DELETE", when: isStaged, [unstage]),
      trigger("insert", "AFTER INSERT", emit() + [logNew(.insert)] + endPending + [sometimesByRowid]),
      trigger(
        "update", "AFTER UPDATE",
        emit(unless: isSame) + [refresh] + endPending + logOld(.updateOld) + [logNew(.updateNew), sometimes]),
      trigger("delete", "AFTER DELETE", logOld(.delete) + [sometimes]),
    ]
  }
}
