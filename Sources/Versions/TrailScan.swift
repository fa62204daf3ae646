import Changes
import Conflicts
import Trails

/// Takes the versions of a trail into the window, transaction by transaction.
struct TrailScan {
  /// Which rows a change touches, by the mapping of its trail. A row of a copy comes as an insert that is `copied`.
  typealias RowNames = (TableSchema, ChangeView) throws -> ChangedRows
  /// What has been read of a transaction.
  struct Part {
    var header: TransactionHeader
    var begin: Position
    var rows: [RowName] = []
    /// Tables whose copies end with it, or that were made by it: the rows that they had before are in the trail.
    var wholeTables: [String] = []
    /// Changes by which columns lost their names.
    var columnSteps: [ColumnStep] = []
  }

  /// Rows of one transaction that are kept before the window gets them.
  private static let rowsMax = 4096
  private(set) var from: UInt64
  let reader: TrailReader
  /// Of the last whole transaction that was read.
  private(set) var number: UInt64 = 0
  /// Of the last progress that was read in a whole transaction.
  private(set) var sourcePosition: [UInt8] = []

  /// Opens a trail for the rows of transaction `number` and those behind it. Earlier ones may come too, without rows.
  init(folder: String, from number: UInt64) throws {
    from = number
    reader = try TrailReader.open(
      folder: folder, at: try Trail.segmentStart(folder: folder, of: number))
  }

  /// The rows of earlier ones are not asked for any more. False: better open it anew, as there are whole segments of them.
  mutating func skip(to number: UInt64, in folder: String) throws -> Bool {
    guard number > from else { return true }
    from = number
    guard self.number + 1 < number else { return true }
    return try Trail.segmentStart(folder: folder, of: number).position.segment <= reader.position.segment
  }

  /// Reads on to transaction `through`, or to the durable end. `takePart` gets every transaction, a large one in parts; with
  /// the last part of it, `isEnd`. Returns how many whole ones came that
  /// are of interest.
  mutating func run(
    through last: UInt64, _ rowNames: RowNames, _ takePart: (Part, _ isEnd: Bool) throws -> Void
  ) throws
    -> Int
  {
    var count = 0
    var part: Part?
    // Of the last change: its id counts in its segment.
    var (schema, id, segment): (TableSchema?, UInt64, UInt64) = (nil, 0, 0)
    func take(_ change: ChangeView) throws {
      guard let header = part?.header, header.number >= from else { return }
      if schema == nil || id != change.schemaID || segment != reader.position.segment {
        (schema, id, segment) = (reader.schema(change.schemaID), change.schemaID, reader.position.segment)
      }
      guard let schema else { throw missingSchema(change.schemaID) }
      part?.rows += try rowNames(schema, change)
      if let full = part, full.rows.count >= Self.rowsMax {
        try takePart(full, false)
        part?.rows.removeAll(keepingCapacity: true)
      }
    }
    while number < last, let record = try reader.next() {
      switch record {
      case .begin(let header): part = Part(header: header, begin: reader.position)
      case .progress(let position, _): part?.header.sourcePosition = position
      case .change(let change) where change.operation != .truncate: try reader.decoding { try take(change) }
      case .refreshRow(let id, let image):
        try reader.decoding { try take(ChangeView(.insert, schemaID: id, after: image, treatment: .copied)) }
      case .refresh(let refresh):
        if case .end = refresh.event, let table = reader.schema(refresh.schemaID) {
          part?.wholeTables.append(table.fullName)
        }
      case .ddl(let ddl):
        if !ddl.isRefreshed, let table = reader.schema(ddl.after) { part?.wholeTables.append(table.fullName) }
        if let number = part?.header.number, let before = reader.schema(ddl.before),
          let after = reader.schema(ddl.after), let step = ColumnStep(ddl, before, after, number: number)
        {
          part?.columnSteps.append(step)
        }
      case .schema: schema = nil
      case .commit(let number, _):
        if let whole = part {
          try takePart(whole, true)
          if !whole.header.sourcePosition.isEmpty { sourcePosition = whole.header.sourcePosition }
        }
        part = nil
        self.number = number
        if number >= from { count += 1 }
      default: break
      }
    }
    return count
  }

  private func missingSchema(_ id: UInt64) -> CairnError {
    CairnError(
      .trailDamaged,
      "a change at \(reader.position) of trail \(reader.name) is of schema \(id), which is not there",
      hint: "run 'cairn trail verify \(reader.name)'", context: ["trail": reader.name.description])
  }
}
