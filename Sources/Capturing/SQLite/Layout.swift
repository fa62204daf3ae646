import Changes
import SQLiteKit

/// One generation of the triggers of one table: how the values of its journal rows are to be read. A row of
/// `cairn_layout`.
struct Layout {
  let id: Int64
  /// The layout of the same table that this one takes over from.
  let previous: Int64?
  /// Sequence number of the journal's marker row at which it came into force.
  let since: Int64
  /// That at which its table was dropped, or another layout took over.
  var ended: Int64?
  /// How the trail is told of it; nil when the shape is as before (capture was off, and is on again).
  let action: DDL.Action?
  /// Its triggers were in place all the while: each column is the one that stood there before.
  let isSame: Bool
  /// Whoever changed the table made this layout in the same transaction: no row before the marker has the new shape, and none
  /// behind it the old one.
  let isExact: Bool
  /// Why its rows have to be copied; nil once they have been.
  let refresh: Refresh.Reason?
  /// The first of its new columns, where only rows in which these are not the default have to be sent.
  let firstNew: Int?
  let schema: TableSchema

  let carriesRowid: Bool
  let valueCount: Int
  /// Index among the values of a journal row of what identifies the row while the journal is read: the rowid.
  let rowidIndex: Int?
  /// What rows are hashed with for the digest of a statement.
  let digestTable: StatementDigest.Table

  var token: UInt64 { UInt64(id) }
  /// A name of the rowid that no column hides.
  var rowidName: String? {
    let names = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !names.contains($0.nameKey) }
  }
  /// Only some of its rows have to be sent; all changes to it go into the trail meanwhile.
  var isPartial: Bool { refresh != nil && firstNew != nil }
  var refreshMethod: Refresh.Method {
    if isPartial { return .rows }
    return schema.flags.contains(.wholeRow) ? .whole : .byKey
  }
  /// Whether its changes go into the trail before its copy has begun: it was only asked for, and the reader has what they
  /// change. Where both ends write, a delete that is left out is unknown to an end that copies the row meanwhile.
  var passesChanges: Bool { refresh == .asked && refreshMethod == .byKey }
  /// For each column, which one of `before` it was; nil where nothing tells.
  func origins(from before: TableSchema) -> [Int?]? {
    if isSame { return schema.columns.indices.map { $0 < before.columns.count ? $0 : nil } }
    // Built anew: then all rows are copied.
    guard refresh != nil else { return nil }
    return schema.columns.map { column in
      before.columns.firstIndex { $0.name.sqliteKey == column.name.sqliteKey }
    }
  }

  /// The shape `before` without the indexes that this layout has not; nil where it has them all.
  func relaxing(_ before: TableSchema) -> TableSchema? {
    var schema = before
    schema.objects.removeAll { !self.schema.objects.contains($0) }
    guard schema != before else { return nil }
    let origins = TableDifference(before, self.schema, origins: origins(from: before)).origins
    let kept = Set(self.schema.uniques.map { $0.map { origins[$0] } })
    schema.uniques.removeAll { !kept.contains($0) }
    return schema
  }

  /// As in the column `action`.
  static func code(_ action: DDL.Action?, isSame: Bool, isExact: Bool = false) -> Value {
    action.map { .integer(Int64($0.rawValue) | (isSame ? 16 : 0) | (isExact ? 32 : 0)) } ?? .null
  }
  /// As in the column `refresh`.
  static func code(_ reason: Refresh.Reason?, firstNew: Int? = nil) -> Value {
    reason.map { .integer(Int64($0.rawValue) | Int64(firstNew ?? 0) << 4) } ?? .null
  }

  init(row: [Value]) throws {
    func integer(_ i: Int) -> Int64? { if case .integer(let n) = row[i] { n } else { nil } }
    // A program can write to the file: every number is checked before it is counted with.
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

  /// The numbers that layouts have: a code of the journal is eight times as much.
  static let ids: ClosedRange<Int64> = 1...1 << 31

  static var foreign: CairnError {
    CairnError(
      .databaseDamaged, "table cairn_layout of the source holds a row that Cairn did not write",
      hint: "run 'cairn detach' on the source and replicate again")
  }

  static let columns = "id, previous, since, ended, action, refresh, schema"
}
