import Changes

/// A version as the window stores it. `origin` is an index into the window's list of origins.
struct WindowEntry: Equatable, Sendable {
  var origin: Int
  var number: UInt64
  var clock: UInt64
  var begin: Position
}

extension WindowEntry {
  /// Returns whether the author of a later version knew this version, which is of another origin.
  ///
  /// - Parameter known: The last transaction of this version's origin that the author claims to know.
  /// - Parameter clock: The clock of the author's transaction: it is later than those of all that the author knew.
  func isKnown(through known: UInt64, at clock: UInt64) -> Bool { number <= known && self.clock < clock }
}

/// The transactions of one origin that every node knows: up to a number, and with a clock before another one.
///
/// A node may claim to know transactions that are still to be written. The clock shows it: an author's clock is later
/// than those of all transactions that it knew.
struct KnownFloor: Equatable {
  var number: UInt64 = 0
  var clock: UInt64 = 0

  func includes(_ entry: WindowEntry) -> Bool { entry.number <= number && entry.clock < clock }

  /// Takes over another floor if it includes more transactions.
  mutating func raise(to other: KnownFloor) {
    if (other.number, other.clock) > (number, clock) { self = other }
  }
}

/// A hash that identifies a set of versions of one row, independent of their order.
package struct VersionFingerprint: Equatable, Sendable {
  private var count = 0
  private var sum: UInt64 = 0

  mutating func add(_ entry: WindowEntry) {
    count += 1
    sum &+= Self.mixed(entry.number ^ Self.mixed(entry.clock ^ UInt64(truncatingIfNeeded: entry.origin) << 56))
  }

  /// Returns a number with its bits mixed. Source: the finalizer of SplitMix64, https://prng.di.unimi.it/splitmix64.c
  private static func mixed(_ number: UInt64) -> UInt64 {
    var mixed = number &+ 0x9e37_79b9_7f4a_7c15
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }
}

/// An incoming transaction, with the indexes that the window gives to origins.
package struct MetTransaction: Sendable {
  let entry: WindowEntry
  /// The last transaction that the transaction's author knew of each origin, by index of the origin.
  let known: [UInt64]

  func known(of origin: Int) -> UInt64 { origin < known.count ? known[origin] : 0 }

  /// Returns whether the transaction's author knew a version.
  func knows(_ other: WindowEntry) -> Bool {
    other.origin == entry.origin
      ? other.number <= entry.number : other.isKnown(through: known(of: other.origin), at: entry.clock)
  }
}
