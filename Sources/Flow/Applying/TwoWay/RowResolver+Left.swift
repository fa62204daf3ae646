import Changes
import Conflicts
import Versions

// Deleted rows that are still in their tables only because other rows referenced them.
extension RowResolver {
  /// Deletes the rows that the present transaction's rows no longer reference, if only that kept them from being
  /// deleted.
  ///
  /// The author of their delete knew that the referencing rows were gone. That change arrives here later, by the present
  /// transaction.
  func removeLeft() throws {
    var open = try desk.leftRows.flatMap { try desk.rows(of: $0) }
    var met: Set<KeyedRow> = []
    while let row = open.popLast() {
      if met.insert(row).inserted { open += try removeIfDeleted(row) }
    }
  }

  /// Deletes a row if its versions say so and no row references it. Returns the rows that it referenced; empty if
  /// nothing was deleted.
  private func removeIfDeleted(_ keyed: KeyedRow) throws -> [KeyedRow] {
    let versions = try desk.others(keyed)
    guard versions.contains(where: { $0.after == nil }), let last = versions.last,
      let table = try target.table(like: last.schema)
    else { return [] }
    let form = target.form(of: table)
    let key = try form.key(last)
    guard let local = try target.row(key, of: table) else { return [] }
    // An application may have written the row, or a reference to it, in a commit that capture has not read.
    try desk.watch([keyed.name, keyed.name.reference])
    let history = RowHistory(try versions.filter { try form.isSame(key, form.key($0)) }.map(form.version))
    let columns = table.columnNames
    let rules = try desk.rules(table.shape.plainName, columns)
    let resolved = try ResolvedRow.row(history, rules, columns: columns) { version in
      try desk.counts(version, of: keyed, in: table.shape)
    }
    guard resolved == nil, try !target.isReferred(local, key: key, of: table) else { return [] }
    _ = try target.put(nil, key, in: table)
    return try desk.parents(of: last, last.before ?? []).flatMap { try desk.rows(of: $0) }
  }
}
