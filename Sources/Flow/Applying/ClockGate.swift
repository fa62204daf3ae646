import Changes
import SystemKit

/// Makes apply wait while the clock of its next transaction is too far ahead of this node's clock.
///
/// Without this check, a peer with a wrong clock could set the clock of this node's captures far ahead.
final class ClockGate {
  struct Ahead: Error {
    let header: TransactionHeader
  }

  private let trail: TrailName
  private let clock: Clock
  /// The maximum time by which the clock of the trail's node may be ahead of this node's clock, in µs; nil: no limit.
  private let skewMicrosecondsMax: Int64?
  /// The transaction that waits because its clock is too far ahead of this node's clock; nil: none.
  private(set) var heldBack: TransactionHeader?
  /// The highest clock, in µs, that the last check allowed. For transactions up to this clock, a check does not read
  /// this node's clock.
  private var near: UInt64 = 0

  init(_ trail: TrailName, _ clock: Clock, skewMicrosecondsMax: Int64?) {
    (self.trail, self.clock, self.skewMicrosecondsMax) = (trail, clock, skewMicrosecondsMax)
  }

  private func isAhead(_ header: TransactionHeader) -> Bool {
    Self.isAhead(header, now: clock.microseconds(), skewMicrosecondsMax)
  }

  /// Returns whether a transaction's clock is later than `now` by more than the maximum. Times are in µs since 1970
  /// UTC.
  static func isAhead(_ header: TransactionHeader, now: Int64, _ skewMicrosecondsMax: Int64?) -> Bool {
    guard let skewMicrosecondsMax else { return false }
    return header.clock > UInt64(clamping: now + skewMicrosecondsMax)
  }

  /// Throws ``Ahead`` for a transaction whose clock is too far ahead of this node's clock.
  func check(_ header: TransactionHeader) throws {
    guard let skewMicrosecondsMax, header.clock > near else { return }
    let now = clock.microseconds()
    if Self.isAhead(header, now: now, skewMicrosecondsMax) { throw Ahead(header: header) }
    near = UInt64(clamping: now + skewMicrosecondsMax)
  }

  /// Makes the next check of a transaction read this node's clock. Called at the beginning of a group.
  func beginGroup() { near = 0 }

  /// Returns the last transaction that may be applied now; nil: all may be applied.
  func limit() -> UInt64? {
    beginGroup()
    guard let held = heldBack else { return nil }
    if isAhead(held) { return held.number - 1 }
    heldBack = nil
    return nil
  }

  /// The time at which the waiting transaction may be applied, in µs since 1970; nil: no transaction waits.
  var heldUntil: Int64? { heldBack.map { Int64(clamping: $0.clock) - (skewMicrosecondsMax ?? 0) } }

  func holdBack(_ header: TransactionHeader) { heldBack = header }

  /// Waits 200 ms, or until `stop` is set. Always returns true, so that apply checks the clock again.
  ///
  /// - Throws: `clock-ahead` if `isDraining`.
  func wait(for held: TransactionHeader, isDraining: Bool, _ stop: StopSignal) throws -> Bool {
    let seconds = (Int64(clamping: held.clock) - clock.microseconds()) / 1_000_000
    guard !isDraining else {
      throw CairnError(
        .clockAhead,
        "transaction \(held.number) of trail \(trail) was committed \(seconds) s ahead of the clock of this node",
        hint: "set the clocks of both nodes, for example by NTP; the trail waits until then", remedy: .retry)
    }
    _ = stop.wait(milliseconds: 200)
    return true
  }
}
