import Changes
import PostgresKit
import Trails

/// Whether schema changes of the stream still go into the trail, or have used up the room for table definitions. It
/// does no I/O.
struct DefinitionRoom {
  /// Whether a transaction of the source has used up the room. Then no schema change of the stream goes into the trail
  /// before the catalog has been read, because it may build on a change that was left out.
  private(set) var isUsedUp = false
  /// The new tables that were left out since then. The stream may have had rows of them, so they are copied.
  private(set) var passedOver: Set<UInt32> = []

  /// Returns whether definitions of `bytes` fit into the room that a transaction of the source has left, also in bytes.
  /// Once some did not fit, nothing fits any more.
  mutating func takes(_ bytes: Int, of left: Int) -> Bool {
    isUsedUp = isUsedUp || bytes > left
    return !isUsedUp
  }

  mutating func passOver(_ relation: UInt32) { passedOver.insert(relation) }
}

extension TableTracker {
  /// Opens a transaction of the trail, and returns whether it has room for table definitions.
  ///
  /// The owners of tables decide how many definitions a transaction of theirs makes, and readers refuse a segment with
  /// too many. If a transaction of the source has no room left, the catalog is read after it. All tables are then
  /// compared with the trail, in as many transactions as that needs.
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

  /// The bytes of definitions that the open transaction of the trail may still get. A quarter of a segment's room stays
  /// for tables that give up their names to another one: they are renamed first.
  private var definitionBytesLeft: Int { session.trail.schemaRoom - session.trail.schemaSpare }
}
