import Changes
import Mapping
import Versions

/// Gives a trail's rows the names that their table and columns now have in this database, if they were renamed.
///
/// Columns that were dropped in this database are removed from the rows:
///
///     here:  ALTER TABLE item RENAME COLUMN name TO title, transaction 7 of this database's trail
///     comes: item(id, name), by a node that knows this trail through transaction 6
///     is:    item(id, title)
struct ColumnsNow {
  let engine: Engine
  let names: NamePolicy
  /// The renames and drops of tables and columns. Those in this database's own trail come first, then those from
  /// applied trails.
  var steps: [ColumnStep] = []

  /// The former and the present name of a table that was renamed in this database. Another node's trail still uses the
  /// former name.
  struct Move {
    let former: ColumnStep.Table
    let now: ColumnStep.Table
  }

  /// Returns those columns of a trail's table that still exist in this database, under their present names. Nil if no
  /// name has changed, or if a key column was dropped.
  ///
  /// - Parameter known: Takes a rename or drop; returns the last transaction of its trail that the rows' author knew.
  /// - Parameter origin: The name of the trail that has the rows.
  func part(of table: TableSchema, knowing known: (ColumnStep) -> UInt64, of origin: String) -> NextFittingSchema.Part?
  {
    guard let (now, move) = changed(table, knowing: known, of: origin) else { return nil }
    let kept = now.indices.filter { now[$0] != nil }
    guard table.key.allSatisfy(kept.contains) else { return nil }
    var part = table.keeping(kept)
    part.foreignKeys = table.foreignKeys.compactMap { key in
      var moved = key
      moved.columns = key.columns.compactMap { kept.firstIndex(of: $0) }
      return moved.columns.count == key.columns.count ? moved : nil
    }
    for (index, column) in kept.enumerated() { part.columns[index].name = now[column] ?? "" }
    if let move { part = named(part, move.now) }
    return NextFittingSchema.Part(part, kept)
  }

  /// Returns both names of a trail's table that was renamed in this database. Nil if the rows' author knew the rename.
  func move(of table: TableSchema, knowing known: (ColumnStep) -> UInt64, of origin: String) -> Move? {
    changed(table, knowing: known, of: origin)?.move
  }

  /// Converts a table of a trail to this database's engine; nil if that loses a column.
  func mapped(_ table: TableSchema) -> TableSchema? {
    guard let mapped = try? TableMapping(table, to: engine, names: names).target,
      mapped.columns.count == table.columns.count
    else { return nil }
    return mapped
  }

  func named(_ table: TableSchema, _ now: ColumnStep.Table) -> TableSchema {
    var copy = table
    let isPostgres = engine == .postgres
    if table.engine == .postgres {
      (copy.namespace, copy.name) = (isPostgres ? now.namespace : "public", now.name)
    } else {
      copy.name = isPostgres ? NamePolicy.sqliteName(namespace: now.namespace, name: now.name) : now.name
    }
    if var original = copy.original {
      (original.namespace, original.name) = (isPostgres ? now.namespace : "public", now.name)
      copy.original = original
    }
    return copy
  }

  /// Returns the present names of a table and of each column (nil: dropped). Returns nil if nothing was renamed or
  /// dropped in this database.
  private func changed(
    _ table: TableSchema, knowing known: (ColumnStep) -> UInt64, of origin: String
  ) -> (names: [String?], move: Move?)? {
    let open = steps.filter { $0.number > known($0) && !$0.applied.hasSameBytes(as: origin) }
    guard !open.isEmpty, let mapped = mapped(table) else { return nil }
    var target = fold(TableMapping.targetName(of: table, in: engine, names: names))
    let first = target
    let came = mapped.columns.map { fold($0.name) }
    var now: [String?] = mapped.columns.map(\.name)
    var move: Move?
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
      if let moved = step.moved {
        target = fold(moved.fullName)
        move = target == first ? nil : Move(former: move?.former ?? step.table, now: moved)
      }
    }
    return isChanged || move != nil ? (now, move) : nil
  }

  /// Converts a version of a row to the present columns of its table in this database, after renames and drops.
  ///
  /// - Parameter own: The name of this database's own trail.
  func version(_ version: StoredVersion, own: String) -> StoredVersion {
    guard !steps.isEmpty else { return version }
    let origin = version.stamp.origin
    let part = part(
      of: version.schema,
      knowing: { step in
        let trail = step.origin.isEmpty ? own : step.origin
        return origin.hasSameBytes(as: trail) ? version.stamp.number : version.seen[trail] ?? 0
      }, of: origin)
    guard let part else { return version }
    func picked(_ row: [Value?]?) -> [Value?]? {
      row.map { row in part.positions.map { $0 < row.count ? row[$0] : nil } }
    }
    var now = version
    (now.schema, now.before, now.after) = (part.schema, picked(version.before), picked(version.after))
    return now
  }

  private func fold(_ name: String) -> NameKey { name.key(in: engine) }
}

extension ColumnsNow.Move {
  /// Returns the error for rows under a former name of a table, if another table of this database has that name now.
  func taken(_ table: TableSchema, at place: String) -> CairnError {
    CairnError(
      .schemaStopped,
      "table \(former.fullName) of \(place) is now called \(now.fullName), earlier changes have its former name, and another table has that name",
      hint: "rename or drop the other table \(former.fullName), and apply continues by itself",
      context: ["table": table.fullName])
  }

  /// Returns the error for a schema change of a table under its former name. Apply cannot make the change until the
  /// change's author has the new name.
  func unmade(_ table: TableSchema, at place: String) -> CairnError {
    CairnError(
      .schemaStopped,
      "a change of table \(former.fullName) is not applied at \(place) yet: it was renamed to \(now.fullName) here before the other end had the rename",
      hint: "nothing to do: apply continues by itself when the other end has the new name",
      context: ["table": table.fullName])
  }
}
