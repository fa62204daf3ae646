import Changes

/// Checks the records of blocks by the rules of a segment.
struct RecordScan {
  private(set) var records: SegmentRecords

  init(_ records: SegmentRecords) { self.records = records }

  /// Checks all records in the unpacked content of a block. After an error, the block has no effect.
  ///
  /// - Parameter place: The position of the content in the trail.
  /// - Parameter recordsMax: The number of records that a transaction may have up to the end of the block.
  mutating func follow(
    _ content: UnsafeRawBufferPointer, at place: Position, _ flags: BlockHeader.Flags, recordsMax: UInt64 = .max
  ) throws {
    let before = records.place
    do { try read(content, at: place, flags, recordsMax) } catch {
      records.goBack(to: before)
      throw error
    }
  }

  private mutating func read(
    _ content: UnsafeRawBufferPointer, at place: Position, _ flags: BlockHeader.Flags, _ recordsMax: UInt64
  ) throws {
    var reader = ByteReader(content)
    while !reader.isAtEnd {
      let offset = reader.offset
      func fault(_ kind: SegmentFault.Kind, _ problem: String) -> SegmentFault {
        Self.fault(kind, place, offset, problem)
      }
      do {
        let kind = try reader.readByte()
        _ = try records.follow(kind, try reader.readCounted())
      } catch let error as DecodingError {
        throw fault(.content, "record: \(error.problem)")
      } catch let error as SegmentRecords.Fault {
        throw fault(error.kind, error.problem)
      }
      if records.transactions.records > recordsMax { throw OpenTransactionSize.tooManyRecords(at: place, recordsMax) }
    }
    guard flags.isDisjoint(with: [.border, .seal]) || !records.transactions.isOpen else {
      throw Self.fault(.content, place, content.count, "a border block ends inside of a transaction")
    }
  }

  private static func fault(
    _ kind: SegmentFault.Kind, _ place: Position, _ offset: Int, _ problem: String
  ) -> SegmentFault {
    SegmentFault(kind, Position(segment: place.segment, offset: place.offset + UInt64(offset)), problem)
  }
}
