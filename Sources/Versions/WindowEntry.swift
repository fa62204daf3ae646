import Changes

/// A version as the window keeps it; origins by their place in its list.
struct WindowEntry: Equatable, Sendable {
  var origin: Int
  var number: UInt64
  var clock: UInt64
  var begin: Position
}

/// A transaction that is applied, as the window has met it.
package struct MetTransaction: Sendable {
  let entry: WindowEntry
  /// What its author knew, by place of the origin.
  let known: [UInt64]
}
