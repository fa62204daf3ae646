import Changes
import Conflicts
import Trails

/// Reads versions where they stand in trails. It keeps what it has learnt of their segments, so that one reader for many
/// versions costs little for each; one thread uses it.
package final class VersionReader {
  /// By folder.
  private var trails: [String: TransactionLookup] = [:]

  /// What the author of a transaction knew, by the names of trails.
  private let seen: (TransactionHeader) -> [String: UInt64]

  /// - Parameter seen: as ``VersionWindow/seen(_:)``, which leaves out what was known of trails that were begun again.
  package init(seen: @escaping (TransactionHeader) -> [String: UInt64]) { self.seen = seen }

  /// What the transaction at a place made of a row: one version for each row of that name, which is one unless two rows
  /// share it, and none where it made nothing of it. In memory is only what it returns, however large the transaction is.
  ///
  /// `rowNames`: as the window got it; of a change of the key the name before comes first. Such a change is a delete of
  /// one row and an insert of the other. Throws `.checkpointForeign` where the version is not there.
  package func read(
    _ row: RowName, at place: VersionPlace, folder: String,
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws -> [StoredVersion] {
    let trail = trails[folder] ?? TransactionLookup(folder: folder)
    trails[folder] = trail
    var seen: [String: UInt64] = [:]
    var folds: [VersionFold] = []
    try trail.read(at: place.begin) { record, schema in
      switch record {
      case .begin(let header):
        guard header.number == place.stamp.number else { throw Self.missing(place, header) }
        seen = self.seen(header)
      case .change(let change) where change.operation != .truncate:
        guard let schema else { return }
        let names = try rowNames(schema, change)
        guard names.contains(row) else { return }
        for step in try VersionFold.Step.all(change, schema, names, row) {
          Self.add(step, schema, to: &folds)
        }
      default: break
      }
    }
    return folds.filter { $0.before != nil || $0.after != nil }.map {
      StoredVersion(
        stamp: place.stamp, seen: seen, schema: $0.schema, before: $0.before, after: $0.after)
    }
  }

  /// Passes every row of a transaction to `body`: what was done to it, or as an insert what a copy brings.
  package func forEachRow(
    at place: VersionPlace, folder: String, _ body: (TableSchema, ChangeView, _ isCopied: Bool) throws -> Void
  ) throws {
    let trail = trails[folder] ?? TransactionLookup(folder: folder)
    trails[folder] = trail
    try trail.read(at: place.begin) { record, schema in
      switch record {
      case .begin(let header):
        guard header.number == place.stamp.number else { throw Self.missing(place, header) }
      case .change(let change) where change.operation != .truncate:
        if let schema { try body(schema, change, false) }
      case .refreshRow(let id, let image):
        if let schema { try body(schema, ChangeView(.insert, schemaID: id, after: image, treatment: .copied), true) }
      default: break
      }
    }
  }

  private static func add(
    _ step: VersionFold.Step, _ schema: TableSchema, to folds: inout [VersionFold]
  ) {
    if let index = folds.firstIndex(where: { $0.isSameRow(step, schema) }) {
      folds[index].add(step, schema)
    } else {
      folds.append(VersionFold(step, schema))
    }
  }

  private static func missing(_ place: VersionPlace, _ header: TransactionHeader) -> CairnError {
    CairnError(
      .checkpointForeign,
      "transaction \(place.stamp.number) of trail \(place.stamp.origin) is not at \(place.begin): number \(header.number) is there",
      hint: "the trail was replaced since it was read: restart the apply",
      context: ["trail": place.stamp.origin, "position": place.begin.description])
  }
}
