import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit

/// Applies changes of rows to an SQLite target.
final class SQLiteRows {
  typealias Parked = ParkedRows<SQLiteApplyTable, Value>
  let cursor: TrailCursor
  let errors: SQLiteRowErrors
  let decoder: SQLiteRowDecoder
  /// The changes of rows that the target lacks, until the trail has the rows.
  var early = OutOfOrderChanges()
  /// The rows of the transaction that the target refuses for now.
  var parked = Parked()
  /// The row of the present change before it, and after it. The views may be of bytes in the two writers below.
  var before: [ColumnView] = []
  var after: [ColumnView] = []
  private var madeBefore = ByteWriter(capacity: 256)
  private var madeAfter = ByteWriter(capacity: 256)
  /// The conflicts that were logged since the last commit.
  var conflicts = 0
  let target: SQLiteTarget
  let tables: SQLiteTables
  let ahead: TrailAhead

  init(_ tables: SQLiteTables) {
    (self.tables, target, cursor, ahead) = (tables, tables.target, tables.cursor, tables.ahead)
    errors = SQLiteRowErrors(
      target: target.database.path, name: target.trail, reader: tables.reader, cursor: tables.cursor)
    decoder = SQLiteRowDecoder(errors: errors, isUTF16: target.isUTF16)
  }

  var reader: ApplyReader { errors.reader }

  static func image(_ columns: [ColumnView]) -> [UInt8] {
    var image = ByteWriter(capacity: 256)
    for column in columns { image.append(column.value) }
    return Array(image.bytes)
  }

  /// Reads a row of a refresh, as the row after a change.
  func decode(copied image: ImageView, _ table: SQLiteApplyTable) throws {
    before.removeAll(keepingCapacity: true)
    try decoder.decode(image, into: &after, &madeAfter, table)
  }

  /// Reads the row before and after a change into ``before`` and ``after``.
  func decode(_ change: ChangeView, _ table: SQLiteApplyTable) throws {
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let image = change.before { try decoder.decode(image, into: &before, &madeBefore, table) }
    if let image = change.after { try decoder.decode(image, into: &after, &madeAfter, table) }
    if change.operation == .update { try completeKey(table) }
  }

  /// Completes the key of the row before an update, which is that of the row after it if the trail says no more.
  ///
  /// - Throws: `trail-damaged` if a change of an SQLite source does not identify its row.
  private func completeKey(_ table: SQLiteApplyTable) throws(CairnError) {
    let hasNone = before.isEmpty
    if hasNone { before = Array(repeating: .unchanged, count: after.count) }
    for index in table.schema.key where before[index].isUnchanged { before[index] = after[index] }
    // A capture of PostgreSQL marks such changes as incomplete.
    guard table.converters == nil else { return }
    let needed = hasNone && table.schema.flags.contains(.wholeRow) ? Array(before.indices) : table.schema.key
    guard let lacking = needed.first(where: { before[$0].isUnchanged }) else { return }
    throw incompleteRow(
      table.source, column: table.schema.columns[lacking].name, at: reader.position, of: name, doing: "update")
  }

  func apply(_ change: ChangeView, _ table: SQLiteApplyTable) throws {
    try decode(change, table)
    let isTolerant = change.treatment.contains(.tolerant)
    if change.operation == .insert { try checkWhole(table) }
    let isLenient = isTolerant || table.mayLackRows
    if table.converters != nil { return try applyMapped(change, table, isLenient: isLenient) }
    switch change.operation {
    case .insert:
      if !early.isEmpty {
        if !table.localWrites.areSettled, isDeletedAtOnce(table) { return }
        try settleEarly(before: after, of: table)
      }
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: isTolerant)) }
      if !early.isEmpty { try settle(table, Self.image(after)) }
    case .delete:
      let isExpected = !isLenient && !change.flags.contains(.implied)
      let isLineSettled = try !early.isEmpty && settleLine(to: before, of: table)
      let touched = try write(table) { try table.delete(before, isChecked: isExpected) }
      guard touched != 1, isExpected else { return }
      let error = errors.unexpected(table, "deleted", before)
      guard error.code == .rowMissing, table.treatment != nil, !isLineSettled else { throw error }
      let delete = OutOfOrderChanges.Update(
        before: Self.image(before), after: nil, error: error, meet: resolution(table))
      try early.add(delete, table: table.schema.name)
    case .update:
      if !early.isEmpty, table.schema.key.contains(where: { !after[$0].isUnchanged }) {
        try settleEarly(before: zip(before, after).map { $1.isUnchanged ? $0 : $1 }, of: table)
      }
      if !early.isEmpty, table.localWrites.areSettled, try table.row(key(of: before, table)) != nil {
        try settleLine(to: before, of: table)
      }
      let touched = try write(table) { try table.update(before, after, isChecked: !isLenient) }
      if touched == 1 {
        if !early.isEmpty { try settleUpdated(table) }
        return
      }
      guard isLenient else {
        let error = errors.unexpected(table, "updated", before)
        guard error.code == .rowMissing else { throw error }
        let update = OutOfOrderChanges.Update(
          before: Self.image(before), after: Self.image(after), error: error, meet: resolution(table))
        return try early.add(update, table: table.schema.name)
      }
      for (index, column) in after.enumerated() where column.isUnchanged { after[index] = before[index] }
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: true)) }
    // The replay removes the rows of a whole table.
    case .truncate: break
    }
  }

  func checkWhole(_ table: SQLiteApplyTable) throws(CairnError) {
    guard let lacking = after.firstIndex(where: \.isUnchanged) else { return }
    throw incompleteRow(
      table.source, column: table.schema.columns[lacking].name, at: reader.position, of: name)
  }

  func insertion(of table: SQLiteApplyTable, isCopy: Bool) -> SQLiteApplyTable.Insertion {
    if table.schema.flags.contains(.wholeRow) { return .strict }
    let replacing: SQLiteApplyTable.Insertion = table.mayCollide ? .merging : .replacing
    // A row that is sent singly must become what the source has.
    if isCopy, table.state.refreshing == .rows { return replacing }
    switch table.existing {
    case .keep: return .keeping
    case .merge: return .merging
    case .overwrite: return isCopy || table.mayHoldRows ? replacing : .strict
    }
  }

  // MARK: Changes out of order

  /// Applies the first update or delete of the row `image` that the trail has before the row itself.
  func settle(_ table: SQLiteApplyTable, _ image: [UInt8]) throws {
    guard let update = image.withUnsafeBytes({ early.take(table: table.schema.name, image: $0) }) else { return }
    try update.before.withUnsafeBytes { old in
      guard let wanted = update.after else {
        try decoder.read(ImageView(bytes: old), into: &before)
        after.removeAll(keepingCapacity: true)
        guard try write(table, { try table.delete(before, isChecked: true) }) == 1 else { throw update.error }
        return
      }
      try wanted.withUnsafeBytes { new in
        try decoder.read(ImageView(bytes: old), into: &before)
        try decoder.read(ImageView(bytes: new), into: &after)
        guard try write(table, { try table.update(before, after, isChecked: true) }) == 1 else {
          throw update.error
        }
        try settleUpdated(table)
      }
    }
  }

  /// Returns whether the delete of the inserted row came in the trail before the insert. If so, forgets the delete.
  private func isDeletedAtOnce(_ table: SQLiteApplyTable) -> Bool {
    Self.image(after).withUnsafeBytes { early.takeDelete(table: table.schema.name, image: $0) }
  }

  func settleUpdated(_ table: SQLiteApplyTable) throws {
    guard !early.isEmpty else { return }
    try settle(table, Self.image(zip(before, after).map { $1.isUnchanged ? $0 : $1 }))
  }

  /// Returns the result of `body`, which writes a row. Throws an error that names the row if a constraint refuses it.
  func write(_ table: SQLiteApplyTable, _ body: () throws -> Int64) throws -> Int64 {
    do { return try body() } catch let error as SQLiteError where error.isOfRow {
      throw errors.refused(table, error, before, after)
    }
  }
}
