import Changes
import Conflicts
import Mapping
import PostgresKit

/// Writes rows to a PostgreSQL target, as statements for the row in ``texts``.
final class PostgresRowWriter {
  let session: PostgresSession
  let texts: RowTexts
  let errors: PostgresRowErrors
  let encoder: PostgresRowEncoder
  /// The rows whose deferrable unique constraints are checked before the commit.
  var unchecked = DeferredUniqueChecks()
  /// Whether the rows of the present chunk may repeat rows of an earlier chunk of their refresh.
  var isReread = false

  init(_ session: PostgresSession, _ cursor: TrailCursor) {
    self.session = session
    texts = RowTexts()
    errors = PostgresRowErrors(
      name: session.name, reader: session.reader, cursor: cursor, misfits: session.options.misfits, texts: texts,
      sink: session.sink)
    encoder = PostgresRowEncoder(session.options.misfits, errors)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var reader: ApplyReader { session.reader }
  private var isCareful: Bool { session.isCareful }

  // MARK: Statements

  func encode(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    texts.removeAll()
    if let image = change.before { try encoder.encode(image, into: &texts.before, table, isNew: false) }
    if let image = change.after { try encoder.encode(image, into: &texts.after, table, isNew: true) }
  }

  /// Sends a statement, or collects the change in the table's batch. Waits for the server's answer only in a careful
  /// replay, which sends one statement at a time.
  ///
  /// - Returns: The number of changed rows if apply has waited for the answer; otherwise `count`, or 1 if `count` is
  ///   nil.
  @discardableResult func write(_ table: PostgresApplyTable, _ shape: PostgresApplyTable.Shape, expecting count: Int64?)
    throws
    -> Int64
  {
    guard isCareful else {
      if count == 1, table.isBatched {
        switch shape {
        case .update(let set, let checks) where set.isDisjoint(with: table.keyMask):
          try sink.update(texts.before, texts.after, of: table, set: set, checks: checks)
          return 1
        case .delete(let checks):
          try sink.delete(texts.before, of: table, checks: checks)
          return 1
        default: break
        }
      }
      let statement = table.statement(shape)
      try sink.queue(statement, of: table, texts.before, texts.after, expecting: count)
      return count ?? 1
    }
    let statement = table.statement(shape)
    while true {
      do { return try sink.run(statement, texts.before, texts.after) } catch let error as PostgresError
        where error.isBadValue || error.sqlState == "23514"
      {
        // Only the server can judge such a value.
        guard try mendRefusedValues(table) else { throw errors.refused(table, error) }
      }
    }
  }

  func checkWhole(_ table: PostgresApplyTable) throws(CairnError) {
    guard !texts.after.isWhole else { return }
    let lacking = table.columns.indices.first { !texts.after.gives($0) }.map { table.columns[$0].name }
    throw incompleteRow(table.source, column: lacking ?? "", at: reader.position, of: session.name)
  }

  /// Inserts the new row, and replaces all rows of the target that have its key or one of its unique values.
  func insertInPlace(_ table: PostgresApplyTable) throws {
    for index in table.otherIndexes where !table.isContested && !isExact(table) {
      try writeLeniently(table, .clear(index: index, sparing: .new))
    }
    if table.alwaysIdentity.isEmpty || table.key.contains(where: { table.alwaysIdentity.contains($0) }) {
      try writeLeniently(table, .insert(.merging))
    } else {
      // An upsert cannot set such a column.
      try writeLeniently(table, .delete(checks: .init()))
      try writeLeniently(table, .insert(.strict))
    }
  }

  func writeLeniently(_ table: PostgresApplyTable, _ shape: PostgresApplyTable.Shape) throws {
    do { try write(table, shape, expecting: nil) } catch let error as PostgresError {
      throw errors.refusal(table, error)
    }
  }

  /// Returns whether the refreshed table began empty, the target may treat different values as equal, and the chunk
  /// repeats no row of an earlier chunk.
  func isExact(_ table: PostgresApplyTable) -> Bool { !isReread && table.isFilled }

  func put(_ row: RowVersion.Row?, _ key: [Value], _ table: PostgresApplyTable) throws {
    if let row, table.mayCollide {
      try sink.attempt { try table.put(row, key, connection) }
    } else {
      try sink.settle()
      guard let row else { return try table.put(nil, key, connection) }
      let isThere: Bool
      do { isThere = try table.update(row, key, connection) } catch let error as PostgresError where error.isUniqueness
      {
        throw errors.refusal(table, error)
      }
      if !isThere { try sink.attempt { try table.insert(row, connection) } }
    }
    guard let row, !table.uncheckedIndexes.isEmpty else { return }
    texts.after.assign(row.map { $0.flatMap(\.postgresInput) })
    unchecked.note(table, texts.after, at: reader.position)
  }

  /// Applies the misfit policies to those values of the new row that the server refuses.
  ///
  /// - Returns: True if refused values became NULL; false if the server refuses none.
  /// - Throws: ``Widening`` if a column must become text. An error that names the value, if the policy does not allow
  ///   NULL or text.
  private func mendRefusedValues(_ table: PostgresApplyTable) throws -> Bool {
    var values = texts.after.strings
    var isMended = false
    for index in values.indices where texts.after.gives(index) {
      guard let value = values[index] else { continue }
      let type = table.columns[index].type.name
      do {
        _ = try sink.attempt { try connection.query("SELECT $1::text::\(type) IS NULL", [value]) }
      } catch let error as PostgresError where error.isBadValue || error.isConstraint {
        switch session.options.misfits.policy(table: table.source.name, column: table.source.columns[index].name) {
        case .null where !table.key.contains(index) && !table.columns[index].isNotNull:
          values[index] = nil
          isMended = true
          encoder.misfitsNulled += 1
        case .widen where table.canWiden(index):
          throw Widening(table: table.stateKey, index: index)
        default:
          throw errors.misfitError(table, index, Value.text(value).shown, error.message, row: texts.after)
        }
      }
    }
    guard isMended else { return false }
    var row = RowText()
    for index in values.indices {
      if !texts.after.gives(index) {
        row.appendUnchanged()
      } else if let value = values[index] {
        row.append { (text: inout ByteWriter) in text.append(Array(value.utf8)) }
      } else {
        row.appendNull()
      }
    }
    texts.after.assign(row)
    return true
  }

  // MARK: Deferrable constraints

  /// Throws `row-exists` if a row that the group wrote violates a deferrable unique constraint. PostgreSQL does not
  /// check such constraints in apply's session.
  func checkUncheckedRows() throws {
    defer { unchecked.removeAll() }
    try checkUnique(unchecked.rows, unchecked.tables)
  }

  /// Checks the noted rows of one table, which is to be suspended.
  func checkUncheckedRows(of key: String) throws {
    try checkUnique(
      unchecked.rows.filter { $0.table.stateKey.hasSameBytes(as: key) },
      unchecked.tables.filter { $0.stateKey.hasSameBytes(as: key) })
    try sink.settle()
  }

  private func checkUnique(_ rows: [DeferredUniqueChecks.Row], _ tables: [PostgresApplyTable]) throws {
    for row in rows {
      texts.before.removeAll()
      texts.after.assign(row.values)
      for index in row.table.uncheckedIndexes {
        guard let positions = row.table.positions(of: index), positions.allSatisfy({ !texts.after.isNull($0) }) else {
          continue
        }
        let statement = row.table.statement(.doubled(index: index))
        if !isCareful {
          try sink.queue(statement, of: row.table, texts.before, texts.after, expecting: 0)
        } else if try !sink.rows(statement, texts.before, texts.after).isEmpty {
          throw errors.doubled(
            row.table, index, positions.map { "\(row.table.columns[$0].name)=\(row.values[$0] ?? "NULL")" })
        }
      }
    }
    for table in tables {
      for index in table.uncheckedIndexes where table.positions(of: index) != nil {
        texts.removeAll()
        if let row = try sink.rows(table.statement(.anyDoubled(index: index)), texts.before, texts.after).first {
          throw errors.doubled(table, index, row.map { $0 ?? "NULL" })
        }
      }
    }
  }
}

extension PostgresApplyTable {
  /// Whether the refreshed table began empty, and the target may treat the source's different values as equal.
  var isFilled: Bool {
    mayFold && state.refreshing == .byKey && state.isEmptied && state.existing == .overwrite
      && removal == .applied && !localWrites.areSettled && source.treatment?.isHistory != true
  }

  /// Returns the key of a row of the source, as the trail has it.
  func sourceKey(_ image: ImageView) throws -> [UInt8] {
    let values = try image.values()
    var bytes = ByteWriter(capacity: 64)
    for index in key where positions[index] < values.count { bytes.append(values[positions[index]]) }
    return Array(bytes.bytes)
  }
}
