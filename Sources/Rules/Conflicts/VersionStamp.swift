/// The stamp of a transaction. Clocks are hybrid logical times, so a transaction is later than everything that its
/// author knew. For equal clocks, the origin's name decides the order.
///
///     VersionStamp(clock: 7, origin: "a.shop", number: 1) < VersionStamp(clock: 7, origin: "b.shop", number: 1)   // true
package struct VersionStamp: Hashable, Comparable, Sendable {
  /// The hybrid logical time of the transaction, in µs.
  package var clock: UInt64
  /// The origin of the transaction, by the name of the trail of its capture: `NODE.NAME`.
  package var origin: String
  /// The number of the transaction in the origin's trail, from 1.
  package var number: UInt64

  package init(clock: UInt64, origin: String, number: UInt64) {
    (self.clock, self.origin, self.number) = (clock, origin, number)
  }

  package static func < (a: VersionStamp, b: VersionStamp) -> Bool {
    (a.clock, a.origin, a.number) < (b.clock, b.origin, b.number)
  }

  package var node: Substring { origin.prefix { $0 != "." } }

  /// Returns whether the origin of the transaction is the node, or the trail, with this name.
  func isOf(_ name: String) -> Bool { origin == name || node == name }
}
