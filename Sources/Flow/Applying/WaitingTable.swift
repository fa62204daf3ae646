import Changes

/// A suspended table: the target cannot follow it, for example after a schema change. Its part of the trail is applied
/// later; other tables continue.
///
/// This record is stored with the table's state, in the commit in which apply first skips the table's changes.
package struct WaitingTable: Equatable, Sendable {
  /// The table's name in the trail, as the rules of the apply change it.
  @ByBytes package var name: String
  /// The table's own checkpoint: its part of the trail has been applied up to here, just before the first transaction
  /// that the table lacks.
  package var checkpoint: Checkpoint
  /// The number of the last transaction before ``checkpoint``.
  package var number: UInt64
  /// The error code of the reason for the suspension. `message` names the schema change, and `hint` has the statements
  /// for an operator.
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String

  package init(name: String, checkpoint: Checkpoint, number: UInt64, code: ErrorCode, message: String, hint: String) {
    (self.name, self.checkpoint, self.number) = (name, checkpoint, number)
    (self.code, self.message, self.hint) = (code, message, hint)
  }

  /// Returns whether the table is already suspended with this error: the same code, message and hint.
  func isSuspended(by error: CairnError) -> Bool {
    CairnError(code, message, hint: hint).isReported(as: error)
  }

  /// The most tables of one trail that may be suspended at the same time. Each of them is retried separately.
  package static let countMax = 1000

  /// Throws `schema-stopped` if the trail has ``countMax`` suspended tables already. Apply then stops.
  ///
  /// - Parameter error: The reason why one more table would be suspended.
  package static func checkCount(_ count: Int, of trail: TrailName, _ error: CairnError) throws {
    guard count >= countMax else { return }
    throw CairnError(
      .schemaStopped, "\(count) tables of trail \(trail) are suspended, which is the limit: \(error.message)",
      hint: "see them with 'cairn status', and leave tables out with 'tables' of the apply; \(error.hint)",
      context: error.context)
  }

  /// Returns the error at the end of a run that has applied everything except suspended tables; nil if no table is
  /// suspended.
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

/// A suspended table: its names, and whether a copy can replace the changes that it missed.
package struct HeldTable: Equatable, Sendable {
  /// The table's name in the trail, as the rules of the apply changed it when the table was suspended.
  @ByBytes package var name: String
  /// The table's present name in the target database. If the source has renamed the table since the suspension, this is
  /// still the old name.
  @ByBytes package var place: String
  /// Whether a copy can replace the changes that the table missed. False for a history (`mode = "history"`), after a
  /// drop of the table, and if another table now has this table's name.
  package var isReplaceable: Bool
  /// Whether the source has renamed the table since the table was suspended.
  package var isRenamed: Bool

  package init(name: String, place: String, isReplaceable: Bool, isRenamed: Bool) {
    (self.name, self.place, self.isReplaceable, self.isRenamed) = (name, place, isReplaceable, isRenamed)
  }
}
