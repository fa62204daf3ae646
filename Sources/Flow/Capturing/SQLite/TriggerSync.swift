import Changes
import SQLiteKit

/// Writes the layouts and triggers of tables whose shape has changed, and one journal row that marks the schema
/// changes. The caller has opened a write transaction.
struct TriggerSync {
  private let database: Database
  private var marker: Int64?
  private let doubtful: Set<Int64>
  enum Copies {
    case all
    case none
    case rowsOnly
  }
  private let copies: Copies
  /// Whether an apply, or an application through the embedded API, made the schema change of the open transaction.
  private let isApplied: Bool

  private let trail: TrailName?

  init(_ database: Database, doubtful: Set<Int64>, copies: Copies, isApplied: Bool, trail: TrailName?) {
    self.database = database
    self.doubtful = doubtful
    (self.copies, self.isApplied, self.trail) = (copies, isApplied, trail)
  }

  /// Returns the sequence number of the journal row that marks the schema change. The first call writes that row.
  private mutating func place() throws -> Int64 {
    if let marker { return marker }
    try database.run(
      "INSERT INTO cairn_journal(code, v0) VALUES (?, ?)",
      [.integer(JournalKind.marker.rawValue), trail.map { .text($0.description) } ?? .null])
    let made = try Journal(database).place("SELECT seq FROM cairn_journal ORDER BY seq DESC LIMIT 1")
    marker = made
    return made
  }

  mutating func add(_ table: SQLiteTable) throws {
    try insert(
      table, previous: nil, epoch: 1, action: CaptureInstance.code(.create, isSame: false),
      refresh: CaptureInstance.code(try isCopied(table) ? .firstCopy : nil))
  }

  private func isCopied(_ table: SQLiteTable) throws -> Bool {
    switch copies {
    case .all: true
    case .none: false
    case .rowsOnly: try database.integer("SELECT 1 FROM \(table.name.quotedName) LIMIT 1") != nil
    }
  }

  /// Replaces the layout and the triggers of a captured table whose shape has changed. If only its triggers are out of
  /// date, creates them again.
  ///
  /// - Parameter isHooked: False if a trigger was missing, so that capture has missed changes.
  mutating func update(_ layout: CaptureInstance, to table: SQLiteTable, isHooked: Bool, hooks: Hooks) throws {
    var now = table.schema
    now.epoch = layout.schema.epoch
    if isHooked, now == layout.schema {
      if doubtful.contains(layout.id), layout.refresh == nil || layout.isPartial {
        try Journal(database).setRefresh(.lostChanges, layout: layout.id)
      }
      let triggers = CaptureTriggers(table: table, layout: layout.id).statements
      guard !hooks.areFirst(layout: layout.id) || !hooks.are(triggers, of: layout.id) else { return }
      try Journal(database).dropTriggers(layout: layout.id)
      for trigger in triggers { try database.define(trigger.text, tables: [table.name]) }
      return
    }
    if isHooked { try Journal(database).dropTriggers(layout: layout.id) }
    let action: DDL.Action? = now == layout.schema ? nil : (Self.isRename(layout.schema, now) ? .rename : .reshape)
    let isTrusted = isHooked && !doubtful.contains(layout.id) && !Self.hasNewUniqueIndex(layout.schema, now)
    try database.run(
      "UPDATE cairn_layout SET ended = ? WHERE id = ?", [.integer(try place()), .integer(layout.id)])
    try leaveOutDoubtfulRows(layout)
    try insert(
      table, previous: layout.id, epoch: layout.schema.epoch + 1,
      action: CaptureInstance.code(action, isSame: isHooked, isExact: isApplied),
      refresh: refresh(layout, now, isTrusted: isTrusted, isShapeSame: action == nil))
  }

  private func refresh(_ layout: CaptureInstance, _ now: TableSchema, isTrusted: Bool, isShapeSame: Bool) -> Value {
    if isApplied, layout.refresh == nil { return .null }
    return Self.refresh(layout, now, isTrusted: isTrusted, isShapeSame: isShapeSame)
  }

  /// Returns the value of column `refresh` of the table's next layout: whether a refresh must send all, some or no
  /// rows.
  ///
  /// - Parameter isTrusted: Whether the triggers have logged every change of the table up to the schema change.
  private static func refresh(_ layout: CaptureInstance, _ now: TableSchema, isTrusted: Bool, isShapeSame: Bool)
    -> Value
  {
    if let waiting = layout.refresh, !layout.isPartial { return CaptureInstance.code(waiting) }
    if isTrusted, hasEqualValues(layout.schema, now) {
      return CaptureInstance.code(layout.refresh, firstNew: layout.firstNew)
    }
    let firstNew = layout.isPartial ? layout.firstNew : layout.schema.columns.count
    if isTrusted, let firstNew, AddedColumns.areAll(between: layout.schema, and: now),
      AddedColumns(now, from: firstNew) != nil
    {
      return CaptureInstance.code(.schemaChange, firstNew: firstNew)
    }
    return CaptureInstance.code(isShapeSame ? .lostChanges : .schemaChange)
  }

  /// Ends the layout of a table that was dropped or is no longer captured. Column `ended` gets the number of the marker
  /// row, which is negated if the table was not dropped.
  mutating func end(_ layout: CaptureInstance, isDropped: Bool) throws {
    let place = try place()
    try database.run(
      "UPDATE cairn_layout SET ended = ? WHERE id = ?", [.integer(isDropped ? place : -place), .integer(layout.id)])
    if isDropped { try leaveOutDoubtfulRows(layout) }
  }

  /// Keeps journal rows of an ended layout out of the trail if they may be in the wrong order. A trigger of the
  /// application may have run before Cairn's.
  private func leaveOutDoubtfulRows(_ layout: CaptureInstance) throws {
    guard doubtful.contains(layout.id) else { return }
    try Journal(database).setRefresh(.lostChanges, layout: layout.id)
  }

  private mutating func insert(
    _ table: SQLiteTable, previous: Int64?, epoch: UInt64, action: Value, refresh: Value
  ) throws {
    let place = try place()
    var schema = table.schema
    schema.epoch = epoch
    var bytes = ByteWriter()
    bytes.append(schema)
    try database.run(
      "INSERT INTO cairn_layout(previous, since, action, refresh, schema) VALUES (?, ?, ?, ?, ?)",
      [
        previous.map { .integer($0) } ?? .null, .integer(place), action, refresh, .blob(Array(bytes.bytes)),
      ])
    let id = try Journal(database).place("SELECT max(id) FROM cairn_layout")
    guard CaptureInstance.ids.contains(id) else { throw CaptureInstance.foreign }
    try widen(to: schema.columns.count + 1)
    for trigger in CaptureTriggers(table: table, layout: id).statements {
      try database.define(trigger.text, tables: [table.name])
    }
  }

  private func widen(to count: Int) throws {
    for name in ["cairn_journal", "cairn_stage"] {
      let rows = try database.query("SELECT name FROM pragma_table_info(?) WHERE name LIKE 'v%'", [.text(name)])
      for index in rows.count..<max(rows.count, count) {
        try database.execute("ALTER TABLE \(name) ADD COLUMN v\(index)")
      }
    }
  }

  static func isRename(_ old: TableSchema, _ new: TableSchema) -> Bool {
    !old.name.hasSameBytes(as: new.name) && old.columns == new.columns && old.flags == new.flags
      && old.uniques == new.uniques
  }

  /// Returns whether the new shape has a unique index that the old shape lacks.
  static func hasNewUniqueIndex(_ old: TableSchema, _ new: TableSchema) -> Bool {
    let known = Set(old.objects)
    return new.objects.contains {
      !known.contains($0) && SQLText.tokens(Array($0.text.utf8)).dropFirst().first?.word == "UNIQUE"
    }
  }

  /// Returns whether rows have the same values in both shapes. Names, defaults and indexes that are not unique may
  /// differ.
  static func hasEqualValues(_ old: TableSchema, _ new: TableSchema) -> Bool {
    old.columns.count == new.columns.count
      && zip(old.columns, new.columns).allSatisfy {
        $0.declaredType == $1.declaredType && $0.isNotNull == $1.isNotNull
      } && old.flags.intersection([.strict, .withoutRowid]) == new.flags.intersection([.strict, .withoutRowid])
  }
}
