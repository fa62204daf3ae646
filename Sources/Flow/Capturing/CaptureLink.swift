import SystemKit

/// The objects that connect the capture of a database with the two-way apply workers of the same database, in one
/// process.
package struct CaptureLink: Sendable {
  /// PostgreSQL: the object by which an apply waits until the trail has all commits that the database has at that
  /// moment. Nil for SQLite, where an apply reads the journal instead.
  package let watch: LocalWatch?
  /// The lock that keeps capture from reading rows for a copy while a two-way apply writes a group.
  ///
  /// Capture holds it as a reader, from the snapshot of a chunk until the chunk is durable in the trail. Each apply
  /// holds it as a writer, from the begin of a group until its commit. So a chunk is read and made durable before a
  /// group begins, or is read after the group's commit.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
