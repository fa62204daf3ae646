import Changes
import CodecKit
import Conflicts
import Versions

/// A row that may have the same unique value as another row of its table.
struct ContestedRow: Hashable {
  var namespace: String
  var table: String
  var key: ConflictRow
  var row: ConflictRow

  static func == (a: ContestedRow, b: ContestedRow) -> Bool {
    a.key == b.key && a.table.hasSameBytes(as: b.table) && a.namespace.hasSameBytes(as: b.namespace)
  }

  func hash(into hasher: inout Hasher) { hasher.combine(name.hash) }

  var fullName: String { namespace.isEmpty ? table : "\(namespace).\(table)" }
  /// The row's name in the version window, which lists the recent versions of each row.
  var name: RowName { name(of: fullName) }
  /// The name under which the version window lists versions of the row from refreshes of its table.
  var copied: RowName { name(of: RowNames.copied(fullName)) }
  var keyed: KeyedRow { KeyedRow(name, values) }

  /// Returns the rank of the row among the rows with the same unique value. The rank is the same at every node.
  func rank(_ stamp: VersionStamp) -> UniqueRank {
    let row = KeyedRow(name(of: ""), values)
    return UniqueRank(stamp, tie: row.name.hash, spelling: row.isLoose ? row.spelling : [])
  }

  private var values: [Value] { key.columns.sorted { $0.name.sqliteKey < $1.name.sqliteKey }.map(\.value) }

  private func name(of table: String) -> RowName { RowName(table: table, key: values) }

  func record(
    against other: ContestedRow, _ stamp: VersionStamp?, isOurs: Bool, _ place: VersionPlace, of trail: TrailName,
    now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: ConflictRules.Rule.newest.text, namespace: namespace, table: table,
      key: key,
      local: other.row, incoming: row, before: nil, settled: isOurs ? row : other.row,
      winner: isOurs ? .incoming : .local, other: stamp)
  }
}

/// A waiting row: it is kept outside its table because another row, written later, has one of its unique values.
///
/// Stored in `cairn_candidate` (SQLite) or `cairn.candidate` (PostgreSQL).
struct DisplacedRow {
  var row: ContestedRow
  /// The stamp (clock, origin and number) of the last version of the row.
  var stamp: VersionStamp
  /// The marks of rows of lower rank that have one of this row's unique values.
  var earlier: [RowMark] = []

  init(_ row: ContestedRow, _ stamp: VersionStamp, earlier: [RowMark] = []) {
    (self.row, self.stamp, self.earlier) = (row, stamp, earlier)
  }

  init(_ table: TableSchema, key: [Value], row: [Value?], stamp: VersionStamp) {
    let names = table.columns.map(\.name)
    self.row = ContestedRow(
      namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
      row: ConflictRow(names, row))
    self.stamp = stamp
  }

  /// The name of the table of waiting rows, as ``StateDatabase`` takes it.
  static let stored = "candidate"
  static let columnNames = ["schema_name", "table_name", "key", "content", "clock", "origin", "number", "earlier"]
  static let columns = columnNames.joined(separator: ", ")
  /// The SET clause that updates the stored entry of a waiting row. It leaves out `since`, the time when the wait
  /// began.
  static let renewal = """
    content = excluded.content, clock = excluded.clock, origin = excluded.origin, number = excluded.number,
      earlier = excluded.earlier
    """

  var texts: [String?] {
    [
      row.namespace, row.table, row.key.json, row.row.json, String(Int64(bitPattern: stamp.clock)), stamp.origin,
      String(Int64(bitPattern: stamp.number)), earlier.map(\.hex).joined(separator: "\n"),
    ]
  }

  /// Creates the waiting row from the texts of its stored entry. Nil if another version of Cairn wrote them.
  init?(_ texts: [String]) {
    guard texts.count == 8, let key = ConflictRow(json: texts[2]), let row = ConflictRow(json: texts[3]),
      let clock = Int64(texts[4]).flatMap(NumberBounds.clock), let number = Int64(texts[6]).flatMap(NumberBounds.number)
    else { return nil }
    self.row = ContestedRow(namespace: texts[0], table: texts[1], key: key, row: row)
    stamp = VersionStamp(clock: clock, origin: texts[5], number: number)
    earlier = texts[7].split(at: "\n").compactMap { RowMark(hex: String($0)) }
  }

  /// Returns the entry for `earlier` from one with whole keys, which old versions of Cairn stored.
  static func shortened(earlier keys: String) throws -> String {
    try keys.split(at: "\n").map { try RowMark(key: String($0)).hex }.joined(separator: "\n")
  }

  func values(_ columns: [String]) -> [Value] { columns.map { row.row[$0] ?? .null } }
}

extension RowMark {
  /// Creates the mark of a row with this key, as JSON.
  init(key json: String) throws {
    let hasher = try SHA256()
    hasher.update(Array(json.utf8))
    self = Self(hasher.finalize()) ?? Self(0, 0)
  }
}
