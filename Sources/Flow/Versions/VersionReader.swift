import Changes
import Conflicts
import Trails

/// Reads row versions from trails, by the positions of their transactions. It caches the schemas and block places of
/// segments, so use one reader for many versions. One thread uses it.
package final class VersionReader {
  /// The open trails, by the path of their folder.
  private var trails: [String: TransactionLookup] = [:]

  /// The function that returns what the author of a given transaction knew: for each trail, by name, the last known
  /// transaction of that trail.
  private let seen: (TransactionHeader) -> [String: UInt64]

  /// Creates a reader.
  ///
  /// - Parameter seen: A function such as ``VersionWindow/seen(_:)``. Its result must leave out trails that were
  ///   replaced by a new trail of the same name.
  package init(seen: @escaping (TransactionHeader) -> [String: UInt64]) { self.seen = seen }

  /// Returns the versions that the transaction at a place gave to the rows with one name (a hash). There is usually one
  /// version; more if rows share the name, none if the transaction did not change the row. Memory holds only the
  /// result, however large the transaction is.
  ///
  /// - Parameter rowNames: Returns the names of the rows that a change concerns, as for the version window. For a
  ///   changed key, the old name comes first: the change counts as a delete of one row and an insert of the other.
  /// - Throws: `checkpoint-foreign` if the trail does not have the version's transaction at that place.
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

  /// Calls `body` with every row change of the transaction at a place. A row of a table copy is passed as an insert.
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
      hint: "the trail was replaced since it was read: run 'cairn restart' for the apply",
      context: ["trail": place.stamp.origin, "position": place.begin.description])
  }
}
