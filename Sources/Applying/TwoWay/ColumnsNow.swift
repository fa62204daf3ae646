import Changes
import Mapping
import Versions

/// The columns of rows that were written before their author knew that a column was renamed or dropped here.
///
/// Such rows come under the names that the columns have now, and without the columns that are gone:
///
///     here:  ALTER TABLE item RENAME COLUMN name TO title, transaction 7 of the own trail
///     comes: item(id, name), by a node that knows the own trail through transaction 6
///     is:    item(id, title)
struct ColumnsNow {
  let engine: Engine
  let names: NamePolicy
  /// The renamed and dropped columns, in the order of the own trail.
  var steps: [ColumnStep] = []

  /// Returns the part of a table that is still here, with the names of now; nil if it is the table as it came.
  ///
  /// - Parameter known: the last transaction of the own trail that the author of the rows knew.
  /// - Parameter origin: the trail that brings the rows.
  func part(of table: TableSchema, knowing known: UInt64, of origin: String) -> LaterShape.Part? {
    let open = steps.filter { $0.number > known && !$0.applied.hasSameBytes(as: origin) }
    guard !open.isEmpty, let mapped = try? TableMapping(table, to: engine, names: names).target,
      mapped.columns.count == table.columns.count
    else { return nil }
    let target = fold(TableMapping.targetName(of: table, in: engine, names: names))
    let came = mapped.columns.map { fold($0.name) }
    var now: [String?] = mapped.columns.map(\.name)
    var isChanged = false
    for step in open where fold(step.table.fullName) == target {
      let held = now.map { $0.map(fold) }
      for (old, new) in step.names {
        guard let index = held.firstIndex(where: { $0 == fold(old.text) }) else { continue }
        // If another apply made this change, the author may know it too: then its rows have the new name.
        if !step.applied.isEmpty, let new, came.contains(where: { $0 == fold(new) }) { continue }
        now[index] = new
        isChanged = true
      }
    }
    guard isChanged else { return nil }
    let kept = now.indices.filter { now[$0] != nil }
    guard table.key.allSatisfy(kept.contains) else { return nil }
    var part = table.keeping(kept)
    part.foreignKeys = table.foreignKeys.compactMap { key in
      var moved = key
      moved.columns = key.columns.compactMap { kept.firstIndex(of: $0) }
      return moved.columns.count == key.columns.count ? moved : nil
    }
    for (index, column) in kept.enumerated() { part.columns[index].name = now[column] ?? "" }
    return LaterShape.Part(part, kept)
  }

  /// Returns a version of a row as it would be if its author had known the columns of now.
  ///
  /// - Parameter own: the name of the own trail.
  func version(_ version: StoredVersion, own: String) -> StoredVersion {
    guard !steps.isEmpty else { return version }
    let (origin, seen) = (version.stamp.origin, version.seen[own] ?? 0)
    let known = origin.hasSameBytes(as: own) ? version.stamp.number : seen
    guard let part = part(of: version.schema, knowing: known, of: origin) else { return version }
    func picked(_ row: [Value?]?) -> [Value?]? {
      row.map { row in part.positions.map { $0 < row.count ? row[$0] : nil } }
    }
    var now = version
    (now.schema, now.before, now.after) = (part.schema, picked(version.before), picked(version.after))
    return now
  }

  private func fold(_ name: String) -> NameKey { name.key(in: engine) }
}
