import Changes
import SystemKit
import Trails

/// The applied notes of a replay's commits: what the target has from the trail, and what it may lack.
struct PostgresNotes {
  let session: PostgresSession
  let tables: PostgresTables
  /// The trail's transactions in quarantine; nil if this replay puts none there.
  let shelf: QuarantineStore?
  /// The quarantined transaction that this replay retries; nil for any other replay.
  let retried: QuarantinedTransaction?
  /// In a catch-up: the last transaction that is applied to every suspended table outside of the catch-up; nil if there
  /// is no such table.
  let heldElsewhere: UInt64?
  /// The last transaction that the target had applied when this replay began; 0 in a catch-up.
  let wholeNumber: UInt64

  /// The transaction after which the target may lack changes, because of suspended tables or the quarantine. Nil if the
  /// target lacks no changes.
  var heldThrough: UInt64? { (tables.waiting.map(\.table.number) + [heldBesides].compactMap { $0 }).min() }

  /// The transaction after which the target may lack changes, because of the quarantine or of suspended tables that
  /// this replay does not apply. Nil if there are no such changes.
  private var heldBesides: UInt64? {
    [heldElsewhere, shelf?.quarantine.heldThrough(besides: retried)].compactMap { $0 }.min()
  }

  /// Returns the applied note of a group.
  ///
  /// - Parameter number: The transaction in the note; 0 if the group has no changes.
  func note(_ header: TransactionHeader, as number: UInt64) -> AppliedNote {
    let known = min(retried == nil ? number : wholeNumber, heldThrough ?? .max)
    return AppliedNote(
      trail: session.name.description, id: session.reader.id, number: known, clock: header.clock,
      position: session.reader.position)
  }

  /// Returns the applied note of a catch-up's commit. It names the last transaction that all tables then have.
  func catchUpNote(_ last: TransactionHeader) -> AppliedNote {
    let held = tables.haltedNumbers + [heldBesides].compactMap { $0 }
    let known = held.reduce(last.number, min)
    return AppliedNote(
      trail: session.name.description, id: session.reader.id, number: known, clock: last.clock,
      position: session.reader.position)
  }
}
