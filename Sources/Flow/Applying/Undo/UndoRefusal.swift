import Changes

/// A transaction that wrote to a row after the one to undo.
package struct UndoWriter: Sendable {
  package let number: UInt64
  package let node: String
  /// The time of its commit, µs since 1970 UTC.
  package let time: Int64

  package init(number: UInt64, node: String, time: Int64) {
    (self.number, self.node, self.time) = (number, node, time)
  }

  var text: String { "transaction \(number) of \(node) at \(UTCTime(time))" }
}

/// A reason why a transaction cannot be undone, with the row and the column.
package struct UndoRefusal: Sendable {
  package enum Reason: Sendable {
    /// A later transaction wrote the column.
    case written(UndoWriter)
    case deleted(UndoWriter)
    /// A later transaction inserted a row with the same key.
    case inserted(UndoWriter)
    /// The database has another value than the trail says, or no such row; nil for no row.
    case differs(now: String?, expected: String?)
    /// The trail does not give the value before the transaction.
    case unknown
    case truncated
    case copied
    /// A schema change; nil if the transaction to undo made it.
    case reshaped(UndoWriter?)
    /// The table of the database does not have the columns of the trail's table.
    case misfit
    /// A row of this table refers to the row, and would be changed with it.
    case referenced(by: String)
    /// The database refused the change.
    case database(String)
    /// A trigger of the database wrote the column again.
    case trigger
  }

  package let table: String
  package let key: String?
  package let column: String?
  package let reason: Reason

  /// Whether `--force` overrides the refusal.
  package var isForceable: Bool {
    switch reason {
    case .written, .deleted, .inserted, .trigger: true
    default: false
    }
  }

  /// The later transaction that is the reason; nil if there is none.
  package var writer: UndoWriter? {
    switch reason {
    case .written(let writer), .deleted(let writer), .inserted(let writer): writer
    case .reshaped(let writer): writer
    default: nil
    }
  }

  /// The kind of the reason, as a word for programs.
  package var kind: String {
    switch reason {
    case .written: "written"
    case .deleted: "deleted"
    case .inserted: "inserted"
    case .differs: "differs"
    case .unknown: "unknown"
    case .truncated: "truncated"
    case .copied: "copied"
    case .reshaped: "reshaped"
    case .misfit: "misfit"
    case .referenced: "referenced"
    case .database: "refused"
    case .trigger: "trigger"
    }
  }

  package var text: String {
    let place = [table.isEmpty ? nil : "table \(table)", key, column.map { "column \($0)" }].compactMap(\.self)
    return "\(place.joined(separator: ", ")): \(why)".oneLine
  }

  private var why: String {
    switch reason {
    case .written(let writer): "written since, by \(writer.text)"
    case .deleted(let writer): "deleted since, by \(writer.text)"
    case .inserted(let writer): "another row of this key was inserted since, by \(writer.text)"
    case .differs(let now, let expected):
      switch (now, expected) {
      case (nil, _): "the database no longer has the row, and the trail does not have its deletion yet"
      case (let now?, nil): "the database has a row of this key, \(now), which the trail does not have yet"
      case (let now?, let expected?): "the value is \(now), and \(expected) in the trail, which lacks the last write"
      }
    case .unknown: "the trail does not give the value before the transaction"
    case .truncated: "a truncation, whose rows the trail does not give"
    case .copied: "a copy, whose earlier rows the trail does not give"
    case .reshaped(let writer):
      writer.map { "the table was altered since, by \($0.text)" } ?? "the transaction altered the table"
    case .misfit: "the table of the database does not have the columns of the trail's table"
    case .referenced(let table): "rows of table \(table) refer to the row, and would change with it"
    case .database(let message): "the database refuses the change: \(message)"
    case .trigger: "a trigger of the database writes the value again"
    }
  }
}
