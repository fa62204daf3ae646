import Changes
import Conflicts
import Trails

/// Reads versions where they stand in a trail.
package struct VersionReader {
  /// What the transaction at a place made of a row: one version for each row of that name, which is one unless two rows
  /// share it. In memory is only what it returns, however large the transaction is.
  ///
  /// `rowNames`: as the window got it; of a change of the key the name before comes first. Such a change is a delete of
  /// one row and an insert of the other. None: the transaction has nothing of the row.
  package static func read(
    _ row: RowName, at place: VersionPlace, folder: String,
    rowNames: (TableSchema, ChangeView) throws -> [RowName]
  ) throws -> [StoredVersion] {
    let start = try Trail.segmentStart(folder: folder, of: place.stamp.number)
    let reader = try TrailReader.open(folder: folder, at: start)
    var seen: [String: UInt64] = [:]
    var folds: [VersionFold] = []
    var isThere = false
    while let record = try reader.next() {
      switch record {
      case .begin(let header) where header.number == place.stamp.number:
        isThere = true
        for one in header.dependencies { seen[one.origin] = one.number }
      case .change(let change) where isThere && change.operation != .truncate:
        guard let schema = reader.schema(change.schemaID) else { break }
        let names = try rowNames(schema, change)
        guard names.contains(row) else { break }
        for step in try steps(change, schema, names, row) { add(step, schema, to: &folds) }
      case .commit where isThere:
        return folds.filter { $0.before != nil || $0.after != nil }.map {
          StoredVersion(stamp: place.stamp, seen: seen, schema: $0.schema, before: $0.before, after: $0.after)
        }
      default: break
      }
    }
    throw CairnError(
      .checkpointForeign,
      "transaction \(place.stamp.number) of trail \(place.stamp.origin) at \(place.begin) is not there",
      hint: "a version that is in conflict stands there; restart the apply, and refresh the target if this comes again",
      context: ["trail": place.stamp.origin, "position": place.begin.description])
  }

  /// How the row sees a change: two steps where it has the name of both rows of a change of the key.
  private static func steps(_ change: ChangeView, _ schema: TableSchema, _ names: [RowName], _ row: RowName) throws
    -> [VersionFold.Step]
  {
    var before = try change.before?.values()
    var after = try change.after?.values()
    if let before, let new = after { after = zip(before, new).map { $1 ?? $0 } }
    if change.operation == .update, before == nil {
      // The source does not say what the row was, but that it was there.
      let key = Set(schema.key)
      before = after?.enumerated().map { key.contains($0.offset) ? $0.element : nil }
    }
    guard names.count > 1 else { return [.init(before: before, after: after)] }
    var steps: [VersionFold.Step] = []
    if names[0] == row { steps.append(.init(before: before, after: nil)) }
    if names[1] == row { steps.append(.init(before: nil, after: after)) }
    return steps
  }

  private static func add(_ step: VersionFold.Step, _ schema: TableSchema, to folds: inout [VersionFold]) {
    if let index = folds.firstIndex(where: { $0.isSameRow(step, schema) }) {
      folds[index].add(step, schema)
    } else {
      folds.append(VersionFold(step, schema))
    }
  }
}
