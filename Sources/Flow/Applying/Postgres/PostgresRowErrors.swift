import Changes
import Mapping
import PostgresKit

/// The errors about rows that the target does not take, or has otherwise than the trail says.
struct PostgresRowErrors {
  let name: TrailName
  let reader: ApplyReader
  let cursor: TrailCursor
  let misfits: MisfitPolicies
  let texts: RowTexts
  let sink: PostgresSink

  /// The database, for messages.
  private var target: String { sink.connection.place }
  private var place: String { "(trail \(name) at \(reader.position))" }

  static let foldedHint =
    "the source may have two rows whose keys are one value at the target, such as two spellings of a UUID: make them one row there"

  func describeKey(_ table: PostgresApplyTable, _ row: borrowing RowText, upTo count: Int = .max) -> String {
    let shown = table.key.isEmpty ? Array(table.columns.indices.prefix(3)) : table.key
    var parts: [String] = []
    for index in shown where index < min(count, row.count) {
      let value = row.gives(index) ? row.string(index).map { Value.text($0).shown } ?? "NULL" : "?"
      parts.append("\(table.source.columns[index].name)=\(value)")
    }
    return parts.joined(separator: ", ") + (table.key.isEmpty ? ", …" : "")
  }

  /// Returns the first `count` columns of a row as texts for messages, such as `id=5`; a value that is not known is
  /// "?".
  func describeColumns(_ table: PostgresApplyTable, _ row: borrowing RowText, upTo count: Int) -> [String] {
    (0..<min(count, row.count, table.columns.count)).map { index in
      let value = row.gives(index) ? row.string(index).map { Value.text($0).shown } ?? "NULL" : "?"
      return "\(table.source.columns[index].name)=\(value)"
    }
  }

  private func describeRow(_ table: PostgresApplyTable, isNew: Bool) -> String {
    if isNew ? texts.after.count > 0 && table.key.allSatisfy({ texts.after.gives($0) }) : texts.before.count == 0 {
      return describeKey(table, texts.after)
    }
    return describeKey(table, texts.before)
  }

  /// Returns the fields of an error about the present record's row.
  private func context(_ table: PostgresApplyTable, _ key: String) -> [String: String] {
    cursor.rowContext(table.source.fullName, key: key, at: reader.position)
  }

  func unexpected(_ table: PostgresApplyTable, _ what: String) -> CairnError {
    let key = describeRow(table, isNew: false)
    let subject = "table \(table.source.fullName), row \(key): the source \(what) it, but"
    let place = place
    let mask = texts.checks(table)
    let found =
      texts.isTwin(table)
      ? nil : (try? sink.rows(table.statement(.probe(checks: mask)), texts.before, texts.after))?.first
    guard let found else {
      return CairnError(
        .rowMissing, "\(subject) the target \(target) does not have it \(place)",
        hint: DifferenceHint.text(source: table.source.engine),
        context: context(table, key))
    }
    let checked = table.columns.indices.filter { mask.contains($0) && !table.key.contains($0) }
    let index = zip(checked, found).first { $0.1 != "t" }?.0
    let column = index.map { table.source.columns[$0].name } ?? "?"
    return CairnError(
      .rowDiffers,
      "\(subject) its column \(column) in the target \(target) differs from the source \(place)",
      hint: DifferenceHint.text(source: table.source.engine), context: context(table, key))
  }

  /// Returns the error for an INSERT that inserted no row, for example because of a trigger.
  func swallowed(_ table: PostgresApplyTable) -> CairnError {
    let key = describeRow(table, isNew: true)
    return CairnError(
      .constraintFailed,
      "table \(table.source.fullName), row \(key): a trigger or rule of \(target) kept it from being inserted \(place)",
      hint: "triggers that are ENABLE ALWAYS or ENABLE REPLICA fire here too: see \\d \(table.target.qualifiedName)",
      context: context(table, key))
  }

  /// Returns the error for a statement that the server refused. The error names the row if the row is the cause.
  func refusal(_ table: PostgresApplyTable, _ error: PostgresError) -> any Error {
    error.isServerGone || error.isTransient || error.isCancelled ? error : refused(table, error)
  }

  func refused(_ table: PostgresApplyTable, _ error: PostgresError) -> CairnError {
    let key = describeRow(table, isNew: true)
    let subject = "table \(table.source.fullName), row \(key)"
    let place = place
    let text = error.message + (error.detail.isEmpty ? "" : ": \(error.detail)")
    if error.isUniqueness {
      let hint = table.isShared ? DifferenceHint.shared : DifferenceHint.text(source: table.source.engine)
      return CairnError(
        .rowExists, "\(subject): the target \(target) has such a row already: \(text) \(place)",
        hint: table.mayFold ? "\(Self.foldedHint); or \(hint)" : hint,
        context: context(table, key))
    }
    if error.isConstraint {
      return CairnError(
        .constraintFailed, "\(subject): the target \(target) refuses it: \(text) \(place)",
        hint: "make the target's constraints equal to the source's, then run again", context: context(table, key))
    }
    if ["42P01", "42703", "42804", "42P10", "428C9", "0A000"].contains(error.sqlState) {
      return CairnError(
        .schemaStopped,
        "\(subject): table \(table.target.qualifiedName) of \(target) has another shape than expected: \(text) \(place)",
        hint: "make its columns and keys equal to the source's, then run again", context: context(table, key))
    }
    if error.isPrivilege { return error.unentitled(table.source, at: table.target.qualifiedName) }
    if error.isOfStatement {
      return CairnError(
        .valueMisfit, "\(subject): the target \(target) does not take a value: \(text) \(place)",
        hint: "change the target's columns so that they hold the source's values, then run again",
        context: context(table, key))
    }
    return error.asCairnError
  }

  func doubled(_ table: PostgresApplyTable, _ index: Int, _ values: [String]) -> CairnError {
    CairnError(
      .rowExists,
      "table \(table.source.fullName), row \(values.joined(separator: ", ")): the target \(target) would have two rows with the same value of \(table.target.uniqueIndexes[index].name) \(place)",
      hint: DifferenceHint.text(source: table.source.engine),
      context: ["table": table.source.fullName, "position": reader.position.description])
  }

  func wrongCount(_ table: PostgresApplyTable) -> CairnError {
    CairnError(
      .trailDamaged,
      "an image at \(reader.position) of trail \(name) does not have the \(table.given.columns.count) columns of table \(table.source.fullName)",
      hint: "run 'cairn trail verify \(name)'")
  }

  func misfitError(
    _ table: PostgresApplyTable, _ index: Int, _ value: String, _ reason: String, row: borrowing RowText
  ) -> CairnError {
    let column = table.source.columns[index].name
    // A key that does not fit identifies the row by its own value and the columns before it.
    let isKey = table.key.isEmpty || table.key.contains(index)
    let known = isKey ? describeColumns(table, row, upTo: min(index, 3)) : [describeKey(table, row, upTo: row.count)]
    let key = (known + (isKey ? ["\(column)=\(value)"] : [])).joined(separator: ", ")
    let policy = misfits.policy(table: table.source.name, column: column)
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
      "table \(table.source.fullName), row \(key): value \(value) of column \(column) does not fit \(table.columns[index].type.name): \(reason)\(why) \(place)",
      hint: misfitHint(table, index),
      context: context(table, key).merging(["column": column]) { $1 })
  }

  private func misfitHint(_ table: PostgresApplyTable, _ index: Int) -> String {
    let column = "\(table.source.name).\(table.source.columns[index].name)"
    let mend = "correct the value at the source and copy the table again ('cairn copy APPLY', or --existing overwrite)"
    let canBeNull = !table.key.contains(index) && !table.columns[index].isNotNull
    switch (canBeNull, table.canWiden(index)) {
    case (true, true):
      return "\(mend), or choose what happens to such values: misfits = [\"\(column)=null\"] or =widen (--misfit)"
    case (true, false): return "\(mend), or let such values become NULL: misfits = [\"\(column)=null\"] (--misfit)"
    case (false, true): return "\(mend), or make the column text: misfits = [\"\(column)=widen\"] (--misfit)"
    case (false, false):
      return "\(mend), or give the column the type text at the target, or leave the table out"
    }
  }
}

extension PostgresError {
  /// Returns the error for a table that the role of apply may not read or write.
  func unentitled(_ source: TableSchema, at name: String) -> CairnError {
    TableRights.unentitled(message, source.fullName, at: name, place)
  }
}
