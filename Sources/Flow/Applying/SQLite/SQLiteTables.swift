import Changes
import Conflicts
import Mapping
import SQLiteKit
import Trails

/// The tables of a trail at an SQLite target: their names there, apply's state of them, and those that are open.
final class SQLiteTables {
  let target: SQLiteTarget
  let scope: SQLiteReplay.Scope
  let reader: ApplyReader
  let cursor: TrailCursor
  let ahead: TrailAhead
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: SQLiteReplay.Desk?
  /// The open tables by the ids of their schema records.
  var openTables = SegmentTables<SQLiteApplyTable>()
  /// The table's name at the present position in the trail, in a catch-up; nil before the table was created.
  var catchUpName: String?
  /// The place at which the catch-up's table is suspended again; nil if it is not.
  var halt: SQLiteReplay.Place?

  init(
    _ target: SQLiteTarget, _ scope: SQLiteReplay.Scope, _ reader: ApplyReader, _ cursor: TrailCursor,
    _ ahead: TrailAhead, _ desk: SQLiteReplay.Desk?
  ) {
    (self.target, self.scope, self.reader) = (target, scope, reader)
    (self.cursor, self.ahead, self.desk) = (cursor, ahead, desk)
    if case .catchUp(let key) = scope, let waiting = target.tables[key]?.waiting {
      catchUpName = waiting.from == nil ? waiting.names.first : nil
    }
  }

  var database: Database { target.database }
  var state: SQLiteApplyState { target.state }
  var options: ApplyOptions { target.options }
  var name: TrailName { target.trail }

  /// The character that separates the two parts of a placeholder name: the wanted name, and the full name at the
  /// source. A table gets a placeholder name if another table has its wanted name.
  private static let separator = "\u{1e}"

  /// Returns the name under which apply's state lists a table of the trail: its name at the target.
  ///
  /// If another source table, whose name differs only in case or schema, has that name there, returns a placeholder.
  func targetName(of schema: TableSchema) -> String {
    let name = TableMapping.targetName(of: schema, in: .sqlite)
    guard schema.engine == .postgres else { return name }
    let aside = "\(name)\(Self.separator)\(Self.told(schema.fullName))"
    let isAside = target.tables.values.contains { $0.waiting?.holds(aside) ?? false }
    return isAside || owner(besides: schema) != nil ? aside : name
  }

  /// Returns a name with `^` before each capital letter. Names that differ only in case thus stay different in apply's
  /// state.
  private static func told(_ name: String) -> String {
    name.map { $0.isUppercase ? "^\($0)" : String($0) }.joined()
  }

  /// Returns the name that a table should have at the target. `name` may be a placeholder; any other name is returned.
  static func wanted(_ name: String) -> String {
    let bytes = Array(name.utf8)
    for place in bytes.indices where bytes[place] == 0x1e {
      let base = String(decoding: bytes[..<place], as: UTF8.self)
      let (own, full) = (Array(told(base).utf8), Array(bytes[(place + 1)...]))
      if full == Array("public.".utf8) + own { return base }
      // In SQLite, an underscore replaces the dot after a schema.
      for dot in full.indices where full[dot] == UInt8(ascii: ".") {
        if full[..<dot] + [UInt8(ascii: "_")] + full[(dot + 1)...] == own[...] { return base }
      }
    }
    return name
  }

  func owner(besides schema: TableSchema) -> String? {
    guard schema.engine == .postgres else { return nil }
    let name = TableMapping.targetName(of: schema, in: .sqlite).sqliteKey
    if case .catchUp(let key) = scope, key == name { return nil }
    guard let known = target.tables[name] else { return nil }
    let owner = known.waiting?.table.name ?? known.source
    return owner.isEmpty || owner.hasSameBytes(as: schema.fullName) ? nil : owner
  }

  /// Returns the part of a table's rows that this trail writes. Throws if another trail writes some of them too.
  ///
  /// - Parameter isCopied: Whether a refresh of the table begins. If not, and the trail's claim is not new, the
  ///   operator gets a notice instead of the error.
  func claimRows(of source: TableSchema, as name: String, isCopied: Bool = false) throws -> TableClaim {
    let claim = TableClaim(source)
    // Two-way applies resolve conflicts, so each of them may write all rows.
    if options.goesBothWays("", name) { return claim }
    let error = claim.collision(
      of: self.name, with: try state.feeders(of: name), table: name, source: source, at: database.path)
    guard let error else { return claim }
    let isOld = target.tables[key(name)].map { known in
      known.claim.map { $0 == claim } ?? true
    }
    guard !isCopied, isOld ?? false else { throw error }
    target.progress.note(
      "\(error.message): a copy would delete rows of other trails, so the table is not copied; \(error.hint)")
    return claim
  }

  func fits(_ schema: TableSchema) -> Bool {
    !schema.columns.isEmpty && (try? TableMapping(schema, to: .sqlite)) != nil && owner(besides: schema) == nil
  }

  func nextFittingSchema(of schema: TableSchema) throws -> NextFittingSchema? {
    try ahead.nextFittingSchema(of: schema, fits)
  }

  /// Returns the columns of a schema that apply can write; nil if the source drops the table later in the trail.
  func part(of schema: TableSchema) throws -> NextFittingSchema.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard case .catchUp = scope, !fits(schema), let later = try nextFittingSchema(of: schema) else {
      return .init(schema)
    }
    if later.schema == nil { return nil }
    guard let part = later.part(of: schema) else { return .init(schema) }
    return part
  }

  /// Returns the error for a target table that lacks columns of the source's table.
  func lacking(_ mapping: TableMapping, _ there: [Int]) throws -> SQLiteReplay.Refusal {
    let schema = mapping.target
    let missing = schema.columns.indices.filter { !there.contains($0) }.map { schema.columns[$0] }
    var refusal = SchemaRefusal(place: database.path, phrases: [], after: schema.createText)
    let error: CairnError
    if there.isEmpty {
      refusal.phrases = ["table \(schema.name)"]
      return SQLiteReplay.Refusal(
        position: reader.position,
        error: refusal.error(
          noTable: schema.name, table: schema.name, goesBothWays: options.goesBothWays("", schema.name)))
    } else {
      refusal.phrases = missing.map { "column \($0.name) of table \(schema.name)" }
      let difference = TableDifference(schema.keeping(there), schema)
      refusal.statements = SQLiteAlteration(difference, isOwn: false).statements.filter { $0.contains(" ADD COLUMN ") }
      error = refusal.error("there is no such column", table: schema.name)
    }
    if options.goesBothWays("", schema.name) {
      return SQLiteReplay.Refusal(
        position: reader.position,
        error: CairnError(
          error.code, error.message, hint: SchemaRefusal.hint(noColumn: error.hint), context: error.context))
    }
    return SQLiteReplay.Refusal(
      position: reader.position,
      error: CairnError(
        error.code, error.message,
        hint: error.hint
          + "\nif rows lack it because 'ddl' was ignore, copy the table again afterwards (--existing overwrite)",
        context: error.context))
  }

  func isInScope(_ name: String) -> Bool {
    switch scope {
    case .main: target.tables[name.sqliteKey]?.waiting == nil
    case .catchUp: catchUpName?.sqliteKey == name.sqliteKey
    }
  }

  /// In a catch-up, returns the mapping with the name that the table has at the target. Otherwise, returns the mapping
  /// unchanged.
  func underNameThere(_ mapping: TableMapping) throws -> TableMapping {
    guard case .catchUp(let key) = scope, let names = target.tables[key]?.waiting?.names else { return mapping }
    let name = mapping.target.name
    if try target.shape.exists(name) {
      // Another table has this name by now.
      let isTaken = target.tables.contains { $0.key != key && $0.value.waiting?.holds(name) ?? false }
      guard isTaken, let later = try names.last(where: target.shape.exists) else { return mapping }
      return mapping.named(later)
    }
    return try names.first(where: target.shape.exists).map(mapping.named) ?? mapping
  }

  func key(_ name: String) -> NameKey { if case .catchUp(let key) = scope { key } else { name.sqliteKey } }

  /// Stores the name of the PostgreSQL table that is replicated to a target table. Does nothing for an SQLite source.
  ///
  /// - Throws: `name-collision` if another PostgreSQL table is already replicated to that table.
  func claim(_ known: inout SQLiteApplyState.Table, for mapping: TableMapping) throws {
    guard mapping.source.engine == .postgres else { return }
    let name = mapping.source.fullName
    if let owner = owner(besides: mapping.source) {
      throw TableMapping.collision(owner, name, at: mapping.target.name)
    }
    guard known.source.isEmpty || known.source.hasSameBytes(as: name) else {
      throw TableMapping.collision(known.source, name, at: mapping.target.name)
    }
    known.source = name
  }

  func save(_ name: String, _ table: SQLiteApplyState.Table) throws {
    let key = key(name)
    var table = table
    table.isGuarded = options.isGuarded("", name)
    target.guardsAreDue = true
    try state.save(table.waiting?.names.last ?? name, table)
    target.tables[key] = table
    openTables.forgetAll()
  }

  /// Removes apply's state of a table. A suspended table stays listed as suspended.
  func forget(_ name: String) throws {
    let key = key(name)
    target.guardsAreDue = true
    if let waiting = target.tables[key]?.waiting {
      var known = SQLiteApplyState.Table()
      known.waiting = waiting
      try save(name, known)
    } else {
      try state.forget(name)
      target.tables[key] = nil
    }
    openTables.forgetAll()
  }

  /// Drops the TEMP triggers of apply's connection before a schema change.
  func releaseTriggers() throws {
    try target.fired.release()
    try target.releaseHooks()
    forgetShapes()
  }

  func forgetShapes() { openTables.forgetAll() }

  /// Returns the policy for rows that applications at the target have changed. For a two-way table, the policy is
  /// `stop`.
  func localWrites(of mapping: TableMapping) throws -> LocalWrites {
    if options.goesBothWays("", mapping.target.name) { return .stop }
    return try options.localWrites.writes(of: mapping.target, mapping.source.treatment)
  }

  /// Notes that the catch-up's table has another name from the present record on.
  func follow(_ key: NameKey, to name: String) throws {
    catchUpName = name
    guard var known = target.tables[key],
      let place = known.waiting?.names.firstIndex(where: { $0.sqliteKey == name.sqliteKey }), place > 0
    else { return }
    known.waiting?.names.removeFirst(place)
    try save(name, known)
  }

  /// Throws ``Refusal`` if a rule of the conf for the table cannot be carried out for the present change.
  ///
  /// A catch-up does not throw if the trail has a later refresh of the table.
  func refuse(_ table: SQLiteApplyTable) throws {
    guard let error = reader.refusal else { return }
    guard case .catchUp = scope,
      try ahead.isCopied(table.source)
    else { throw SQLiteReplay.Refusal(position: reader.position, error: error) }
    if table.removal != .applied {
      target.progress.note(NextFittingSchema.unseen(table.source, since: reader.position))
    }
    var known = target.tables[key(table.schema.name)] ?? .init()
    (known.refreshing, known.isAwaited) = (.byKey, true)
    try save(table.schema.name, known)
  }

  /// Returns the mapping of a source table to the target, without foreign keys to tables that apply may not write.
  func mapping(_ schema: TableSchema) throws -> TableMapping {
    try schema.checkHasColumns()
    return try TableMapping(schema, to: .sqlite, reach: TargetReach(options.scope))
  }

  func right(_ effect: SchemaRight.Effect, _ name: String, isCreated: Bool) throws -> SchemaRight {
    SchemaRight(
      effect, isCreated: isCreated, isCreatedElsewhere: try state.isCreatedElsewhere(name),
      others: SchemaRight.others(try state.feeders(of: name)), goesBothWays: options.goesBothWays("", name))
  }

  /// Returns whether apply skipped the record that created the table. A requested refresh then brings the rows.
  func isStranger(_ key: NameKey) -> Bool { options.expectsStrangers && target.tables[key] == nil }

  /// Stores the definition that the table has in PostgreSQL, if Cairn created the table here.
  func saveOrigin(_ mapping: TableMapping) throws {
    guard target.tables[key(mapping.target.name)]?.isCreated ?? false else { return }
    let source = mapping.source
    try state.saveOrigin(mapping.target.name, source.engine == .postgres ? source : source.original)
  }

  /// A table's names in apply's state before and after a schema change.
  struct Names {
    let before: String?
    let after: String?
    var isMoved: Bool { before.map { old in after.map { $0.sqliteKey != old.sqliteKey } ?? true } ?? true }
  }

  func names(_ before: TableSchema?, _ after: TableSchema?) -> Names {
    let old = before.map(targetName)
    guard let after else { return Names(before: old, after: nil) }
    let name = TableMapping.targetName(of: after, in: .sqlite)
    // A table whose name changes only in case is not in its own way.
    if old?.sqliteKey == name.sqliteKey { return Names(before: old, after: name) }
    return Names(before: old, after: targetName(of: after))
  }
}
