import Changes

/// Checks the records of blocks, without decoding their rows.
struct RecordScan {
  private(set) var transactions: TransactionTracker
  private(set) var lastSchemaID: UInt64
  /// The memory for the schemas of the segment, up to the last checked record, in bytes.
  private(set) var schemaBytes: Int

  init(_ transactions: TransactionTracker, lastSchemaID: UInt64 = 0, schemaBytes: Int = 0) {
    self.transactions = transactions
    self.lastSchemaID = lastSchemaID
    self.schemaBytes = schemaBytes
  }

  /// Checks all records in the unpacked content of a block.
  ///
  /// - Parameter place: The position of the content in the trail.
  /// - Parameter recordsMax: The number of records that a transaction may have up to the end of the block.
  mutating func follow(
    _ content: UnsafeRawBufferPointer, at place: Position, _ flags: BlockHeader.Flags, recordsMax: UInt64 = .max
  ) throws {
    var records = ByteReader(content)
    while !records.isAtEnd {
      let offset = records.offset
      do {
        let kind = try records.readByte()
        let payload = try records.readCounted()
        guard RecordKind.isReadable(kind) else {
          throw Self.fault(.version, place, offset, "record kind \(kind) is unknown")
        }
        if let problem = try follow(kind, payload) { throw Self.fault(.content, place, offset, problem) }
        if transactions.records > recordsMax { throw OpenTransactionSize.tooManyRecords(at: place, recordsMax) }
      } catch let error as DecodingError {
        throw Self.fault(.content, place, offset, "record: \(error.problem)")
      }
    }
    guard flags.isDisjoint(with: [.border, .seal]) || !transactions.isOpen else {
      throw Self.fault(.content, place, content.count, "a border block ends inside of a transaction")
    }
  }

  private mutating func follow(_ kind: UInt8, _ payload: UnsafeRawBufferPointer) throws -> String? {
    switch kind {
    case RecordKind.change, RecordKind.refreshRow: return transactions.followRow()
    case RecordKind.begin, RecordKind.commit, RecordKind.schema:
      let room = TableSchema.memoryMax - schemaBytes
      guard let record = try Record.decode(kind: kind, payload, room: room) else { return nil }
      if let problem = transactions.follow(record) { return problem }
      guard case .schema(let id, let schema) = record else { return nil }
      guard id == lastSchemaID + 1 else { return "schema id \(id) follows \(lastSchemaID)" }
      lastSchemaID = id
      schemaBytes += schema.memoryBytes
      return nil
    default: return transactions.followOther()
    }
  }

  private static func fault(
    _ kind: SegmentFault.Kind, _ place: Position, _ offset: Int, _ problem: String
  ) -> SegmentFault {
    SegmentFault(kind, Position(segment: place.segment, offset: place.offset + UInt64(offset)), problem)
  }
}
