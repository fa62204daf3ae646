import Changes
import Conflicts
import Trails

/// Reads a trail for the version window: for each transaction, the rows that it wrote.
struct TrailScan {
  /// A function that returns the names of the rows that a change concerns. A row of a refresh comes as an insert whose
  /// `treatment` is `copied`.
  typealias RowNames = (TableSchema, ChangeView) throws -> ChangedRows
  typealias Learn = (DDL, _ before: TableSchema?, _ after: TableSchema) -> Void
  /// A transaction that was read, or a part of a large one.
  struct Part {
    var header: TransactionHeader
    var begin: Position
    var rows: [RowName] = []
    /// The tables that this transaction created, or whose refresh it ends: all their rows are now in the trail.
    var wholeTables: [String] = []
    /// The schema changes of the transaction that renamed or dropped tables or columns.
    var columnSteps: [ColumnStep] = []
  }

  private static let rowsMax = 4096
  private(set) var from: UInt64
  let reader: TrailReader
  private(set) var number: UInt64 = 0
  /// The source position of the last read transaction that has one; empty if none has one.
  private(set) var sourcePosition: [UInt8] = []

  /// Opens a trail for reads that skip the rows of transactions before `number`.
  init(folder: String, from number: UInt64) throws {
    from = number
    reader = try TrailReader.open(
      folder: folder, at: try Trail.segmentStart(folder: folder, of: number))
  }

  /// From now on, skips the rows of transactions before `number`. Returns false if the caller should open the trail
  /// again at `number`, because that reads fewer segments.
  mutating func skip(to number: UInt64, in folder: String) throws -> Bool {
    guard number > from else { return true }
    from = number
    guard self.number + 1 < number else { return true }
    return try Trail.segmentStart(folder: folder, of: number).position.segment <= reader.position.segment
  }

  /// Reads through transaction `last`, or to the durable end of the trail.
  /// - Parameter learn: Called at each schema change, with the table before and after the change.
  /// - Parameter skips: Returns whether to skip a transaction's rows of a table.
  /// - Parameter takePart: Called for every transaction, or for each part of a large one. `isEnd` is true for the last
  ///   part.
  /// - Returns: The number of complete transactions read, without skipped ones.
  mutating func run(
    through last: UInt64, _ rowNames: RowNames, learn: Learn = { _, _, _ in },
    skips: (UInt64, TableSchema) -> Bool = { _, _ in false },
    _ takePart: (Part, _ isEnd: Bool) throws -> Void
  ) throws
    -> Int
  {
    var count = 0
    var part: Part?
    // The schema of the last change: a schema id is valid within one segment.
    var (schema, id, segment): (TableSchema?, UInt64, UInt64) = (nil, 0, 0)
    func take(_ change: ChangeView) throws {
      guard let header = part?.header, header.number >= from else { return }
      if schema == nil || id != change.schemaID || segment != reader.position.segment {
        (schema, id, segment) = (reader.schema(change.schemaID), change.schemaID, reader.position.segment)
      }
      guard let schema else { throw missingSchema(change.schemaID) }
      if skips(header.number, schema) { return }
      part?.rows += try rowNames(schema, change)
      if let full = part, full.rows.count >= Self.rowsMax {
        try takePart(full, false)
        part?.rows.removeAll(keepingCapacity: true)
      }
    }
    while number < last, let record = try reader.next() {
      switch record {
      case .begin(let header):
        // The segments with the transactions before it were removed.
        guard header.number <= last else { return count }
        part = Part(header: header, begin: reader.position)
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
        if let after = reader.schema(ddl.after) {
          let before = reader.schema(ddl.before)
          if ddl.before == 0 || before != nil { learn(ddl, before, after) }
        }
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
      "a change at \(reader.position) of trail \(reader.name) refers to schema \(id), which does not exist",
      hint: "run 'cairn trail verify \(reader.name)'", context: ["trail": reader.name.description])
  }
}
