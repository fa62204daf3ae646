import Changes
import Conflicts
import Versions

// Rows that the present transaction does not change: they are resolved again from their known versions.
extension RowResolver {
  /// A row, its table at the target, and the versions of the row that fit the table.
  struct KnownRow {
    let table: Table
    let key: [Value]
    let versions: [RowVersion]
    let last: StoredVersion
  }

  /// Opens the table of a row. Nil if the target has no such table, or if no version fits the table.
  ///
  /// - Parameter stored: The versions of the row. The trails that have them describe the table, too, but apply does not
  ///   rely on that: see ``RowForm/fitting(_:)``.
  func known(_ stored: [StoredVersion]) throws -> KnownRow? {
    var names: Set<NameKey> = []
    for one in stored.reversed() where names.insert(one.schema.fullName.nameKey).inserted {
      guard let table = try target.table(like: one.schema) else { continue }
      let form = target.form(of: table)
      let fitting = form.fitting(stored)
      guard let last = fitting.last else { continue }
      let versions = fitting.filter { form.isSame(last.key, $0.key) }.map(\.version)
      return KnownRow(table: table, key: last.key, versions: versions, last: last.stored)
    }
    return nil
  }

  /// Writes a deleted row again because a row references it. Returns the rows that the restored row references; empty
  /// if nothing was written.
  ///
  /// - Parameter isReferred: Whether the present transaction references the row. If not, only a missing row is written.
  func bringBack(_ keyed: KeyedRow, _ versions: [StoredVersion], isReferred: Bool) throws -> [KeyedRow] {
    guard let known = try known(versions) else { return [] }
    let (table, key) = (known.table, known.key)
    let local = try target.row(key, of: table)
    let history = RowHistory(known.versions)
    if local != nil, !isReferred || !history.versions.contains(where: \.isDelete) { return [] }
    let columns = table.columnNames
    let rules = try desk.rules(table.shape.plainName, columns)
    let resolved = try ResolvedRow.row(history, rules, columns: columns) { version in
      try isReferred ? desk.counts(version, of: keyed, in: table.shape) : !version.isDelete
    }
    guard let row = resolved, !row.isAll(of: local) else { return [] }
    try ResolvedRow.checkWhole(row, history, table.shape, key)
    try write(row, key, in: table, outcome: row) { try desk.lastStamp(keyed) }
    try target.log(
      ResolvedRow.returned(
        row, local: local, desk.place, of: trail, table.shape, key: key, now: clock.microseconds()))
    let last = known.last
    return try desk.parents(of: last, last.after ?? last.before ?? []).flatMap { try desk.rows(of: $0) }
  }

  /// Deletes a row if its versions say so and no row references it. Returns the rows that it referenced; empty if
  /// nothing was deleted.
  func removeIfDeleted(_ keyed: KeyedRow) throws -> [KeyedRow] {
    let stored = try desk.others(keyed)
    guard stored.contains(where: { $0.after == nil }), let known = try known(stored) else { return [] }
    let (table, key) = (known.table, known.key)
    guard let local = try target.row(key, of: table) else { return [] }
    // An application may have written the row, or a reference to it, in a commit that capture has not read.
    try desk.watch([keyed.name, keyed.name.reference])
    let columns = table.columnNames
    let rules = try desk.rules(table.shape.plainName, columns)
    let resolved = try ResolvedRow.row(RowHistory(known.versions), rules, columns: columns) { version in
      try desk.counts(version, of: keyed, in: table.shape)
    }
    guard resolved == nil, try !target.isReferred(local, key: key, of: table) else { return [] }
    _ = try target.put(nil, key, in: table)
    // The last version need not be a delete: a rule may prefer an earlier one.
    let rows = stored.filter { $0.after == nil || $0.stamp == known.last.stamp }
    return try rows.flatMap { one in
      try desk.parents(of: one, one.after ?? one.before ?? []).flatMap { try desk.rows(of: $0) }
    }
  }

  /// Returns whether a waiting row has been written or deleted since it began to wait.
  func renewed(_ candidate: DisplacedRow) throws -> DisplacedRowContest<Target.Displaced>.Renewal {
    guard let stored = try desk.versions(of: candidate) else { return .open }
    let key = candidate.row.key.columns.map(\.value)
    guard let known = try known(stored) else { return .asItWas }
    let (table, form) = (known.table, target.form(of: known.table))
    let columns = table.columnNames
    let versions = form.fitting(stored).filter { form.isSame(key, $0.key) }.map(\.version)
    guard !versions.isEmpty else { return .asItWas }
    let resolved = try ResolvedRow(
      versions, local: candidate.values(columns), try desk.rules(table.shape.plainName, columns), columns: columns
    ) { try desk.counts($0, of: candidate.row.keyed, in: table.shape) }
    guard let row = resolved.outcome else { return .gone }
    let renewed = DisplacedRow(
      table.shape, key: key, row: row, stamp: try resolved.stamp ?? desk.lastStamp(candidate.row.keyed))
    let isSame = renewed.values(columns) == candidate.values(columns) && renewed.stamp == candidate.stamp
    return isSame ? .asItWas : .later(renewed)
  }
}
