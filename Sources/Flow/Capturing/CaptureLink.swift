import SystemKit

/// The objects that connect the capture of a database with the two-way applies to the same database, in one process.
package struct CaptureLink: Sendable {
  /// For PostgreSQL: the object through which an apply learns that the trail has everything committed before a moment.
  /// Nil for SQLite, whose journal shows it.
  package let watch: LocalWatch?
  /// The lock that keeps capture from reading rows for a copy while a two-way apply writes a group.
  ///
  /// Capture is the reader: it holds the lock from the snapshot of a chunk until the chunk is durable in the trail.
  /// Each apply is a writer: it holds the lock from the begin of a group until its commit. So when an apply writes a
  /// row, it knows all copies of the row that were read before. Every copy that is read afterwards shows the written
  /// row. If copies of a row travel in both directions, each node sees which copy is newer.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
