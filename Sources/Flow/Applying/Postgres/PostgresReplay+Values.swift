import Changes
import Mapping
import PostgresKit

// Conversion of values for rows, and values that do not fit.
extension PostgresReplay {
  /// Converts a row image into texts for PostgreSQL, and stores them in `row`. The misfit policy decides whether a
  /// value that does not fit becomes NULL, widens the column, or is an error.
  ///
  /// - Parameter isNew: Whether the image is the row after the change; false: before the change.
  func encode(_ image: ImageView, into row: inout RowText, _ table: PostgresApplyTable, isNew: Bool) throws {
    row.removeAll()
    var reader = ByteReader(image.bytes)
    var place = 0
    for index in table.columns.indices {
      while place < table.positions[index] {
        guard !reader.isAtEnd else { throw wrongCount(table) }
        _ = try reader.readColumn()
        place += 1
      }
      guard !reader.isAtEnd else { throw wrongCount(table) }
      let value = try reader.readColumn()
      place += 1
      switch value {
      case .null: row.appendNull()
      case .unchanged: row.appendUnchanged()
      default:
        do throws(Misfit) {
          try row.append { (text: inout ByteWriter) throws(Misfit) in
            try table.converters[index].append(value, to: &text)
          }
        } catch {
          try substitute(value, error, index, table, isNew: isNew, row: &row)
        }
      }
    }
    while place < table.given.columns.count, !reader.isAtEnd {
      _ = try reader.readColumn()
      place += 1
    }
    guard place == table.given.columns.count else { throw wrongCount(table) }
    guard reader.isAtEnd else { throw wrongCount(table) }
  }

  private func wrongCount(_ table: PostgresApplyTable) -> CairnError {
    CairnError(
      .trailDamaged,
      "an image at \(reader.position) of trail \(name) does not have the \(table.given.columns.count) columns of table \(table.source.fullName)",
      hint: "run 'cairn trail verify \(name)'")
  }

  private func substitute(
    _ value: ColumnView, _ misfit: Misfit, _ index: Int, _ table: PostgresApplyTable, isNew: Bool, row: inout RowText
  ) throws {
    let column = table.source.columns[index].name
    switch options.misfits.policy(table: table.source.name, column: column) {
    case .null where !table.key.contains(index) && !table.columns[index].isNotNull:
      row.appendNull()
      if isNew { misfitsNulled += 1 }
    case .widen where canWiden(index, table):
      throw Widening(table: table.stateKey, index: index)
    default:
      // A value that the target cannot hold is not compared: the other columns identify the row.
      guard isNew || table.key.contains(index) else { return row.appendUnchanged() }
      throw misfitError(table, index, value.value?.shown ?? "?", misfit.reason, row: row)
    }
  }

  /// Returns whether a column's type may be changed to text. False if the column is text already or identifies rows, or
  /// if Cairn did not create the table.
  private func canWiden(_ index: Int, _ table: PostgresApplyTable) -> Bool {
    table.state.isCreated && table.columns[index].type.kind != .text && !table.isWholeRow && !table.key.contains(index)
  }

  func misfitError(
    _ table: PostgresApplyTable, _ index: Int, _ value: String, _ reason: String, row: borrowing RowText
  ) -> CairnError {
    let column = table.source.columns[index].name
    // A key that does not fit identifies the row by its own value and the columns before it.
    let isKey = table.key.isEmpty || table.key.contains(index)
    let known = isKey ? describeColumns(table, row, upTo: min(index, 3)) : [describeKey(table, row, upTo: row.count)]
    let key = (known + (isKey ? ["\(column)=\(value)"] : [])).joined(separator: ", ")
    let policy = options.misfits.policy(table: table.source.name, column: column)
    let why: String =
      switch policy {
      case .stop: ""
      case .null: "; it cannot be NULL there"
      case .widen:
        !table.state.isCreated
          ? "; Cairn did not create the table, so it does not make the column text"
          : table.isWholeRow || table.key.contains(index)
            ? "; the column identifies rows, so it keeps its type" : ""
      }
    return CairnError(
      .valueMisfit,
      "table \(table.source.fullName), row \(key): value \(value) of column \(column) does not fit \(table.columns[index].type.name): \(reason)\(why) (trail \(name) at \(reader.position))",
      hint: misfitHint(table, index),
      context: rowContext(table.source.fullName, key: key).merging(["column": column]) { $1 })
  }

  private func misfitHint(_ table: PostgresApplyTable, _ index: Int) -> String {
    let column = "\(table.source.name).\(table.source.columns[index].name)"
    let mend = "correct the value at the source and copy the table again ('cairn copy APPLY', or --existing overwrite)"
    let canBeNull = !table.key.contains(index) && !table.columns[index].isNotNull
    switch (canBeNull, canWiden(index, table)) {
    case (true, true):
      return "\(mend), or choose what happens to such values: misfits = [\"\(column)=null\"] or =widen (--misfit)"
    case (true, false): return "\(mend), or let such values become NULL: misfits = [\"\(column)=null\"] (--misfit)"
    case (false, true): return "\(mend), or make the column text: misfits = [\"\(column)=widen\"] (--misfit)"
    case (false, false):
      return "\(mend), or give the column the type text at the target, or leave the table out"
    }
  }

  func widen(_ index: Int, _ table: PostgresApplyTable) throws {
    try endPiece()
    try sink.settle()
    try proof.checkChange(of: table.target, table.mapped.fullName, isAltered: true, isRetyped: true)
    let column = table.columns[index]
    let name = column.name.quotedName
    // The values in the source's spelling.
    let text = column.type.kind == .bool ? "\(name)::integer::text" : "\(name)::text"
    do {
      _ = try sink.attempt {
        try connection.execute(
          """
          ALTER TABLE \(table.target.qualifiedName) ALTER COLUMN \(name) DROP DEFAULT,
            ALTER COLUMN \(name) TYPE text USING \(text)
          """)
      }
    } catch let error as PostgresError where !error.isServerGone && !error.isTransient {
      throw CairnError(
        .valueMisfit,
        "column \(column.name) of \(table.target.qualifiedName) cannot become text for a value that does not fit \(column.type.name): \(error.message)",
        hint:
          "drop the objects at the target that depend on the column, or set it to null: misfits = [\"\(table.source.name).\(column.name)=null\"] (--misfit)",
        context: ["table": table.source.fullName])
    }
    progress.note(
      "column \(column.name) of \(table.target.qualifiedName) became text for a value that is not \(column.type.name); present rows have PostgreSQL's spelling until the table is copied again"
    )
    forgetShape(table.stateKey)
    if refreshes.table === table { refreshes.forgetTable() }
  }

  /// Applies the misfit policies to those values of the new row that the server refuses.
  ///
  /// - Returns: True if refused values became NULL; false if the server refuses none.
  /// - Throws: ``Widening`` if a column must become text. An error that names the value, if the policy does not allow
  ///   NULL or text.
  func mendRefusedValues(_ table: PostgresApplyTable) throws -> Bool {
    var values = after.strings
    var isMended = false
    for index in values.indices where after.gives(index) {
      guard let value = values[index] else { continue }
      let type = table.columns[index].type.name
      do {
        _ = try sink.attempt { try connection.query("SELECT $1::text::\(type) IS NULL", [value]) }
      } catch let error as PostgresError where error.isBadValue || error.isConstraint {
        switch options.misfits.policy(table: table.source.name, column: table.source.columns[index].name) {
        case .null where !table.key.contains(index) && !table.columns[index].isNotNull:
          values[index] = nil
          isMended = true
          misfitsNulled += 1
        case .widen where canWiden(index, table):
          throw Widening(table: table.stateKey, index: index)
        default:
          throw misfitError(table, index, Value.text(value).shown, error.message, row: after)
        }
      }
    }
    guard isMended else { return false }
    var row = RowText()
    for index in values.indices {
      if !after.gives(index) {
        row.appendUnchanged()
      } else if let value = values[index] {
        row.append { (text: inout ByteWriter) in text.append(Array(value.utf8)) }
      } else {
        row.appendNull()
      }
    }
    after.assign(row)
    return true
  }
}

/// The error for a column whose type must become text. Apply catches it, alters the column, and applies the record
/// again.
struct Widening: Error {
  let table: String
  let index: Int
}
