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

  /// Returns whether definitions fit into the room of the open transaction, with a quarter of a segment's room to spare.
  /// Once they do not, nothing fits any more.
  ///
  /// The spare room is for tables that give up their names to another one: they are renamed first.
  mutating func takes(_ schemas: [TableSchema], _ trail: TrailWriter) -> Bool {
    let bytes = schemas.reduce(0) { $0 + $1.memoryBytes }
    isUsedUp = isUsedUp || bytes > trail.schemaRoom - trail.schemaSpare
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
    try session.openTransaction()
    if session.incoming.isOpen {
      let wasUsedUp = room.isUsedUp
      if room.takes(schemas, session.trail) { return true }
      if !wasUsedUp {
        session.progress.tell(
          "a transaction alters more tables than a segment of the trail has room for: comparing all tables after it")
      }
    } else {
      var (here, next) = (DefinitionRoom(), DefinitionRoom())
      if here.takes(schemas, session.trail) { return true }
      try endAnnouncement()
      try session.openTransaction()
      if next.takes(schemas, session.trail) { return true }
    }
    session.catalog.want()
    return false
  }
}
