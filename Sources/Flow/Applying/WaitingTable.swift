import Changes

/// The state of a suspended table, stored in the target. Apply skips the table's changes and applies them later; other
/// tables continue.
package struct WaitingTable: Equatable, Sendable {
  /// The table's full name at the suspension: the source's name, or the name that a rule of the apply gives it.
  @ByBytes package var name: String
  /// The position before the first transaction that the table lacks.
  package var checkpoint: Checkpoint
  /// The number of the last transaction before the first one that the table lacks.
  package var number: UInt64
  /// The error code of the reason for the suspension.
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String

  package init(name: String, checkpoint: Checkpoint, number: UInt64, code: ErrorCode, message: String, hint: String) {
    (self.name, self.checkpoint, self.number) = (name, checkpoint, number)
    (self.code, self.message, self.hint) = (code, message, hint)
  }

  /// Reads a suspended table from the texts of its entry: the checkpoint, name, code, message and hint. Nil if this
  /// version of Cairn did not write the entry.
  init?(_ row: [String?]) {
    guard let stored = CheckpointColumns.read(row) else { return nil }
    let code = row[6].flatMap { ErrorCode(rawValue: $0) } ?? .schemaStopped
    self.init(
      name: row[5] ?? "", checkpoint: stored.checkpoint, number: stored.number, code: code, message: row[7] ?? "",
      hint: row[8] ?? "")
  }

  /// The values from which ``init(_:)`` reads the table.
  var values: [Value] {
    CheckpointColumns.values(checkpoint, number)
      + [.text(name), .text(code.rawValue), .text(message), .text(hint)]
  }

  func isSuspended(by error: CairnError) -> Bool {
    CairnError(code, message, hint: hint).isReported(as: error)
  }

  /// The highest number of suspended tables of one trail.
  package static let countMax = 1000

  /// The number of tables in the state of all applies to an SQLite file above which no further one is suspended.
  private static let listedMax: Int64 = 50_000

  /// Throws `schema-stopped` if the trail already has the maximum number of suspended tables, or the target has no room
  /// to list one more.
  ///
  /// - Parameter count: The present number of suspended tables.
  /// - Parameter listed: The number of tables in the state of all applies to an SQLite target.
  /// - Parameter error: The reason why one more table would be suspended.
  package static func checkCount(_ count: Int, listed: Int64 = 0, of trail: TrailName, _ error: CairnError) throws {
    guard listed < listedMax else {
      throw CairnError(
        .schemaStopped, "the target lists \(listed) tables, so trail \(trail) suspends no more: \(error.message)",
        hint: "leave tables out with 'tables' of the applies; \(error.hint)", context: error.context)
    }
    guard count >= countMax else { return }
    throw CairnError(
      .schemaStopped, "\(count) tables of trail \(trail) are suspended, which is the limit: \(error.message)",
      hint: "see them with 'cairn status', and leave tables out with 'tables' of the apply; \(error.hint)",
      context: error.context)
  }

  /// Returns the error that lists the suspended tables; nil if no table is suspended.
  package static func error(_ tables: [WaitingTable]) -> CairnError? {
    guard let first = tables.first else { return nil }
    let names = tables.map(\.name)
    return CairnError(
      .schemaStopped,
      tables.count == 1
        ? "table \(first.name) is suspended: \(first.message)"
        : "\(tables.count) tables are suspended: \(names.joined(separator: ", ")); the first: \(first.message)",
      hint: first.hint, context: ["table": names.joined(separator: ", ")])
  }
}

/// The names of a suspended table, and whether a refresh can replace the changes that the table missed.
package struct HeldTable: Equatable, Sendable {
  /// The table's full name at the suspension: the source's name, or the name that a rule of the apply gives it.
  @ByBytes package var name: String
  /// The table's present name in the target database.
  @ByBytes package var place: String
  /// Whether a refresh can replace the changes that the table missed. False for a history, after a drop of the table,
  /// and if its name now belongs to another table.
  package var isReplaceable: Bool
  /// Whether the source has renamed the table since the table was suspended.
  package var isRenamed: Bool

  package init(name: String, place: String, isReplaceable: Bool, isRenamed: Bool) {
    (self.name, self.place, self.isReplaceable, self.isRenamed) = (name, place, isReplaceable, isRenamed)
  }
}
