import Capturing
import Changes
import SystemKit
import Trails

/// Rows that applies wrote to a captured database before its trail took what they write.
///
/// Targets of the trail lack them, and could not follow their updates. So the tables are copied into the trail once: when
/// a chain comes from an earlier version of Cairn, or when `applied` changes to `include`.
package enum RelayedRows {
  /// The file in the folder of a trail that says that the trail takes what applies write.
  private static func path(_ folder: String) -> String { folder + "/applied" }

  /// Returns true if applies of other trails wrote to captured tables that the trail has no such rows of yet.
  package static func areMissing(
    in folder: String, of trail: TrailName, at source: DatabaseURL, _ tables: TablePatterns
  ) throws -> Bool {
    guard Trail.exists(folder: folder), !Folder.exists(path(folder)) else { return false }
    let from = try SourceEnd(source)
    guard try !from.appliedTrails().isEmpty else { return false }
    return try from.tables(tables).contains { try !from.feeders(of: $0.schema, besides: trail).isEmpty }
  }

  /// Notes whether the trail takes what applies write. A note that is lost costs another copy of the tables.
  package static func note(_ relays: Bool, in folder: String) {
    if relays {
      try? [].withUnsafeBytes { try File.replace(path(folder), with: $0) }
    } else {
      try? Folder.remove(path(folder))
    }
  }

  package static func notice(_ trail: TrailName, at source: DatabaseURL) -> String {
    "trail \(trail) takes what applies write to \(source.place) from now on: its tables are copied once"
  }
}
