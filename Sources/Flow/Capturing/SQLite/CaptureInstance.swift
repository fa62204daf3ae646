import Changes
import SQLiteKit

/// A row of the table `cairn_layout`: one recorded shape of a captured table, and its triggers. The shape defines how
/// to read the journal rows that these triggers wrote.
struct CaptureInstance {
  let id: Int64
  /// The id of the table's layout before this one; nil for the first.
  let previous: Int64?
  /// The first journal row with this shape.
  let since: Int64
  /// The journal row at which this layout ended; nil if it is in use. Negative if the table is no longer captured.
  var ended: Int64?
  /// The schema change that the trail records for this layout; nil if the table kept its shape.
  let action: DDL.Action?
  /// Whether Cairn's triggers were in place throughout the schema change.
  let isSame: Bool
  /// Whether this layout was written in the transaction of the schema change.
  let isExact: Bool
  let refresh: Refresh.Reason?
  /// The index of the first added column, if a refresh must send only rows whose added columns differ from their
  /// defaults; nil otherwise.
  let firstNew: Int?
  let schema: TableSchema

  let carriesRowid: Bool
  let valueCount: Int
  /// The index of the rowid among the values of a journal row; nil if a journal row has no rowid.
  let rowidIndex: Int?
  let digestTable: StatementDigest.Table
  /// Whether an update of a row's key may change rows of the same table.
  let cascadesToItself: Bool

  var token: UInt64 { UInt64(id) }
  /// A name for the table's rowid in SQL, such as `_rowid_`; nil if columns have all these names.
  var rowidName: String? {
    let names = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !names.contains($0.nameKey) }
  }
  /// Whether the pending refresh sends only rows whose added columns differ from their defaults.
  var isPartial: Bool { refresh != nil && firstNew != nil }
  var refreshMethod: Refresh.Method {
    if isPartial { return .rows }
    return schema.flags.contains(.wholeRow) ? .whole : .byKey
  }
  /// Whether changes of the table go into the trail before its refresh has begun. True if the refresh was requested:
  /// then targets have the rows already.
  var passesChanges: Bool { refresh == .asked && refreshMethod == .byKey }
  /// Returns the index of each column in the earlier shape `before`; nil for an added column. The array is nil if the
  /// indexes are not known.
  func origins(from before: TableSchema) -> [Int?]? {
    if isSame { return schema.columns.indices.map { $0 < before.columns.count ? $0 : nil } }
    // The triggers are new: then all rows are copied.
    guard refresh != nil else { return nil }
    let places = Dictionary(
      before.columns.enumerated().map { ($1.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
    return schema.columns.map { places[$0.name.sqliteKey] }
  }

  /// Returns shape `before` without the indexes that this layout lacks; nil if this layout has all its indexes.
  func relaxing(_ before: TableSchema) -> TableSchema? {
    var schema = before
    let objects = Set(self.schema.objects)
    schema.objects.removeAll { !objects.contains($0) }
    guard schema != before else { return nil }
    // Only the columns matter here.
    let (old, new) = (before.withColumnsOnly, self.schema.withColumnsOnly)
    let origins = TableDifference(old, new, origins: origins(from: before)).origins
    let kept = Set(self.schema.uniques.map { $0.map { origins[$0] } })
    schema.uniques.removeAll { !kept.contains($0) }
    return schema
  }

  /// Encodes the schema change, `isSame` and `isExact` as the value of column `action` of `cairn_layout`.
  static func code(_ action: DDL.Action?, isSame: Bool, isExact: Bool = false) -> Value {
    action.map { .integer(Int64($0.rawValue) | (isSame ? 16 : 0) | (isExact ? 32 : 0)) } ?? .null
  }
  /// Encodes the reason for a refresh and `firstNew` as the value of column `refresh` of `cairn_layout`.
  static func code(_ reason: Refresh.Reason?, firstNew: Int? = nil) -> Value {
    reason.map { .integer(Int64($0.rawValue) | Int64(firstNew ?? 0) << 4) } ?? .null
  }

  /// Decodes a row of `cairn_layout`.
  ///
  /// - Parameter room: The most memory that the layout may take, in bytes.
  init(row: [Value], room: Int = TableSchema.memoryMax) throws {
    func integer(_ i: Int) -> Int64? { if case .integer(let n) = row[i] { n } else { nil } }
    // An application can write to the file: every number is checked before it is used.
    let bound = SourcePosition.places.upperBound
    guard let id = integer(0), Self.ids.contains(id), let since = integer(2), (0..<bound).contains(since),
      integer(3).map({ -bound < $0 && $0 < bound }) ?? true, integer(1).map({ $0 < id }) ?? true,
      case .blob(let bytes) = row[6]
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
        return try reader.readSchema(room: room)
      }
    } catch let error as DecodingError {
      throw error.problem.hasSameBytes(as: TableSchema.refusalOfMemory) ? Self.tooMany : Self.foreign
    }
    digestTable = StatementDigest.Table(name: schema.name)
    let name = schema.name.sqliteKey
    cascadesToItself = schema.foreignKeys.contains { key in
      key.table.sqliteKey == name && ["CASCADE", "SET NULL", "SET DEFAULT"].contains(key.onUpdate.asciiUppercased)
    }
    carriesRowid = CaptureTriggers.carriesRowid(schema)
    valueCount = schema.columns.count + (carriesRowid ? 1 : 0)
    rowidIndex =
      if carriesRowid {
        schema.columns.count
      } else if schema.uniques.isEmpty, !schema.flags.contains(.withoutRowid),
        schema.key.count == 1
      { schema.key[0] } else { nil }
  }

  /// The valid values of `cairn_layout.id`, which fit into the column `code` of a journal row.
  static let ids: ClosedRange<Int64> = 1...1 << 31

  static var foreign: CairnError {
    CairnError(
      .databaseDamaged, "table cairn_layout of the source holds a row that Cairn did not write",
      hint: "run 'cairn detach' on the source and replicate again")
  }

  static var tooMany: CairnError {
    CairnError(
      .databaseUnsafe,
      "table cairn_layout of the source has more than \(ReadLayouts.countMax) layouts, or they take more than "
        + "\(TableSchema.memoryMax >> 20) MiB of memory",
      hint: "find the program that wrote them; if they come from schema changes of many years, "
        + "run 'cairn detach' on the source and replicate again")
  }

  static let columns = "id, previous, since, ended, action, refresh, schema"
}

extension TableSchema {
  fileprivate var withColumnsOnly: TableSchema {
    var schema = self
    (schema.uniques, schema.foreignKeys, schema.objects) = ([], [], [])
    return schema
  }
}
