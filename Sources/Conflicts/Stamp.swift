/// When and where a transaction began its way: its place among the transactions of all origins.
///
/// Clocks are hybrid logical times, so that a transaction is later than all that its origin had applied; equal clocks are
/// told apart by the origin's name. So the order is total, and the same at every node.
package struct Stamp: Hashable, Comparable, Sendable {
  /// µs.
  package var clock: UInt64
  /// The trail, `NODE.NAME`.
  package var origin: String
  /// Of the transaction in that trail, from 1.
  package var number: UInt64

  package init(clock: UInt64, origin: String, number: UInt64) {
    (self.clock, self.origin, self.number) = (clock, origin, number)
  }

  package static func < (a: Stamp, b: Stamp) -> Bool { (a.clock, a.origin, a.number) < (b.clock, b.origin, b.number) }

  package var node: Substring { origin.prefix { $0 != "." } }

  /// `name`: of a node, or of one of its trails where it has several.
  func isOf(_ name: String) -> Bool { origin == name || node == name }
}
