import Changes
import Conflicts
import Versions

/// The place of a replay in its trail.
final class TrailCursor {
  /// The checkpoint at which the open group began; nil: the trail's start.
  var start: Checkpoint?
  /// The transaction whose records are read. Before the first record, the last transaction that was applied.
  private(set) var present: UInt64
  /// The last transaction that was read to its end.
  private(set) var whole: UInt64
  /// The version of the rows that the present transaction writes, and where the transaction begins in the trail.
  private(set) var place = VersionPlace(stamp: VersionStamp(clock: 0, origin: "", number: 0), begin: .start)
  /// Whether the present transaction is skipped: it is in quarantine, or its origin is the target itself.
  private(set) var isSkipped = false
  /// Whether the present record is a row of a copy.
  var isCopiedRow = false
  /// The last transaction that the open group may have.
  var limit = UInt64.max
  /// The refreshes that the trail has after the present record; nil if none was looked for in this group.
  var refreshes: RefreshesAhead?
  /// The last transaction for whose missing rows apply does not wait, because it has waited for a refresh before.
  var waitedThrough = UInt64.max
  /// A record that was read ahead of time and is handled next; nil if there is none.
  var ahead: Record?

  /// A cursor after transaction `number`.
  init(after number: UInt64, at start: Checkpoint? = nil) {
    (present, whole) = (number, number)
    self.start = start
  }

  func begin(_ header: TransactionHeader, of trail: String, at begin: Position) {
    present = header.number
    isSkipped = false
    place = VersionPlace(
      stamp: VersionStamp(clock: header.clock, origin: trail, number: header.number), begin: begin)
  }

  func skip() { isSkipped = true }

  func end() { whole = present }

  /// Returns the fields of an error about the present record's row.
  ///
  /// - Parameter position: The place of the record in the trail.
  func rowContext(_ table: String, key: String, at position: Position) -> [String: String] {
    var context = [
      "table": table, "key": key, "position": position.description, "transaction": String(present),
    ]
    if isCopiedRow { context["copied"] = "yes" }
    return context
  }
}
