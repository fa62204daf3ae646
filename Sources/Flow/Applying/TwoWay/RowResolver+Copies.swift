import Changes
import Conflicts
import Versions

// Rows of copies whose unique values other rows have, or have where the copies were read.
extension RowResolver {
  /// Decides, before a refresh chunk deletes rows, which of several rows with the same unique value is in the table.
  /// The other rows become waiting rows.
  func beginChunk(of table: Table) throws {
    guard hasCandidates, table.goesBothWays, table.isContested else { return }
    try judge()
  }

  /// Writes a refreshed row's values of those columns that `versions` do not have. All other columns keep their values.
  /// Does nothing if one of the versions is an insert or delete.
  ///
  /// - Parameter versions: Versions of the row that the refresh's author did not know.
  func merge(
    _ image: ImageView, _ schema: TableSchema, _ keyed: KeyedRow, into narrow: Table, _ versions: [StoredVersion]
  ) throws {
    // Each of these decides about the whole row.
    guard !versions.isEmpty, !versions.contains(where: { $0.before == nil || $0.after == nil }),
      narrow.existing != .keep || narrow.refreshing == .rows, try !takesRowsIn(narrow, schema)
    else { return }
    try target.flush()
    let table = try target.wide(narrow) ?? narrow
    let (form, stored) = (target.form(of: table), try desk.version(image, schema))
    let key = try form.key(stored)
    let writers = form.fitting(versions).map(\.version)
    guard let local = try target.row(key, of: table), let copied = try form.version(stored).after else { return }
    let put = copied.enumerated().map { column, value in
      writers.contains { $0.after?[column] != nil } || value == local[column] ? nil : value
    }
    guard put.contains(where: { $0 != nil }) else { return }
    let row = zip(put, local).map { $0 ?? $1 }
    try write(put, key, in: table, outcome: row) { try desk.lastStamp(keyed) }
  }

  /// Handles a refreshed row that cannot be written because another row has the same unique value.
  ///
  /// One of the two rows is deleted or becomes a waiting row.
  ///
  /// - Parameter isInPlace: Whether the refreshed row replaces the target's row with the same key.
  func takeCopied(_ row: [Value], of table: Table, isInPlace: Bool) throws {
    let key = table.shape.key.map { row[$0] }
    let replaces = isInPlace || table.existing == .overwrite
    if table.existing == .keep, !replaces, try target.row(key, of: table) != nil { return }
    _ = try target.put(nil, key, in: table)
    let candidate = try desk.ranked(DisplacedRow(table.shape, key: key, row: row, stamp: desk.place.stamp))
    if replaces {
      try target.flush()
      for other in try target.candidates.rows(inTheWayOf: candidate.row) where try !desk.contests(other) {
        _ = try target.put(nil, other.key.columns.map(\.value), in: table)
      }
      if try target.candidates.rows(inTheWayOf: candidate.row).isEmpty, try target.put(row, key, in: table) { return }
    }
    try target.attempt { try target.candidates.add(candidate) }
    displacedCopies.append(candidate.row)
    hasCandidates = true
  }

  /// Handles a row of a refresh that was a waiting row at the refresh's source. It waits here too, unless its unique
  /// values are free.
  ///
  /// - Parameter schema: The table's schema in the trail.
  func takeWaiting(_ waiting: WaitingRow, _ schema: TableSchema, _ narrow: Table) throws {
    guard narrow.goesBothWays else { return }
    guard let keyed = try desk.names.keyed(schema, waiting.image),
      let copied = try desk.names.copied(schema, waiting.image)
    else { throw Desk.keyless(schema) }
    if try desk.keepsUnmentioned(keyed, copied: copied, isContested: true) { return }
    try target.flush()
    let table = try target.wide(narrow) ?? narrow
    let (form, stored) = (target.form(of: table), try desk.version(waiting.image, schema))
    let key = try form.key(stored)
    let local = try target.row(key, of: table)
    var row = try form.version(stored).after ?? []
    let given = VersionStamp(clock: waiting.clock, origin: waiting.origin, number: waiting.number)
    func candidate() throws -> DisplacedRow {
      try desk.ranked(DisplacedRow(table.shape, key: key, row: row, stamp: min(given, desk.place.stamp)))
    }
    var fresh = try candidate()
    if local != nil {
      let isUncopied = target.mergesCopies(at: fresh.row) && desk.shared.isToBeCopied(fresh.row.fullName)
      if narrow.existing == .keep || isUncopied { return }
    }
    let known = try target.candidates.find(table.shape.namespace, table.shape.name, fresh.row.key)
    if let known, known.stamp >= fresh.stamp {
      _ = try target.put(nil, key, in: table)
      return hasCandidates = true
    }
    // Writing it first has the target check its values before it waits.
    if try target.put(row, key, in: table) { return try noteReturn(fresh.row) }
    _ = try target.put(nil, key, in: table)
    // Columns that the source lacks keep their values.
    if let local { row = zip(row, local).map { $0 ?? $1 } }
    fresh = try candidate()
    try target.attempt { try target.candidates.add(fresh) }
    if known == nil { met.append(fresh.row) }
    metTrails.insert(fresh.stamp.origin)
    hasCandidates = true
  }
}
