import SystemKit

/// The objects that connect the capture of a database with the two-way applies to the same database, in one process.
package struct CaptureLink: Sendable {
  /// PostgreSQL: informs applies of the progress of the trail. Nil for SQLite, whose journal has the same facts.
  package let watch: LocalWatch?
  /// Keeps the reading of copies and the groups of applies apart.
  ///
  /// Capture is the reader, from the snapshot of a chunk until the chunk is durable in the trail. The applies are the
  /// writer, from the begin of a group until its commit. So whoever writes a row knows every copy of it that was read
  /// before, and every copy that is read later shows what was written: of a copy that comes from another node and one
  /// that goes there, each node sees which is the later one.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
