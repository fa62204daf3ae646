import Changes

/// The rules that the records of one segment must follow. Every reader of a trail and every copy checks them, so a copy
/// takes nothing that its readers refuse.
struct SegmentRecords {
  private(set) var transactions: TransactionTracker
  private struct Shape {
    let columns: UInt16
    let hasKey: Bool
  }
  /// The shape of each schema of the segment; the index is the id of the schema minus one.
  private var shapes: [Shape] = []
  /// The memory for the schemas of the segment, up to the last checked record, in bytes.
  private(set) var schemaBytes = 0

  init(_ transactions: TransactionTracker) { self.transactions = transactions }

  var lastSchemaID: UInt64 { UInt64(shapes.count) }

  /// Decodes a record and checks it. Returns nil for a record of an unknown kind that readers skip.
  ///
  /// - Throws: ``Fault``, or a ``DecodingError``.
  mutating func follow(_ kind: UInt8, _ payload: UnsafeRawBufferPointer) throws -> Record? {
    guard RecordKind.isReadable(kind) else { throw Fault(kind: .version, problem: "record kind \(kind) is unknown") }
    guard let record = try Record.decode(kind: kind, payload, room: TableSchema.memoryMax - schemaBytes) else {
      try check(transactions.followOther())
      return nil
    }
    try check(transactions.follow(record))
    switch record {
    case .schema(let id, let schema):
      guard id == lastSchemaID + 1 else { throw Fault(problem: "schema id \(id) follows \(lastSchemaID)") }
      shapes.append(Shape(columns: UInt16(clamping: schema.columns.count), hasKey: !schema.key.isEmpty))
      schemaBytes += schema.memoryBytes
    case .change(let change): try check(change)
    case .refreshRow(let id, let image): try check(image, id)
    case .waitingRow(let row): try check(row.image, row.schemaID)
    case .refresh(let refresh):
      let shape = try shape(refresh.schemaID)
      for bound in refresh.bounds {
        guard shape.hasKey else { throw Fault(problem: "a refresh has a key of a table without a key") }
        try check(bound.count, refresh.schemaID, "a key")
      }
    case .ddl(let ddl): for id in [ddl.before, ddl.after] where id != 0 { _ = try columnCount(id) }
    default: break
    }
    return record
  }

  /// An error in a record.
  struct Fault: Error {
    var kind = SegmentFault.Kind.content
    let problem: String
  }

  private func check(_ problem: String?) throws { if let problem { throw Fault(problem: problem) } }

  // Readers find the values of a row or a key by column. So each image and key must have as many values as its table
  // has columns.

  private func check(_ change: ChangeView) throws {
    let isLacking =
      switch change.operation {
      case .insert, .update: change.after == nil
      case .delete: change.before == nil
      case .truncate: false
      }
    if isLacking { throw Fault(problem: "a change has no image of its row") }
    _ = try columnCount(change.schemaID)
    if let before = change.before { try check(before, change.schemaID) }
    if let after = change.after { try check(after, change.schemaID) }
  }

  private func check(_ image: ImageView, _ id: UInt64) throws {
    let count: Int
    do { count = try image.columnCount() } catch let error as DecodingError {
      throw Fault(problem: "a value of the record cannot be decoded: \(error.problem)")
    }
    try check(count, id, "an image")
  }

  private func check(_ count: Int, _ id: UInt64, _ what: String) throws {
    let expected = try columnCount(id)
    guard count == expected else {
      throw Fault(problem: "\(what) has \(count) columns, its table has \(expected)")
    }
  }

  private func columnCount(_ id: UInt64) throws -> Int { Int(try shape(id).columns) }

  private func shape(_ id: UInt64) throws -> Shape {
    guard id > 0, id <= lastSchemaID else { throw Fault(problem: "schema \(id) is not in the segment") }
    return shapes[Int(id) - 1]
  }
}

extension SegmentRecords {
  /// The state after a record, to which ``goBack(to:)`` returns.
  struct Place {
    fileprivate let transactions: TransactionTracker
    fileprivate let schemas: Int
    fileprivate let schemaBytes: Int
  }

  var place: Place { Place(transactions: transactions, schemas: shapes.count, schemaBytes: schemaBytes) }

  /// Forgets all records after a place.
  mutating func goBack(to place: Place) {
    transactions = place.transactions
    shapes.removeLast(shapes.count - place.schemas)
    schemaBytes = place.schemaBytes
  }
}
