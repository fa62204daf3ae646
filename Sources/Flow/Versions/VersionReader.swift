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
  /// - Parameter indexedChangesMin: The least number of changes of a transaction whose rows go into a temporary file when
  ///   it is read repeatedly.
  /// - Parameter seen: A function such as ``VersionWindow/seen(_:)``. Its result must leave out trails that were
  ///   replaced by a new trail of the same name.
  package init(indexedChangesMin: Int = 200, seen: @escaping (TransactionHeader) -> [String: UInt64]) {
    (self.indexedChangesMin, self.seen) = (indexedChangesMin, seen)
  }

  /// How often one transaction has been read, and how long it is.
  private struct Reads {
    var count = 0
    /// The number of the transaction's changes.
    var changes = 0
    /// For each trail, by name, the last transaction that this transaction's author knew.
    var seen: [String: UInt64] = [:]
    /// The rows of the transaction by name; nil unless it is long and was read repeatedly.
    var rows: TransactionRows?
    /// The number of the last reading, among all of this reader.
    var lastUse = 0
  }

  private struct Transaction: Hashable {
    let folder: NameKey
    let place: VersionPlace
  }

  /// The transactions that were read since ``forgetTransactions()``.
  private var reads: [Transaction: Reads] = [:]
  private var useCount = 0
  /// The least number of changes of a transaction whose rows go into a temporary file.
  private let indexedChangesMin: Int
  /// The most temporary files at one time.
  private static let filesMax = 4
  /// The most transactions of which the number of readings is known.
  private static let readsMax = 1000

  /// Forgets the rows of all transactions. Call this before the function `rowNames` of ``read(_:at:folder:rowNames:)``
  /// gives other names than before.
  package func forgetTransactions() { reads.removeAll() }

  /// Returns the versions that the transaction at a place gave to the rows with one name (a hash). There is usually one
  /// version; more if rows share the name, none if the transaction did not change the row. Memory holds only the
  /// result, however large the transaction is. At its third reading, a long transaction is copied to a temporary file,
  /// in which further rows are found without reading all of it.
  ///
  /// - Parameter rowNames: Returns the names of the rows that a change concerns, as for the version window. For a
  ///   changed key, the old name comes first: the change counts as a delete of one row and an insert of the other.
  ///   It is not called again for a transaction in a temporary file. So it must return the same names whichever row is
  ///   read, and have no other effect.
  /// - Throws: `checkpoint-foreign` if the trail does not have the version's transaction at that place.
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

  /// If there are as many temporary files as allowed, deletes the one that was not used for the longest time.
  private func makeRoomForFile() {
    guard fileCount >= Self.filesMax else { return }
    let oldest = reads.filter { $0.value.rows != nil }.min { $0.value.lastUse < $1.value.lastUse }
    if let oldest { reads[oldest.key] = nil }
  }

  /// The number of transactions whose rows are in temporary files now.
  var fileCount: Int { reads.values.count { $0.rows != nil } }

  private func lookup(_ folder: String) -> TransactionLookup {
    let trail = trails[folder] ?? TransactionLookup(folder: folder)
    trails[folder] = trail
    return trail
  }

  /// Calls `body` with every row change of the transaction at a place. A row of a table copy is passed as an insert.
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
