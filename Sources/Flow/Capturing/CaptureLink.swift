import SystemKit

/// The objects that connect the capture of a database with the two-way applies to the same database, in one process.
package struct CaptureLink: Sendable {
  /// For PostgreSQL: the object through which an apply learns that the trail has everything committed before a moment.
  /// Nil for SQLite, whose journal shows it.
  package let watch: LocalWatch?
  /// The lock that keeps capture from reading rows for a copy while a two-way apply writes a group.
  ///
  /// Capture is the reader: it holds the lock from the snapshot of a chunk until the chunk is durable in the trail.
  /// Each apply is a writer: it holds the lock from the begin of a group until its commit. So an apply that writes a
  /// row knows every earlier copy of the row, and every later copy shows the written row. If copies of a row go both
  /// ways, each node sees which one is later.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
