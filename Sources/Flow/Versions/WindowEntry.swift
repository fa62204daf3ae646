import Changes

/// A row version in the version window. `origin` is the index of its trail.
struct WindowEntry: Equatable, Sendable {
  var origin: Int
  var number: UInt64
  var clock: UInt64
  var begin: Position
}

extension WindowEntry {
  /// Returns whether the author of a version from another trail knew this version.
  /// - Parameter known: The last transaction of this version's trail that the author states to know.
  /// - Parameter clock: The clock of the author's transaction.
  func isKnown(through known: UInt64, at clock: UInt64) -> Bool { number <= known && self.clock < clock }
}

/// The transactions of one trail that every node knows: those up to `number` with a clock before `clock`.
struct KnownFloor: Equatable {
  var number: UInt64 = 0
  var clock: UInt64 = 0

  func includes(_ entry: WindowEntry) -> Bool { entry.number <= number && entry.clock < clock }

  /// Replaces this value by `other` if `other` includes everything that this value includes.
  ///
  /// So a transaction whose versions may have been removed stays included, also after a false claim of a node.
  mutating func raise(to other: KnownFloor) {
    if other.number >= number, other.clock >= clock { self = other }
  }
}

/// A hash of a set of versions of one row, independent of their order.
package struct VersionFingerprint: Equatable, Sendable {
  private var count = 0
  private var sum: UInt64 = 0

  mutating func add(_ entry: WindowEntry) {
    count += 1
    sum &+= Self.mixed(entry.number ^ Self.mixed(entry.clock ^ UInt64(truncatingIfNeeded: entry.origin) << 56))
  }

  /// Source: the finalizer of SplitMix64, https://prng.di.unimi.it/splitmix64.c
  private static func mixed(_ number: UInt64) -> UInt64 {
    var mixed = number &+ 0x9e37_79b9_7f4a_7c15
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }
}

/// An incoming transaction that apply has begun to process.
package struct MetTransaction: Sendable {
  let entry: WindowEntry
  /// For each trail, by index, the last transaction that the author of this transaction knew.
  let known: [UInt64]

  func known(of origin: Int) -> UInt64 { origin < known.count ? known[origin] : 0 }

  /// Returns whether the author of this transaction knew a version.
  func knows(_ other: WindowEntry) -> Bool {
    other.origin == entry.origin
      ? other.number <= entry.number : other.isKnown(through: known(of: other.origin), at: entry.clock)
  }
}
