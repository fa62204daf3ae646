import Changes
import Conflicts
import Versions

/// A row that may have the same unique value as another row of its table.
struct ContestedRow: Hashable {
  /// PostgreSQL: the schema (namespace) of the row's table; empty in SQLite.
  var namespace: String
  var table: String
  var key: ConflictRow
  var row: ConflictRow

  static func == (a: ContestedRow, b: ContestedRow) -> Bool {
    a.key == b.key && a.table.hasSameBytes(as: b.table) && a.namespace.hasSameBytes(as: b.namespace)
  }

  func hash(into hasher: inout Hasher) { hasher.combine(name.hash) }

  /// The name of the row's table in messages.
  var fullName: String { namespace.isEmpty ? table : "\(namespace).\(table)" }
  /// The row's name in ``VersionWindow``, which lists the recent versions of each row.
  var name: RowName { name(of: fullName) }
  /// The name under which ``VersionWindow`` lists those versions of the row that came with a copy of its table. It
  /// lists all other versions under ``name``.
  var copied: RowName { name(of: RowNames.copied(fullName)) }
  var keyed: KeyedRow { KeyedRow(name, values) }

  /// Returns the rank of the row among the rows that have the same unique value. The rank is the same at every node,
  /// even if the table has another name there.
  func rank(_ stamp: Stamp) -> UniqueRank {
    let row = KeyedRow(name(of: ""), values)
    return UniqueRank(stamp, tie: row.name.hash, spelling: row.isLoose ? row.spelling : [])
  }

  private var values: [Value] { key.columns.sorted { $0.name.sqliteKey < $1.name.sqliteKey }.map(\.value) }

  private func name(of table: String) -> RowName { RowName(table: table, key: values) }

  func record(
    against other: ContestedRow, _ stamp: Stamp?, isOurs: Bool, _ place: VersionPlace, of trail: TrailName, now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: ConflictRules.Rule.newest.text, namespace: namespace, table: table,
      key: key,
      local: other.row, incoming: row, before: nil, settled: isOurs ? row : other.row,
      winner: isOurs ? .incoming : .local, other: stamp)
  }
}

/// A waiting row: it is kept outside its table because another row, which was written later, has one of its unique
/// values.
///
/// The row is written to its table when that value is free. So all nodes end up with the same rows, in whatever order
/// writes arrive.
///
/// The target stores candidates in `cairn_candidate` (SQLite) or `cairn.candidate` (PostgreSQL).
struct Candidate {
  var row: ContestedRow
  /// The stamp (clock, origin and number) of the last version of the row.
  var stamp: Stamp
  /// The keys of rows of lower rank that have one of this row's unique values. They stay in the table because a third
  /// row, of higher rank, keeps this row out of it.
  var earlier: [ConflictRow] = []

  init(_ row: ContestedRow, _ stamp: Stamp, earlier: [ConflictRow] = []) {
    (self.row, self.stamp, self.earlier) = (row, stamp, earlier)
  }

  init(_ table: TableSchema, key: [Value], row: [Value?], stamp: Stamp) {
    let names = table.columns.map(\.name)
    self.row = ContestedRow(
      namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
      row: ConflictRow(names, row))
    self.stamp = stamp
  }

  static let columns = "schema_name, table_name, key, content, clock, origin, number, earlier"
  /// The SET clause of the upsert that stores a waiting row again. It leaves out the column `since`, so the time when
  /// the wait began is kept.
  static let renewal = """
    content = excluded.content, clock = excluded.clock, origin = excluded.origin, number = excluded.number,
      earlier = excluded.earlier
    """

  var texts: [String] {
    [
      row.namespace, row.table, row.key.json, row.row.json, String(Int64(bitPattern: stamp.clock)), stamp.origin,
      String(Int64(bitPattern: stamp.number)), earlier.map(\.json).joined(separator: "\n"),
    ]
  }

  /// Creates the waiting row from the texts of its stored entry; nil if another version of Cairn wrote them in another
  /// format.
  init?(_ texts: [String]) {
    guard texts.count == 8, let key = ConflictRow(json: texts[2]), let row = ConflictRow(json: texts[3]),
      let clock = Int64(texts[4]).flatMap(NumberBounds.clock), let number = Int64(texts[6]).flatMap(NumberBounds.number)
    else { return nil }
    self.row = ContestedRow(namespace: texts[0], table: texts[1], key: key, row: row)
    stamp = Stamp(clock: clock, origin: texts[5], number: number)
    earlier = texts[7].split(at: "\n").compactMap { ConflictRow(json: $0) }
  }

  /// Returns the row's values in the given columns of its table, in that order; NULL for an unknown value.
  func values(_ columns: [String]) -> [Value] { columns.map { row.row[$0] ?? .null } }
}

/// Access to the waiting rows of a target, and to their tables.
protocol CandidateStore {
  func all() throws -> [Candidate]
  /// Returns the waiting row with this key; nil if there is none.
  ///
  /// - Parameter namespace: PostgreSQL: the schema (namespace) of the table; empty in SQLite.
  func find(_ namespace: String, _ table: String, _ key: ConflictRow) throws -> Candidate?
  /// Returns the total size, in bytes, of the waiting rows of each trail, by the trail of their last write.
  func byteCounts() throws -> [String: Int64]
  /// Returns the number of waiting rows of each table, by table name.
  func counts() throws -> [String: Int]
  /// Returns the time at which a waiting row began to wait, in µs since 1970 UTC; nil if an older version of Cairn
  /// stored the row.
  func since(_ row: ContestedRow) throws -> Int64?
  /// Returns the rows of the table that have one of the given row's unique values. Each comes with the values that it
  /// shares with the given row. Ignores unique indexes with an expression or a WHERE clause.
  func holders(of row: ContestedRow) throws -> [WaitingRows.Holder]
  func add(_ candidate: Candidate) throws
  func remove(_ row: ContestedRow) throws
  func hasTable(of row: ContestedRow) throws -> Bool
  /// Returns whether apply may write the row's table now. Called before any row of the table is read.
  func mayWrite(_ row: ContestedRow) throws -> Bool
  /// Returns whether the row's table has a row with the same key.
  func isThere(_ row: ContestedRow) throws -> Bool
  /// Returns the other rows of the table that have one of the row's unique values, each with all of its columns.
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow]
  /// Deletes `others` and writes `row`, or does neither.
  ///
  /// - Returns: False if a constraint refuses `row` for a reason that has nothing to do with other rows.
  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool
}
