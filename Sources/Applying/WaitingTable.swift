import Changes

/// A table whose schema change could not be made at the target: its part of the trail waits, and no other's.
///
/// It is kept with apply's state of the table. Both change in the commit in which apply skips the table's changes.
package struct WaitingTable: Equatable, Sendable {
  /// The name of the table at the source.
  @ByBytes package var name: String
  /// The place up to which the table's part of the trail has been applied: the border before the first transaction that
  /// waits.
  package var checkpoint: Checkpoint
  /// The last transaction before that border.
  package var number: UInt64
  /// The reason: the change, both shapes, and in the hint the statements that an operator may run at the target.
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String

  package init(name: String, checkpoint: Checkpoint, number: UInt64, code: ErrorCode, message: String, hint: String) {
    (self.name, self.checkpoint, self.number) = (name, checkpoint, number)
    (self.code, self.message, self.hint) = (code, message, hint)
  }

  /// The number of tables of one trail that may wait at the same time. Each is tried again by itself.
  package static let countMax = 1000

  /// Throws `schema-stopped` if as many tables of the trail wait already as may: the apply stops then.
  ///
  /// - Parameter error: The reason why one more table would wait.
  package static func checkCount(_ count: Int, of trail: TrailName, _ error: CairnError) throws {
    guard count >= countMax else { return }
    throw CairnError(
      .schemaStopped, "\(count) tables of trail \(trail) wait, and no more may: \(error.message)",
      hint: "see them with 'cairn status', and leave tables out with 'tables' of the apply; \(error.hint)",
      context: error.context)
  }

  /// Returns the error with which a run ends that has applied everything else; nil when no table waits.
  package static func error(_ tables: [WaitingTable]) -> CairnError? {
    guard let first = tables.first else { return nil }
    let names = tables.map(\.name)
    return CairnError(
      .schemaStopped,
      tables.count == 1
        ? "table \(first.name) waits: \(first.message)"
        : "\(tables.count) tables wait: \(names.joined(separator: ", ")); the first: \(first.message)",
      hint: first.hint, context: ["table": names.joined(separator: ", ")])
  }
}

/// The place of a waiting table at the target, and whether a copy could bring what it missed.
package struct HeldTable: Equatable, Sendable {
  /// The name under its present rule.
  @ByBytes package var name: String
  /// The name under the rule that it had when it began to wait: that is the name of its table at the target.
  @ByBytes package var place: String
  /// Whether a copy also brings what the table missed. False for a history, a dropped table, or a name that another
  /// table has.
  package var isReplaceable: Bool
  /// Whether the source has renamed the table since.
  package var isRenamed: Bool

  package init(name: String, place: String, isReplaceable: Bool, isRenamed: Bool) {
    (self.name, self.place, self.isReplaceable, self.isRenamed) = (name, place, isReplaceable, isRenamed)
  }
}
