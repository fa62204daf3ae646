import Changes
import Mapping
import SQLiteKit

/// Makes schema changes at an SQLite target, as far as the policy allows.
///
/// Throws `schema-stopped` for a schema change that is not made; the table is then suspended. The caller rolls back.
struct SQLiteSchemaChanges {
  let database: Database
  let trail: String
  let progress: ApplyProgress

  /// A schema change of a table: the table before and after, at the source and at the target.
  struct Change {
    var before: TableMapping?
    var after: TableMapping?
    var origins: [Int?]?
    /// Whether the schema change only renames the table. Its columns stay; its indexes may change.
    var isRename = false
    var plan: SchemaPlan

    var name: String { (before ?? after)?.target.name ?? "" }
    /// Whether the table gets a temporary name while two tables swap names.
    var isMovingAside: Bool { after?.target.name.hasPrefix("cairn_moving_") ?? false }
  }

  func table(_ name: String) throws -> SQLiteTable? {
    try database.userTables().first { $0.name.isSameInSQLite(as: name) }
  }

  func text(_ name: String) throws -> String? {
    try database.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [.text(name)])
  }

  func exists(_ name: String) throws -> Bool { try text(name) != nil }

  // MARK: Create and drop

  /// Creates a table with its indexes.
  ///
  /// - Parameter isOwn: Whether Cairn created an existing table of this name. If so, its columns are changed if
  ///   necessary.
  /// - Returns: Whether a table was created. False if it already exists, or if the policy is not to create it.
  func create(_ change: Change, isOwn: Bool = false) throws -> Bool {
    guard let after = change.after else { return false }
    let schema = after.target
    guard try exists(schema.name) else {
      switch change.plan.policy {
      case .follow:
        let created = try database.integer(
          "SELECT count(*) FROM (SELECT 1 FROM cairn_table WHERE created = 1 LIMIT \(SchemaRefusal.createdMax))")
        try refusal(change).checkRoom(created: created ?? 0, table: schema.name)
        try checkName(of: schema, change)
        for statement in SQLiteAlteration.create(schema) { try run(statement, change) }
        return true
      case .stop: throw refusal(change).error("'ddl' is stop", table: schema.name)
      case .ignore: return false
      }
    }
    do { try check(after, change) } catch let error as CairnError where isOwn && change.plan.policy == .follow {
      guard let there = try table(schema.name)?.schema else { throw error }
      // The table is from an earlier copy, and its rows come again. Columns that the source does not have stay.
      var again = change
      again.plan.isRefreshed = true
      let names = Set(schema.columns.map { $0.name.sqliteKey })
      let shared = there.keeping(there.columns.indices.filter { names.contains(there.columns[$0].name.sqliteKey) })
      try alter(TableDifference(shared, schema), again)
      try check(after, change)
    }
    return false
  }

  /// Throws `schema-stopped` if a view or an index has the name of a table that is to be created.
  private func checkName(of schema: TableSchema, _ change: Change) throws {
    let other = try database.text(
      "SELECT type || ' ' || name FROM sqlite_master WHERE type IN ('view', 'index') AND name = ? COLLATE NOCASE",
      [.text(schema.name)])
    guard let other else { return }
    var refusal = refusal(change)
    refusal.statements = []
    throw refusal.error(
      "the name is in use at the target: \(other)", table: schema.name,
      hint: "drop or rename the \(other) at the target, or leave the table out with 'tables' (--tables)")
  }

  func drop(_ change: Change) throws {
    guard let schema = change.before?.target, try exists(schema.name) else { return }
    switch change.plan.dropping(schema.name) {
    case .drop: try keepingDependents(change) { try run(SQLiteAlteration.drop(schema)[0], change) }
    case .keep(let notice): progress.note(notice)
    case .refuse(let why): throw refusal(change).error(why, table: schema.name)
    }
  }

  // MARK: Rename and reshape

  func reshape(_ change: Change) throws {
    guard let before = change.before, let after = change.after else { return }
    let (was, now) = (before.target.name, after.target.name)
    let difference = TableDifference(before.target, after.target, origins: change.origins)
    if !change.isMovingAside { try checkOwnNames(change, difference) }
    switch change.plan.policy {
    case .stop:
      try checkReusedNames(change, difference)
      let isRenamed = try was.isSameInSQLite(as: now) || (!exists(was) && exists(now))
      guard isRenamed, change.isMovingAside || (try? check(after, change)) != nil else {
        throw refusal(change).error(change.plan.right.refusal, table: was)
      }
      if !change.isMovingAside, let columns = try table(now)?.schema.columns {
        try checkFilled(columns, change)
      }
    case .ignore:
      guard try exists(was) || exists(now) else { return }
      guard try exists(now), try was.isSameInSQLite(as: now) || !exists(was) else {
        throw refusal(change).error("'ddl' is ignore, so it keeps its name", table: was)
      }
      if change.isMovingAside { return }
      try checkReusedNames(change, difference)
      try check(after, change)
      try checkFilled(try table(now)?.schema.columns ?? [], change)
    case .follow:
      try keepingDependents(change) { try follow(difference, change) }
    }
  }

  /// Returns whether a schema change is not made yet at the target: the table and its columns have their former names.
  func isOpen(_ change: Change) throws -> Bool {
    guard let before = change.before?.target, let after = change.after?.target else { return false }
    guard let there = try table(before.name)?.schema.columns else { return false }
    if try !before.name.isSameInSQLite(as: after.name) && exists(after.name) { return false }
    return TableDifference(before, after, origins: change.origins).isOpen(in: Set(there.map(\.name.sqliteKey)))
  }

  private func checkReusedNames(_ change: Change, _ difference: TableDifference) throws {
    guard let why = change.plan.refusalOfReusedNames(difference) else { return }
    throw refusal(change).error(reusedNames: why, table: change.name)
  }

  private func checkOwnNames(_ change: Change, _ difference: TableDifference) throws {
    guard let there = try table(difference.before.name) ?? table(difference.after.name),
      let taken = change.plan.takenName(difference, in: Set(there.schema.columns.map { $0.name.sqliteKey }))
    else { return }
    throw refusal(change).error(inTheWay: taken, table: change.name)
  }

  private func follow(_ difference: TableDifference, _ change: Change) throws {
    guard let before = change.before, let after = change.after else { return }
    let (was, now) = (before.target.name, after.target.name)
    if !was.hasSameBytes(as: now), try exists(was), try was.isSameInSQLite(as: now) || !exists(now) {
      for statement in SQLiteAlteration.rename(was, to: now) { try run(statement, change) }
    }
    guard try exists(now) else {
      guard change.plan.mayCreateAgain else {
        throw refusal(change).error(noTable: now, table: was, goesBothWays: change.plan.right.goesBothWays)
      }
      for statement in SQLiteAlteration.create(after.target) { try run(statement, change) }
      return
    }
    guard try !exists(was) || was.isSameInSQLite(as: now) else {
      throw refusal(change).error("the target has a table \(now) already", table: was)
    }
    if change.isMovingAside { return }
    try checkDefaults(difference, change)
    try checkValues(difference, change)
    let there = try table(now)?.schema.columns ?? []
    try alter(difference, change)
    try checkFilled(there, change)
    if !change.plan.isCreated { try check(after, change) }
  }

  /// Throws `schema-stopped` if existing rows at the target need a default of the source that SQLite cannot express.
  private func checkDefaults(_ difference: TableDifference, _ change: Change) throws {
    guard !change.plan.isRefreshed, let after = change.after, after.source.engine == .postgres else { return }
    for case .addColumn(let index) in difference.changes {
      let (source, column) = (after.source.columns[index], after.target.columns[index])
      guard let text = source.defaultText, column.defaultText == nil,
        try database.integer("SELECT 1 FROM \(after.target.name.quotedName) LIMIT 1") != nil,
        try table(after.target.name)?.schema.columns.contains(where: {
          $0.name.sqliteKey == column.name.sqliteKey
        })
          == false
      else { continue }
      var refusal = refusal(change)
      refusal.statements.append("UPDATE \(after.target.name.quotedName) SET \(column.name.quotedName) = …")
      throw refusal.error(
        "rows that are there have the default \(text) in column \(column.name), which SQLite has no word for",
        table: change.name)
    }
  }

  /// - Parameter there: The target's columns before the schema change.
  private func checkFilled(_ there: [TableSchema.Column], _ change: Change) throws {
    guard let before = change.before?.target, let after = change.after else { return }
    let rows = SQLiteFilledRows(
      table: after.target.name.quotedName, database: database,
      store: change.plan.ownTrail.map { _ in SQLiteDisplacedRows(database: database) })
    let difference = TableDifference(before, after.target, origins: change.origins)
    try change.plan.checkFilled(
      difference, of: after.source, from: before, to: after.target, named: change.name, refusal(change),
      note: progress.note
    ) { key in
      // ALTER TABLE ADD COLUMN gives the default to all rows, and no statement of SQLite changes a default.
      there.first { $0.name.sqliteKey == key }.map {
        SchemaPlan.OwnColumn(column: $0, wasFilled: $0.defaultValue != nil, rows: rows)
      }
    }
  }

  /// Alters a table that already has its new name: by ALTER TABLE if possible, else by a rebuild.
  private func alter(_ difference: TableDifference, _ change: Change) throws {
    let name = difference.after.name
    guard let found = try table(name), !found.schema.columns.isEmpty else {
      throw refusal(change).error("it is not an ordinary table there", table: name)
    }
    let triggers = try database.query(
      "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", [.text(name)])
    let isOwn = change.plan.isCreated || change.before == nil
    let alteration = SQLiteAlteration(
      difference, there: found.schema, triggers: triggers.map { .init(name: $0[0].string, text: $0[1].string) },
      isOwn: isOwn, keepsText: isOwn && !change.isRename && change.after?.source.engine == .sqlite,
      isRefreshed: change.plan.isRefreshed, takenNames: isOwn ? [] : try takenNames())
    if alteration.keepsText, alteration.isWanted(found.schema.createText) {
      return try run(indexes: alteration, change)
    }
    if let alters = alteration.alters {
      try database.execute("SAVEPOINT cairn_alter")
      do {
        for statement in alters { try define(statement, change) }
        if try !alteration.keepsText || alteration.isWanted(text(name)) {
          try database.execute("RELEASE cairn_alter")
          return try run(indexes: alteration, change)
        }
      } catch let error as SQLiteError where error.isSchemaRefusal {
        if !isOwn { throw refused(change, error) }
      }
      try database.executeScript("ROLLBACK TO cairn_alter; RELEASE cairn_alter")
    }
    guard isOwn else {
      throw refusal(change).error("ALTER TABLE cannot do it, and Cairn did not create the table", table: name)
    }
    guard alteration.wantedText != nil else {
      throw refusal(change).error(
        "it alters the definition of a column, or options of the table, that the target has altered too", table: name)
    }
    try keepingCounters(of: name) { try rebuild(alteration, change) }
  }

  // MARK: Views and triggers

  private func keepingDependents(_ change: Change, _ body: () throws -> Void) throws {
    let dependents = try TargetDependents(database)
    try body()
    if let broken = try dependents.broken(in: database) {
      throw refusal(change).error(
        "\(broken) of the target would no longer work; change or drop it first", table: change.name)
    }
  }

  // MARK: Refusals

  /// The memory that a target's schema may take, in bytes, while a trail adds to it. Programs need some room as well:
  /// a file whose schema takes more than 128 MiB is refused.
  private static let schemaBytesMax = 96 << 20

  /// Runs one DDL statement, which must change only the table of `change`.
  ///
  /// Every DDL statement for an SQLite target is run by this function.
  func define(_ statement: String, _ change: Change) throws {
    if [SQLiteAlteration.legacyRules, SQLiteAlteration.presentRules].contains(statement) {
      return try database.execute(statement)
    }
    guard statement.hasPrefix("DROP ") || database.schemaBytes <= Self.schemaBytesMax else {
      throw refusal(change).error(
        "the tables of the target take more than \(Self.schemaBytesMax >> 20) MiB of memory; drop some",
        table: change.name)
    }
    let names = [change.before?.target.name, change.after?.target.name].compactMap { $0 }
    try database.define(statement, tables: names + [SQLiteAlteration.aside])
  }

  func run(_ text: String, _ change: Change) throws {
    do {
      text.hasPrefix("CREATE ") && text.contains("INDEX")
        ? try define(index: text, change) : try define(text, change)
    } catch let error as SQLiteError where error.isSchemaRefusal || error.isConstraint { throw refused(change, error) }
  }

  func refused(_ change: Change, _ error: SQLiteError) -> CairnError {
    refusal(change).error("SQLite says: \(error.message)", table: change.name)
  }

  func refusal(_ change: Change) -> SchemaRefusal {
    let (before, after) = (change.before, change.after)
    var phrases: [String] = []
    var statements: [String] = []
    switch (before, after) {
    case (nil, let after?):
      phrases = ["create table \(after.target.name)"]
      if (try? exists(after.target.name)) != true { statements = SQLiteAlteration.create(after.target) }
    case (let before?, nil):
      phrases = ["drop table \(before.target.name)"]
      statements = SQLiteAlteration.drop(before.target)
    case (let before?, let after?):
      phrases = TableDifference(before.source, after.source, origins: change.origins).phrases
      let difference = TableDifference(before.target, after.target, origins: change.origins)
      let there = (try? table(before.target.name) ?? table(after.target.name)) ?? nil
      let alteration = SQLiteAlteration(
        difference, there: there?.schema, isOwn: change.plan.isCreated, isRefreshed: change.plan.isRefreshed)
      let isRenamed = there?.name.sqliteKey == after.target.name.sqliteKey
      statements = isRenamed ? Array(alteration.statements.dropFirst(alteration.rename.count)) : alteration.statements
      if let additions = try? unfilled(difference, change), !additions.isEmpty {
        statements = statements.map { statement in
          additions.first { statement.hasSuffix($0.definition) }.map { _ in statement + " DEFAULT …" } ?? statement
        }
      }
      if statements.count > 1 { statements = ["BEGIN"] + statements + ["COMMIT"] }
    default: break
    }
    if phrases.isEmpty { phrases = ["a change of its constraints"] }
    return SchemaRefusal(
      place: database.path, phrases: phrases, before: before?.target.createText, after: after?.target.createText,
      statements: statements)
  }
}

extension SQLiteError {
  var isSchemaRefusal: Bool { primary == 1 }
  var isMismatch: Bool { primary == 20 }
}

/// The rows of a table of an SQLite target in a column that the source has added and the target already had.
private struct SQLiteFilledRows: FilledRows {
  let table: String
  let database: Database
  let store: SQLiteDisplacedRows?

  func areThere(where condition: String) throws -> Bool {
    try database.integer("SELECT 1 FROM \(table) WHERE \(condition) LIMIT 1") != nil
  }

  func condition(_ column: String, is isEqual: Bool, _ literal: String) -> String? {
    "\(column.quotedName) COLLATE BINARY \(isEqual ? "IS" : "IS NOT") \(literal)"
  }

  func statements(settingDefault literal: String, of column: String) -> [String] { [] }

  func value(_ literal: String, of column: String) throws -> Value {
    // A literal of another type than the column's has the column's affinity in a row.
    try database.first("SELECT \(literal)", []) ?? .null
  }
}
