import Changes

/// A table whose schema change could not be made at the target: its part of the trail waits, and no other's.
///
/// It is kept beside what apply knows of the table, in the commit in which apply passed its changes over.
package struct WaitingTable: Equatable, Sendable {
  /// As the source calls it.
  @ByBytes package var name: String
  /// Up to where its part of the trail has been applied: the border before the transaction that it waits with.
  package var checkpoint: Checkpoint
  /// The last transaction before that border.
  package var number: UInt64
  /// Why it waits: what changed, both shapes, and in the hint what a person may run at the target.
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String

  package init(name: String, checkpoint: Checkpoint, number: UInt64, code: ErrorCode, message: String, hint: String) {
    (self.name, self.checkpoint, self.number) = (name, checkpoint, number)
    (self.code, self.message, self.hint) = (code, message, hint)
  }

  /// The tables of one trail that may wait at a time. Each is tried again by itself.
  package static let countMax = 1000

  /// Throws `schema-stopped` if as many tables of the trail wait already as may: the apply stops then.
  ///
  /// - Parameter error: why one more would wait.
  package static func checkCount(_ count: Int, of trail: TrailName, _ error: CairnError) throws {
    guard count >= countMax else { return }
    throw CairnError(
      .schemaStopped, "\(count) tables of trail \(trail) wait, and no more may: \(error.message)",
      hint: "see them with 'cairn status', and leave tables out with 'tables' of the apply; \(error.hint)",
      context: error.context)
  }

  /// With which a run ends that has applied everything else; nil when no table waits.
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

/// Where a table that waits is at the target, and whether a copy could take the place of what it missed.
package struct HeldTable: Equatable, Sendable {
  /// As its rule has it now.
  @ByBytes package var name: String
  /// As its rule had it when it began to wait: its table at the target is that one.
  @ByBytes package var place: String
  /// What it missed is in a copy too: not so for a history, for one that is dropped, and where another has its name.
  package var isReplaceable: Bool
  /// The source has given it another name since.
  package var isRenamed: Bool

  package init(name: String, place: String, isReplaceable: Bool, isRenamed: Bool) {
    (self.name, self.place, self.isReplaceable, self.isRenamed) = (name, place, isReplaceable, isRenamed)
  }
}
