import Changes

/// A place between two blocks of a trail, as nodes exchange it (`docs/reference/protocol.md`, Place).
///
///     TrailPlace(segment: 3, offset: 64, chain: .zero).description   // "00000003:64"
package struct TrailPlace: Equatable, Sendable, CustomStringConvertible {
  package var segment: UInt64
  /// The offset in the segment's file; 0 is before the segment's header.
  package var offset: UInt64
  /// The chain hash of everything in the trail before the place.
  package var chain: ChainHash

  package init(segment: UInt64, offset: UInt64, chain: ChainHash) {
    self.segment = segment
    self.offset = offset
    self.chain = chain
  }

  package var description: String { "\(segment.hex(8)):\(offset)" }

  /// Returns whether both places have the same segment and offset, without comparing chain hashes.
  package func isSameSpot(as other: TrailPlace) -> Bool { segment == other.segment && offset == other.offset }

  package func isBehind(_ other: TrailPlace) -> Bool { (segment, offset) > (other.segment, other.offset) }
}

/// The first and the last place of a trail or of a copy, and its last transaction.
///
///     TrailStanding(name: name, id: id, oldest: 1, end: place, position: .start, lastTransaction: 0)
package struct TrailStanding: Equatable, Sendable {
  package var name: TrailName
  package var id: TrailID
  package var oldest: UInt64
  /// The synced end. In a copy, it may be inside a transaction.
  package var end: TrailPlace
  package var position: Position
  /// The number of the last whole transaction before the end; 0 if there is none.
  package var lastTransaction: UInt64

  package init(
    name: TrailName, id: TrailID, oldest: UInt64, end: TrailPlace, position: Position, lastTransaction: UInt64
  ) {
    (self.name, self.id, self.oldest, self.end) = (name, id, oldest, end)
    (self.position, self.lastTransaction) = (position, lastTransaction)
  }
}
