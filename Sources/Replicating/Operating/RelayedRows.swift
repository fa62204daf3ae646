import Capturing
import Changes
import SystemKit
import Trails

/// Finds out whether a trail lacks rows that apply workers wrote to the source. Such rows are missing if capture did
/// not send them at that time.
///
/// Targets of the trail lack these rows too, so later updates of the rows would fail there. So Cairn copies the tables
/// into the trail once. The copy is needed after an update from an earlier version of Cairn, or after `applied` was
/// changed to `include`.
package enum RelayedRows {
  /// Returns the path of a file in a trail's folder. If it exists, the trail includes the rows that apply workers write
  /// to the source.
  private static func path(_ folder: String) -> String { folder + "/applied" }

  /// Returns whether apply workers of other trails wrote rows to captured tables, and this trail does not have these
  /// rows.
  package static func areMissing(
    in folder: String, of trail: TrailName, at source: DatabaseURL, _ tables: TablePatterns
  ) throws -> Bool {
    guard Trail.exists(folder: folder), !Folder.exists(path(folder)) else { return false }
    let from = try SourceEnd(source)
    guard try !from.appliedTrails().isEmpty else { return false }
    return try from.tables(tables).contains { try !from.feeders(of: $0.schema, besides: trail).isEmpty }
  }

  /// Writes a file into the trail's folder if `relays` is true; otherwise removes the file. The file means that the
  /// trail includes rows that apply workers write to the source. If the file is lost, the tables are only copied once
  /// more.
  package static func note(_ relays: Bool, in folder: String) {
    if relays {
      try? [].withUnsafeBytes { try File.replace(path(folder), with: $0) }
    } else {
      try? Folder.remove(path(folder))
    }
  }

  package static func notice(_ trail: TrailName, at source: DatabaseURL) -> String {
    "trail \(trail) includes rows that applies write to \(source.place) from now on: its tables are copied once"
  }
}
