import Changes

/// Where a block of a trail begins, or the next one will: what nodes tell each other (`docs/protocol.md`, Place).
package struct TrailPlace: Equatable, Sendable, CustomStringConvertible {
  package var segment: UInt64
  /// In the segment's file; 0 is the place before its header.
  package var offset: UInt64
  /// Of everything before.
  package var chain: ChainHash

  package init(segment: UInt64, offset: UInt64, chain: ChainHash) {
    self.segment = segment
    self.offset = offset
    self.chain = chain
  }

  package var description: String { "\(segment.hex(8)):\(offset)" }

  /// Whether both are the same spot, whatever stands before it.
  package func isSameSpot(as other: TrailPlace) -> Bool { segment == other.segment && offset == other.offset }

  package func isBehind(_ other: TrailPlace) -> Bool { (segment, offset) > (other.segment, other.offset) }
}

/// Where a trail or a copy of it stands.
package struct TrailStanding: Equatable, Sendable {
  package var name: TrailName
  package var id: TrailID
  /// The oldest segment that is there.
  package var oldest: UInt64
  /// Everything before it is synced. In a copy it may be inside of a transaction.
  package var end: TrailPlace
  /// The end as a position.
  package var position: Position
  /// Number of the last whole one before the end; 0 for none.
  package var lastTransaction: UInt64

  package init(
    name: TrailName, id: TrailID, oldest: UInt64, end: TrailPlace, position: Position, lastTransaction: UInt64
  ) {
    (self.name, self.id, self.oldest, self.end) = (name, id, oldest, end)
    (self.position, self.lastTransaction) = (position, lastTransaction)
  }
}
