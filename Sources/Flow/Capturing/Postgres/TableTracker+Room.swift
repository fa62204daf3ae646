import Changes
import PostgresKit
import Trails

/// Whether the trail still takes schema changes from the stream. One transaction can use up the room for table
/// definitions in a segment.
struct DefinitionRoom {
  private(set) var isUsedUp = false
  private(set) var passedOver: Set<UInt32> = []

  /// Returns whether definitions of `bytes` fit into a room of `left` bytes. After the first false, returns false until
  /// the catalog has been read.
  mutating func takes(_ bytes: Int, of left: Int) -> Bool {
    isUsedUp = isUsedUp || bytes > left
    return !isUsedUp
  }

  mutating func passOver(_ relation: UInt32) { passedOver.insert(relation) }
}

extension TableTracker {
  /// Opens a transaction of the trail, and returns whether it has room for these table definitions. If not, capture
  /// reads the catalog after the transaction of the source.
  func hasRoom(for schemas: [TableSchema]) throws -> Bool {
    let bytes = schemas.reduce(0) { $0 + $1.memoryBytes }
    try session.openTransaction()
    if session.incoming.isOpen {
      let wasUsedUp = room.isUsedUp
      if room.takes(bytes, of: definitionBytesLeft) { return true }
      if !wasUsedUp {
        session.progress.tell(
          "a transaction alters more tables than a segment of the trail has room for: comparing all tables after it")
      }
    } else {
      if bytes <= definitionBytesLeft { return true }
      try endAnnouncement()
      try session.openTransaction()
      if bytes <= definitionBytesLeft { return true }
    }
    session.catalog.want()
    return false
  }

  /// The bytes of definitions that the open transaction of the trail may still get, apart from a reserve for renamed
  /// tables.
  private var definitionBytesLeft: Int { session.trail.schemaRoom - session.trail.schemaSpare }
}
