import Changes
import Conflicts
import Versions

/// The rows of other tables that a transaction concerns, because of foreign keys.
struct ReferencedRows {
  /// The rows that the transaction references and that have versions unknown to its author.
  var needed: [RowName] = []
  /// The rows that rows of the transaction referenced before and reference no more.
  var left: [RowNames.Parent] = []

  var isEmpty: Bool { needed.isEmpty && left.isEmpty }

  /// Notes that a transaction deletes, moves or changes a row that referenced other rows.
  mutating func leave(
    _ schema: TableSchema, _ change: ChangeView, from admitted: AdmittedRows?, _ names: RowNames,
    _ window: UnstableVersions, _ place: VersionPlace
  ) throws {
    let before = try names.left(schema, change, from: admitted, withUpdates: true)
    guard !before.isEmpty else { return }
    for parent in try names.left(schema, change, from: admitted) { try window.note(parent.name.leavers, place) }
    if try before.contains(where: { try !window.versions($0.name).isEmpty }) {
      left += try names.left(schema, change, from: admitted, withKeys: true, withUpdates: true)
    }
  }

  mutating func removeAll() {
    needed.removeAll(keepingCapacity: true)
    left.removeAll(keepingCapacity: true)
  }
}

// Whether a delete has effect although another node referenced the row.
extension TwoWaySession {
  /// Returns whether a version of a row has effect. Always true for inserts and updates.
  ///
  /// A delete has no effect if a transaction of another node referenced the row, and neither author knew the other's
  /// transaction.
  func counts(_ version: RowVersion, of row: KeyedRow, in table: TableSchema) throws -> Bool {
    guard version.isDelete, shared.window.mayBeReferred(beside: version.stamp, seen: version.seen) else { return true }
    return try !isNeeded([row] + names.keyedAlternates(table, version.before ?? []), beside: version)
  }

  /// Returns whether another node referenced one of `rows`, or a deleted row that referenced them, concurrently with
  /// `delete`. Concurrent means that neither author knew the other's transaction.
  private func isNeeded(_ rows: [KeyedRow], beside delete: RowVersion) throws -> Bool {
    var (open, met) = (rows, Set(rows))
    while let row = open.popLast() {
      if try isReferred(row, beside: delete) { return true }
      for place in try places(row.name.leavers) {
        for left in try leavers(at: place)[row.name, default: []] where row.isSameKey(left.parent) {
          for other in left.rows where met.insert(other).inserted { open.append(other) }
        }
      }
    }
    return false
  }

  private func isReferred(_ row: KeyedRow, beside delete: RowVersion) throws -> Bool {
    guard row.isLoose else { return try shared.window.isReferred(row.name, beside: delete.stamp, seen: delete.seen) }
    return try shared.window.references(to: row.name, beside: delete.stamp, seen: delete.seen).contains {
      try referred(at: $0)[row.name, default: []].contains(where: row.isSameKey)
    }
  }

  /// Returns the keys of the rows that a transaction referenced, by the rows' names.
  private func referred(at place: VersionPlace) throws -> [RowName: Set<[Value]>] {
    if let known = referred[place.stamp] { return known }
    var found: [RowName: Set<[Value]>] = [:]
    try forEachRow(at: place) { schema, change, isCopied in
      guard !isCopied else { return }
      for parent in try names.parents(schema, change, from: admittedRows(of: place.stamp.origin), withKeys: true) {
        found[parent.name, default: []].insert(parent.key)
      }
    }
    if referred.count >= 4 { referred.removeAll() }
    referred[place.stamp] = found
    return found
  }

  /// Returns the rows that a transaction deleted or gave another key, grouped by the rows that they referenced before.
  private func leavers(at place: VersionPlace) throws -> [RowName: [(parent: [Value], rows: [KeyedRow])]] {
    if let known = leavers[place.stamp] { return known }
    var found: [RowName: [(parent: [Value], rows: [KeyedRow])]] = [:]
    try forEachRow(at: place) { schema, change, isCopied in
      guard !isCopied else { return }
      let parents = try names.left(schema, change, from: admittedRows(of: place.stamp.origin), withKeys: true)
      guard !parents.isEmpty else { return }
      let rows = try names.keyed(schema, change).prefix(1) + names.keyedAlternates(schema, change)
      for parent in parents { found[parent.name, default: []].append((parent.key, Array(rows))) }
    }
    if leavers.count >= 16 { leavers.removeAll() }
    leavers[place.stamp] = found
    return found
  }
}
