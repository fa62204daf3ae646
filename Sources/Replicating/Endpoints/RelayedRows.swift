import Capturing
import Changes
import SystemKit
import Trails

/// Finds out whether a trail lacks rows that apply workers wrote to the source. If so, Cairn starts one refresh of the
/// captured tables.
package enum RelayedRows {
  private static func path(_ folder: String) -> String { folder + "/applied" }

  /// Returns whether apply workers of other trails wrote rows to captured tables that this trail lacks.
  package static func areMissing(
    in folder: String, of trail: TrailName, at source: DatabaseURL, _ tables: TablePatterns
  ) throws -> Bool {
    guard Trail.exists(folder: folder), !Folder.exists(path(folder)) else { return false }
    let from = try SourceDatabase(source)
    guard try !from.appliedTrails().isEmpty else { return false }
    return try from.tables(tables, passesLocked: true).contains {
      try !from.feeders(of: $0.schema, besides: trail).isEmpty
    }
  }

  /// Writes or removes the file which says that the trail includes rows that apply workers write to the source.
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
