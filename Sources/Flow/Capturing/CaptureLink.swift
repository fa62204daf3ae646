import SystemKit

/// The objects that the capture of a database shares with the two-way apply workers of the same database.
///
///     let link = CaptureLink(try DatabaseURL("sqlite:shop.db"))
package struct CaptureLink: Sendable {
  /// Lets an apply wait until the trail has all commits that the PostgreSQL database had when the wait began. Nil for
  /// SQLite.
  package let watch: LocalWatch?
  /// The lock that keeps capture from reading rows of a table while a two-way apply writes a group. Capture holds it as
  /// a reader until the rows are durable in the trail; apply holds it as a writer until the commit.
  package let turns = AlternatingLock()

  package init(watch: LocalWatch?) { self.watch = watch }
}
