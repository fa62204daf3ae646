import Changes
import CodecKit
import SystemKit

/// Reads one segment a block at a time, with all checks. Throws ``SegmentFault`` and `FileError`, and cannot be used
/// after an error.
final class SegmentCursor {
  let header: SegmentHeader
  let file: File
  private(set) var fileOffset: UInt64
  private var flags: BlockHeader.Flags = []
  /// The state after the last returned record.
  private(set) var rules: SegmentRecords
  private(set) var schemas: [UInt64: TableSchema] = [:]
  /// The offset of the last returned record in the segment's unpacked content.
  private(set) var recordOffset: UInt64 = 0
  /// The offset after the last returned commit record in the segment's unpacked content.
  private(set) var commitOffset: UInt64 = 0

  private var stored = Scratch(capacity: 64 << 10)
  private let opener = BlockOpener()
  private let hasher: SHA256
  private let share = BlockShare()
  /// The unpacked records of the loaded block. Empty before the first block, during a pause, and after all records of a
  /// block of more than 1 MiB were read.
  private var content = UnsafeRawBufferPointer(start: nil, count: 0)
  private var contentStart: UInt64 = 0
  /// The file offset of the loaded block.
  private var blockOffset: UInt64 = 0
  /// The offset in `content` of the next record during a pause, when `content` is not in memory; nil if there is no
  /// pause.
  private var pausedAt: Int?
  /// The offset in the segment's unpacked content after the loaded block.
  private(set) var contentEnd: UInt64 = 0
  private var records = ByteReader(UnsafeRawBufferPointer(start: nil, count: 0))
  private var hashedCount = 0
  private var isHashed = true
  private var chain: ChainHash
  private var knownCommitChain: ChainHash?

  /// Opens a segment and checks its header.
  ///
  /// - Parameter lastHeader: The header of the last transaction before the segment; nil if not known.
  init(_ folder: TrailFolder, _ number: UInt64, lastHeader: TransactionHeader? = nil) throws {
    file = try File(folder.segmentPath(number), .read)
    header = try SegmentHeader.read(file, number: number)
    hasher = try SHA256()
    fileOffset = header.length
    chain = header.chain
    knownCommitChain = chain
    rules = SegmentRecords(TransactionTracker(lastNumber: header.firstTransaction - 1, lastHeader: lastHeader))
  }

  var number: UInt64 { header.number }
  var transactions: TransactionTracker { rules.transactions }
  /// The memory for `schemas`, in bytes.
  var schemaBytes: Int { rules.schemaBytes }
  var isSealed: Bool { flags.contains(.seal) }
  /// Whether the loaded block ends between two transactions.
  var isAtBorder: Bool { !flags.isDisjoint(with: [.border, .seal]) }
  var isAtBlockEnd: Bool { pausedAt == nil && records.isAtEnd }

  /// The chain hash after the last returned commit record. Before the first one, the chain hash at the start of the
  /// segment.
  var commitChain: ChainHash {
    if let knownCommitChain { return knownCommitChain }
    hash(to: Int(commitOffset - contentStart))
    let result = ChainHash(hasher.peek()) ?? .zero
    knownCommitChain = result
    return result
  }

  /// Returns the chain hash after the loaded block. All records of the block must have been read.
  func chainAtEnd() -> ChainHash {
    if !isHashed {
      _ = commitChain
      hash(to: content.count)
      chain = ChainHash(hasher.finalize()) ?? .zero
      isHashed = true
    }
    return chain
  }

  /// Returns how the end of the loaded block differs from a durable mark at the same file offset; nil if it does not
  /// differ.
  func problem(at mark: DurableMark) -> String? {
    if mark.contentOffset != contentEnd { return "the durable mark says that this is \(mark.position)" }
    if transactions.isOpen { return "the durable mark is inside transaction \(transactions.lastNumber + 1)" }
    if mark.lastTransaction != transactions.lastNumber {
      return "the last transaction is \(transactions.lastNumber), the durable mark says \(mark.lastTransaction)"
    }
    let chain = chainAtEnd()
    return chain == mark.chain ? nil : "chain hash is \(chain), the durable mark says \(mark.chain)"
  }

  /// Whether the file ends after the loaded block, or has only zeros in place of the next block's header.
  var isAtZeros: Bool {
    get throws {
      try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
        let count = try file.read(into: buffer, at: fileOffset)
        return buffer.prefix(count).allSatisfy { $0 == 0 }
      }
    }
  }

  private func hash(to count: Int) {
    hasher.update(UnsafeRawBufferPointer(rebasing: content[hashedCount..<count]))
    hashedCount = count
  }

  /// Returns the next record of the loaded block; nil at its end. The record is valid until the next block is loaded.
  func nextRecord() throws -> Record? {
    if let offset = pausedAt { try goOn(at: offset) }
    while !records.isAtEnd {
      let start = records.offset
      recordOffset = contentStart + UInt64(start)
      let decoded: Record?
      do {
        let kind = try records.readByte()
        decoded = try rules.follow(kind, try records.readCounted())
      } catch let error as DecodingError {
        throw fault(.content, recordOffset, "record: \(error.problem)")
      } catch let error as SegmentRecords.Fault {
        throw fault(error.kind, recordOffset, error.problem)
      }
      guard let record = decoded else { continue }
      switch record {
      case .commit:
        commitOffset = contentStart + UInt64(records.offset)
        knownCommitChain = nil
      case .schema(let id, let schema): schemas[id] = schema
      default: break
      }
      return record
    }
    guard !isAtBorder || !rules.transactions.isOpen else {
      throw fault(.content, contentEnd, "a border block ends inside of a transaction")
    }
    if share.isTaken { leaveContent() }
    return nil
  }

  /// Frees the memory of a block of more than 1 MiB, because all its records have been read.
  private func leaveContent() {
    _ = chainAtEnd()
    dropContent()
  }

  private func dropContent() {
    content = UnsafeRawBufferPointer(start: nil, count: 0)
    records = ByteReader(content)
    opener.release()
    stored.shrink(above: BlockOpener.usualBytes)
    share.leave()
  }

  /// Frees the memory of a block of more than 1 MiB; ``nextRecord()`` loads the block again. Call it before the reading
  /// thread waits for anything. Records that were returned are no longer valid.
  func pause() {
    guard share.isTaken, !records.isAtEnd else { return }
    _ = commitChain
    pausedAt = records.offset
    dropContent()
  }

  private func goOn(at offset: Int) throws {
    (_, content) = try load(at: blockOffset, contentStart, limit: fileOffset, chain: chain)
    guard contentStart + UInt64(content.count) == contentEnd else {
      throw fault(.torn, contentStart, "the block has changed since it was read")
    }
    records = ByteReader(content)
    _ = try records.read(offset)
    pausedAt = nil
  }

  /// Loads the next block, which must end at or before file offset `limit`. All records of the loaded block must have
  /// been read.
  func loadBlock(limit: UInt64) throws {
    let before = chainAtEnd()
    let start = contentEnd
    let block: BlockHeader
    (block, content) = try load(at: fileOffset, start, limit: limit, chain: before)
    contentStart = start
    contentEnd = start + UInt64(content.count)
    records = ByteReader(content)
    blockOffset = fileOffset
    fileOffset += UInt64(BlockHeader.size) + UInt64(block.storedLength)
    flags = block.flags
    hashedCount = 0
    isHashed = content.isEmpty
    if !isHashed { hasher.update(before.bytes) }
  }

  /// Reads and checks the block at a file offset. Returns its header and its unpacked content.
  private func load(
    at offset: UInt64, _ start: UInt64, limit: UInt64, chain: ChainHash
  ) throws -> (BlockHeader, UnsafeRawBufferPointer) {
    var checksum: UInt32 = 0
    let block = try readHeader(at: offset, start, limit: limit, checksum: &checksum)
    let length = Int(block.storedLength)
    stored.shrink(above: BlockOpener.usualBytes)
    opener.release()
    try share.take(for: block)
    let bytes = try stored.bytes(length)
    let found = try file.read(into: bytes, at: offset + UInt64(BlockHeader.size))
    guard found == length else { throw fault(.torn, start, "the file ends in a block") }
    checksum = CRC32C.of(UnsafeRawBufferPointer(bytes), continuing: checksum)
    let content = try opener.open(
      block, UnsafeRawBufferPointer(bytes), checksum: checksum, at: Position(segment: number, offset: start),
      chain: chain)
    return (block, content)
  }

  private func readHeader(
    at offset: UInt64, _ start: UInt64, limit: UInt64, checksum: inout UInt32
  ) throws -> BlockHeader {
    guard limit >= offset, limit - offset >= UInt64(BlockHeader.size) else {
      throw fault(.torn, start, "the segment ends where a block should be")
    }
    let room = limit - offset - UInt64(BlockHeader.size)
    let (block, sum) = try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
      guard try file.read(into: buffer, at: offset) == buffer.count else {
        throw fault(.torn, start, "the file ends in a block header")
      }
      let bytes = UnsafeRawBufferPointer(buffer)
      return (BlockHeader(bytes), BlockHeader.checksumStart(bytes))
    }
    guard let block else { throw fault(.torn, start, "there is no block here") }
    guard UInt64(block.storedLength) <= room else {
      throw fault(.torn, start, "the block has \(block.storedLength) bytes, there is room for \(room)")
    }
    checksum = sum
    return block
  }

  func fault(_ kind: SegmentFault.Kind, _ offset: UInt64, _ problem: String) -> SegmentFault {
    SegmentFault(kind, Position(segment: number, offset: offset), problem)
  }
}
