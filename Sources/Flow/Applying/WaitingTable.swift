import Changes

/// A table whose schema change could not be made at the target. Its part of the trail waits; other tables continue.
///
/// It is stored with apply's state of the table. Both change in the commit in which apply skips the table's changes.
package struct WaitingTable: Equatable, Sendable {
  /// The name of the table at the source.
  @ByBytes package var name: String
  /// The place up to which the table's part of the trail has been applied: the border before the first transaction that
  /// waits.
  package var checkpoint: Checkpoint
  /// The number of the last transaction before ``checkpoint``.
  package var number: UInt64
  /// The error code of the reason. The message names the change and both shapes, the hint the statements for an
  /// operator.
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String

  package init(name: String, checkpoint: Checkpoint, number: UInt64, code: ErrorCode, message: String, hint: String) {
    (self.name, self.checkpoint, self.number) = (name, checkpoint, number)
    (self.code, self.message, self.hint) = (code, message, hint)
  }

  /// Returns whether the table is suspended for this reason, in the same words.
  func isSuspended(by error: CairnError) -> Bool {
    code == error.code && message.hasSameBytes(as: error.message) && hint.hasSameBytes(as: error.hint)
  }

  /// The number of tables of one trail that may wait at the same time. Each table is tried again separately.
  package static let countMax = 1000

  /// Throws `schema-stopped` if the highest number of tables of the trail are suspended already: then apply stops.
  ///
  /// - Parameter error: The reason why one more table would wait.
  package static func checkCount(_ count: Int, of trail: TrailName, _ error: CairnError) throws {
    guard count >= countMax else { return }
    throw CairnError(
      .schemaStopped, "\(count) tables of trail \(trail) are suspended, which is the limit: \(error.message)",
      hint: "see them with 'cairn status', and leave tables out with 'tables' of the apply; \(error.hint)",
      context: error.context)
  }

  /// Returns the error for the end of a run that has applied everything except suspended tables; nil when no table
  /// waits.
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

/// A suspended table: its names, and whether a copy could bring what it missed.
package struct HeldTable: Equatable, Sendable {
  /// The table's name under its present rule.
  @ByBytes package var name: String
  /// The table's name under the rule that applied when it began to wait: that is the name of its table at the target.
  @ByBytes package var place: String
  /// Whether a copy also brings what the table missed. False for a history, a dropped table, or a name that another
  /// table has.
  package var isReplaceable: Bool
  /// Whether the source has renamed the table since it began to wait.
  package var isRenamed: Bool

  package init(name: String, place: String, isReplaceable: Bool, isRenamed: Bool) {
    (self.name, self.place, self.isReplaceable, self.isRenamed) = (name, place, isReplaceable, isRenamed)
  }
}
