import Changes
import Conflicts
import Trails

/// Reads row versions from trails. A reader caches parts of trails, so use one reader for many versions. Not
/// thread-safe.
///
///     let reader = VersionReader(seen: window.seen)
package final class VersionReader {
  private var trails: [String: TransactionLookup] = [:]

  /// Returns, for each trail, the last transaction that the author of a given transaction knew.
  private let seen: (TransactionHeader) -> [String: UInt64]

  /// Creates a reader.
  /// - Parameter indexedChangesMin: A transaction with at least this many changes is copied to a temporary file if it
  ///   is read repeatedly.
  /// - Parameter seen: Returns, for each trail, the last transaction that the author of a transaction knew. The result
  ///   must leave out trails that were replaced by a new trail of the same name.
  package init(indexedChangesMin: Int = 200, seen: @escaping (TransactionHeader) -> [String: UInt64]) {
    (self.indexedChangesMin, self.seen) = (indexedChangesMin, seen)
  }

  private struct Reads {
    var count = 0
    var changes = 0
    var seen: [String: UInt64] = [:]
    /// The rows of the transaction; nil unless the transaction is large and was read repeatedly.
    var rows: TransactionRows?
    var lastUse = 0
  }

  private struct Transaction: Hashable {
    let folder: NameKey
    let place: VersionPlace
  }

  private var reads: [Transaction: Reads] = [:]
  private var useCount = 0
  private let indexedChangesMin: Int
  /// The maximum number of temporary files at one time.
  private static let filesMax = 4
  private static let readsMax = 1000

  /// Forgets all cached transactions. Call this before the row names of changes are computed in another way.
  package func forgetTransactions() { reads.removeAll() }

  /// Returns the versions that one transaction gave to the rows with one row name. Several rows may share a row name (a
  /// hash). The result is empty if the transaction did not change such a row.
  /// - Parameter rowNames: Returns the row names of a change. If the change alters the key, the old row comes first.
  ///   The function must depend on nothing but the change.
  /// - Throws: `checkpoint-foreign` if the trail does not have the transaction at the given position.
  package func read(
    _ row: RowName, at place: VersionPlace, folder: String,
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws -> [StoredVersion] {
    let key = Transaction(folder: folder.nameKey, place: place)
    var known = reads[key] ?? Reads()
    useCount += 1
    (known.count, known.lastUse) = (known.count + 1, useCount)
    var folds: [VersionFold] = []
    if let rows = known.rows {
      try rows.forEach(row) { step, schema in Self.add(step, schema, to: &folds) }
    } else {
      let rows = known.count > 2 && known.changes >= indexedChangesMin ? try TransactionRows() : nil
      known.changes = 0
      try lookup(folder).read(at: place.begin) { record, schema in
        switch record {
        case .begin(let header):
          guard header.number == place.stamp.number else { throw Self.missing(place, header) }
          known.seen = self.seen(header)
        case .change(let change) where change.operation != .truncate:
          known.changes += 1
          guard let schema else { return }
          let names = try rowNames(schema, change)
          try rows?.add(change, schema, names)
          guard names.contains(row) else { return }
          for step in try VersionFold.Step.all(change, schema, names, row) {
            Self.add(step, schema, to: &folds)
          }
        default: break
        }
      }
      known.rows = rows
      if rows != nil { makeRoomForFile() }
    }
    if reads.count >= Self.readsMax, reads[key] == nil { reads = reads.filter { $0.value.rows != nil } }
    reads[key] = known
    return folds.filter { $0.before != nil || $0.after != nil }.map {
      StoredVersion(
        stamp: place.stamp, seen: known.seen, schema: $0.schema, before: $0.before, after: $0.after)
    }
  }

  private func makeRoomForFile() {
    guard fileCount >= Self.filesMax else { return }
    let oldest = reads.filter { $0.value.rows != nil }.min { $0.value.lastUse < $1.value.lastUse }
    if let oldest { reads[oldest.key] = nil }
  }

  var fileCount: Int { reads.values.count { $0.rows != nil } }

  private func lookup(_ folder: String) -> TransactionLookup {
    let trail = trails[folder] ?? TransactionLookup(folder: folder)
    trails[folder] = trail
    return trail
  }

  /// Calls `body` with every row change of one transaction, except TRUNCATE. A row of a refresh comes as an insert.
  package func forEachRow(
    at place: VersionPlace, folder: String, _ body: (TableSchema, ChangeView, _ isCopied: Bool) throws -> Void
  ) throws {
    try lookup(folder).read(at: place.begin) { record, schema in
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
