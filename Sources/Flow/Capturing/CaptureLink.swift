import SystemKit

/// The objects that connect the capture of a database with the two-way applies to the same database, in one process.
package struct CaptureLink: Sendable {
  /// PostgreSQL: the object by which an apply waits until the trail has all earlier commits of the database. Nil for
  /// SQLite, where an apply reads the journal instead.
  package let watch: LocalWatch?
  /// The lock that keeps capture from reading rows for a copy while a two-way apply writes a group.
  ///
  /// Capture holds it as a reader, from the snapshot of a chunk until the chunk is durable in the trail. Each apply
  /// holds it as a writer, from the begin of a group until its commit. So rows are copied either before a group, and
  /// are then durable in the trail, or after the group's commit. If copies of a row travel in both directions, each
  /// node can see which copy is newer.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
