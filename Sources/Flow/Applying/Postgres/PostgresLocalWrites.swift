import Changes
import Conflicts
import PostgresKit
import SystemKit
import Versions

/// Resolves changes of rows that applications have written to at a one-way target: the source's row wins.
///
/// Only a careful replay calls this: it gets an answer for each row.
final class PostgresLocalWrites {
  typealias Parked = ParkedRows<PostgresApplyTable, String?>
  let cursor: TrailCursor
  /// The changes of rows that the target lacks, until the trail has the rows.
  var early = OutOfOrderChanges()
  private let session: PostgresSession
  private let writer: PostgresRowWriter

  init(_ writer: PostgresRowWriter, _ cursor: TrailCursor) {
    (session, self.writer, self.cursor) = (writer.session, writer, cursor)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var isCareful: Bool { session.isCareful }
  private var texts: RowTexts { writer.texts }
  private var errors: PostgresRowErrors { writer.errors }
  private var encoder: PostgresRowEncoder { writer.encoder }

  /// Runs `body`, which applies a change of a row. If `body` fails because the target's row differs, the policy for
  /// local writes can let the source's row win.
  ///
  /// - Throws: The error of `body`, unless the source's row won.
  func resolvingLocalWrites(_ table: PostgresApplyTable, isInsert: Bool, _ body: () throws -> Void) throws {
    guard isCareful, table.localWrites.areSettled else { return try body() }
    do { try body() } catch let error as CairnError where TwoWay.isOfRow(error) {
      let rows = met(table, isInsert: isInsert)
      guard try resolve(table, before: rows.before, after: rows.after) else { throw error }
    } catch let error as PostgresError where error.isUniqueness {
      let refused = errors.refused(table, error)
      let rows = met(table, isInsert: isInsert)
      guard try resolve(table, before: rows.before, after: rows.after) else { throw refused }
    }
  }

  private func met(_ table: PostgresApplyTable, isInsert: Bool) -> (before: SourceWins.Row?, after: SourceWins.Row?) {
    let new = texts.after.count == 0 ? nil : values(of: texts.after, table)
    guard !isInsert else { return (nil, new) }
    // Without a before image, the key is unchanged.
    let old = texts.before.count > 0 ? values(of: texts.before, table) : new.map { keyed($0, table) }
    return (old, new)
  }

  private func keyed(_ row: SourceWins.Row, _ table: PostgresApplyTable) -> SourceWins.Row {
    row.enumerated().map { table.key.contains($0) ? $1 : nil }
  }

  private func values(of row: borrowing RowText, _ table: PostgresApplyTable) -> SourceWins.Row {
    var values: SourceWins.Row = []
    for index in table.columns.indices {
      if !row.gives(index) {
        values.append(nil)
      } else if row.isNull(index) {
        values.append(.null)
      } else {
        values.append(PostgresForm.value(Array(row.text(index)), table.columns[index].type))
      }
    }
    return values
  }

  /// Writes a row that the target refused earlier in the transaction, and deletes the target's rows with the same
  /// unique values. Returns false, with nothing written, if the policy for local writes does not allow this.
  func resolve(parked row: Parked.Row) throws -> Bool {
    guard row.table.localWrites.areSettled else { return false }
    texts.after.assign(row.values)
    return try resolve(row.table, before: nil, after: values(of: texts.after, row.table))
  }

  // MARK: Rows that have not come

  /// Resolves the transaction's changes of rows that the target lacks. Called at the end of the transaction; the
  /// source's row wins.
  func settleEarly() throws { try resolve(early.takeAll()) }

  /// Resolves the deferred updates that give another row the key which `change` gives its row. Called before the
  /// change.
  func settleEarly(before change: ChangeView, of table: PostgresApplyTable) throws {
    guard table.localWrites.areSettled, !early.isEmpty, let new = change.after else { return }
    var image = ByteWriter(capacity: 256)
    let old = try change.before?.values()
    for (index, value) in try new.values().enumerated() { image.append(value ?? old?[index]) }
    let key = texts.newKey(table)
    if texts.before.count > 0, key == texts.before.key(of: table) { return }
    let areOfIt = try early.areOf(image.bytes, table: table.stateKey, key: key) { try keys(of: $0, table) }
    if !areOfIt { try settleLine(to: key, of: table, before: change) } else { try writer.encode(change, table) }
  }

  /// Resolves the deferred updates (``OutOfOrderChanges``) of a row that the target lacks. The trail has them before
  /// `change`.
  ///
  /// - Parameter key: The row's key after these updates.
  /// - Returns: False if there is no such update.
  @discardableResult func settleLine(to key: [String?], of table: PostgresApplyTable, before change: ChangeView) throws
    -> Bool
  {
    guard table.localWrites.areSettled, !early.isEmpty else { return false }
    let line = try early.takeLine(of: table.stateKey, to: key) { try keys(of: $0, table) }
    try resolve(line)
    try writer.encode(change, table)
    return !line.isEmpty
  }

  /// Returns the row's key before and after an update. Overwrites the row's texts.
  private func keys(of update: OutOfOrderChanges.Update, _ table: PostgresApplyTable) throws -> (
    before: [String?], after: [String?]?
  ) {
    try update.before.withUnsafeBytes {
      try encoder.encode(ImageView(bytes: $0), into: &texts.before, table, isNew: false)
    }
    let old = texts.before.key(of: table)
    guard let new = update.after else { return (old, nil) }
    try new.withUnsafeBytes { try encoder.encode(ImageView(bytes: $0), into: &texts.after, table, isNew: true) }
    return (old, texts.newKey(table))
  }

  func isThere(_ table: PostgresApplyTable) throws -> Bool {
    guard let row = met(table, isInsert: false).before else { return false }
    let key = table.key.compactMap { row[$0] }
    return try key.count == table.key.count && sink.attempt { try table.row(key, connection) } != nil
  }

  /// Returns a closure that resolves the present change, of a row that the target lacks.
  func resolution(_ table: PostgresApplyTable) -> (() throws -> Bool)? {
    resolution(table, met(table, isInsert: false))
  }
}

extension PostgresLocalWrites: OneWayTarget {
  var name: TrailName { session.name }
  var clock: Clock { session.clock }
  var progress: ApplyProgress { session.progress }

  func log(_ record: ConflictRecord) throws { try session.log(record) }

  func localRow(_ key: [Value], of table: PostgresApplyTable) throws -> [Value]? {
    try sink.attempt { try table.row(key, connection) }.map(
      PostgresForm(table: table, names: session.options.names).row)
  }

  func rows(of change: ChangeView, _ table: PostgresApplyTable) throws -> (
    before: SourceWins.Row?, after: SourceWins.Row?
  ) {
    try writer.encode(change, table)
    return met(table, isInsert: change.operation == .insert)
  }

  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    try PostgresDisplacedRows(connection, attempt: sink.attempt).rows(inTheWayOf: row)
  }

  func write(_ row: SourceWins.Row?, _ key: [Value], to table: PostgresApplyTable) throws {
    try writer.put(row, key, table)
  }

  func naming<Result>(_ table: PostgresApplyTable, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as PostgresError { throw errors.refusal(table, error) }
  }
}

extension PostgresApplyTable: OneWayTable {
  var isShared: Bool { !(source.treatment?.shares.isEmpty ?? true) }
}
