import Changes

/// The place where a block of a trail begins, or the next block will: nodes send it to each other (`docs/protocol.md`,
/// Place).
package struct TrailPlace: Equatable, Sendable, CustomStringConvertible {
  package var segment: UInt64
  /// The offset in the segment's file; 0 is the place before its header.
  package var offset: UInt64
  /// The chain hash of everything before the place.
  package var chain: ChainHash

  package init(segment: UInt64, offset: UInt64, chain: ChainHash) {
    self.segment = segment
    self.offset = offset
    self.chain = chain
  }

  package var description: String { "\(segment.hex(8)):\(offset)" }

  /// Returns whether both have the same segment and offset, even if their histories differ.
  package func isSameSpot(as other: TrailPlace) -> Bool { segment == other.segment && offset == other.offset }

  package func isBehind(_ other: TrailPlace) -> Bool { (segment, offset) > (other.segment, other.offset) }
}

/// The extent of a trail or of a copy.
package struct TrailStanding: Equatable, Sendable {
  package var name: TrailName
  package var id: TrailID
  /// The oldest segment that exists.
  package var oldest: UInt64
  /// The end up to which everything is synced. In a copy it may be inside a transaction.
  package var end: TrailPlace
  /// The end as a position.
  package var position: Position
  /// The number of the last whole transaction before the end; 0: none.
  package var lastTransaction: UInt64

  package init(
    name: TrailName, id: TrailID, oldest: UInt64, end: TrailPlace, position: Position, lastTransaction: UInt64
  ) {
    (self.name, self.id, self.oldest, self.end) = (name, id, oldest, end)
    (self.position, self.lastTransaction) = (position, lastTransaction)
  }
}
