import Changes
import SQLiteKit

/// One generation of the triggers of one table. It defines how values of journal rows are read, and is a row of the
/// table `cairn_layout`.
struct Layout {
  let id: Int64
  /// The id of the earlier layout of the same table that this one replaces; nil if it is the first.
  let previous: Int64?
  /// The sequence number of the marker row in the journal at which this layout came into force.
  let since: Int64
  /// The sequence number at which the table was dropped, or another layout replaced this one; nil while it is in force.
  var ended: Int64?
  /// The schema change for the trail; nil if the shape is unchanged, because capture was only off and on again.
  let action: DDL.Action?
  /// Whether the triggers were in place since the previous layout: each column is then still the one at its place.
  let isSame: Bool
  /// Whether the transaction that changed the table made this layout too. Rows before the marker then have the old
  /// shape, and rows after it the new one.
  let isExact: Bool
  /// The reason for which the table's rows must be copied; nil once they have been copied.
  let refresh: Refresh.Reason?
  /// The index of the first new column, if only rows whose new columns differ from their defaults must be sent; else
  /// nil.
  let firstNew: Int?
  let schema: TableSchema

  let carriesRowid: Bool
  let valueCount: Int
  /// The index of the rowid among the values of a journal row, if the rowid identifies rows in the journal; else nil.
  let rowidIndex: Int?
  /// The seed with which rows of the table are hashed for the digest of a statement.
  let digestTable: StatementDigest.Table

  var token: UInt64 { UInt64(id) }
  /// A name by which SQL reads the table's rowid, because no column has that name; nil if columns have all such names.
  var rowidName: String? {
    let names = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !names.contains($0.nameKey) }
  }
  /// Whether only some of the table's rows must be sent; all changes go into the trail meanwhile.
  var isPartial: Bool { refresh != nil && firstNew != nil }
  var refreshMethod: Refresh.Method {
    if isPartial { return .rows }
    return schema.flags.contains(.wholeRow) ? .whole : .byKey
  }
  /// Whether changes of the table go into the trail before its copy has begun. They do if the copy was only requested,
  /// because the reader already has the rows. In two-way replication, a delete that was left out would be unknown to a
  /// peer that copies the row meanwhile.
  var passesChanges: Bool { refresh == .asked && refreshMethod == .byKey }
  /// Returns, for each column, its index in the shape `before`, nil for a new column; nil if that is unknown.
  func origins(from before: TableSchema) -> [Int?]? {
    if isSame { return schema.columns.indices.map { $0 < before.columns.count ? $0 : nil } }
    // The triggers are new: then all rows are copied.
    guard refresh != nil else { return nil }
    return schema.columns.map { column in
      before.columns.firstIndex { $0.name.sqliteKey == column.name.sqliteKey }
    }
  }

  /// Returns the shape `before` without the indexes that this layout lacks; nil if the layout lacks none.
  func relaxing(_ before: TableSchema) -> TableSchema? {
    var schema = before
    schema.objects.removeAll { !self.schema.objects.contains($0) }
    guard schema != before else { return nil }
    let origins = TableDifference(before, self.schema, origins: origins(from: before)).origins
    let kept = Set(self.schema.uniques.map { $0.map { origins[$0] } })
    schema.uniques.removeAll { !kept.contains($0) }
    return schema
  }

  /// Returns the encoded value for the column `action` of `cairn_layout`.
  static func code(_ action: DDL.Action?, isSame: Bool, isExact: Bool = false) -> Value {
    action.map { .integer(Int64($0.rawValue) | (isSame ? 16 : 0) | (isExact ? 32 : 0)) } ?? .null
  }
  /// Returns the encoded value for the column `refresh` of `cairn_layout`.
  static func code(_ reason: Refresh.Reason?, firstNew: Int? = nil) -> Value {
    reason.map { .integer(Int64($0.rawValue) | Int64(firstNew ?? 0) << 4) } ?? .null
  }

  init(row: [Value]) throws {
    func integer(_ i: Int) -> Int64? { if case .integer(let n) = row[i] { n } else { nil } }
    // An application can write to the file: every number is checked before it is used.
    let bound = SourcePosition.places.upperBound
    guard let id = integer(0), Self.ids.contains(id), let since = integer(2), (0..<bound).contains(since),
      integer(3).map({ -bound < $0 && $0 < bound }) ?? true, case .blob(let bytes) = row[6]
    else { throw Self.foreign }
    self.id = id
    previous = integer(1)
    self.since = since
    ended = integer(3)
    action = integer(4).flatMap { DDL.Action(rawValue: UInt8(clamping: $0 & 15)) }
    isSame = integer(4).map { $0 & 16 != 0 } ?? false
    isExact = integer(4).map { $0 & 32 != 0 } ?? false
    refresh = integer(5).flatMap { Refresh.Reason(rawValue: UInt8(clamping: $0 & 15)) }
    firstNew = integer(5).flatMap { $0 < 16 ? nil : Int($0 >> 4) }
    do {
      schema = try bytes.withUnsafeBytes {
        var reader = ByteReader($0)
        return try reader.readSchema()
      }
    } catch is DecodingError { throw Self.foreign }
    digestTable = StatementDigest.Table(name: schema.name)
    carriesRowid = CaptureTriggers.carriesRowid(schema)
    valueCount = schema.columns.count + (carriesRowid ? 1 : 0)
    rowidIndex =
      if carriesRowid {
        schema.columns.count
      } else if schema.uniques.isEmpty, !schema.flags.contains(.withoutRowid),
        schema.key.count == 1
      { schema.key[0] } else { nil }
  }

  /// The ids that layouts may have. A journal row's code is eight times as large.
  static let ids: ClosedRange<Int64> = 1...1 << 31

  static var foreign: CairnError {
    CairnError(
      .databaseDamaged, "table cairn_layout of the source holds a row that Cairn did not write",
      hint: "run 'cairn detach' on the source and replicate again")
  }

  static let columns = "id, previous, since, ended, action, refresh, schema"
}
