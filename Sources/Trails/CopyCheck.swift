import Changes
import CodecKit

/// Checks the blocks that come for a copy, one after the other, as its readers will.
struct CopyCheck {
  /// Behind the last block that passed.
  private(set) var place: LiveSegment.Place
  /// Behind the last block that ended a transaction, and the number of that.
  private(set) var border: (place: LiveSegment.Place, lastNumber: UInt64)
  private(set) var isSealed = false
  let segment: UInt64
  private var scan: RecordScan

  /// At the start of a segment.
  init(_ header: SegmentHeader) {
    segment = header.number
    place = .init(fileOffset: header.length, contentOffset: 0, chain: header.chain)
    scan = RecordScan(TransactionTracker(lastNumber: header.firstTransaction - 1))
    border = (place, header.firstTransaction - 1)
  }

  /// Behind what a recovery has found.
  init(_ end: Recovery.End, border: LiveSegment.Place, lastNumber: UInt64) {
    segment = end.segment
    place = end.place
    scan = RecordScan(end.transactions, lastSchemaID: end.lastSchemaID)
    self.border = (border, lastNumber)
    isSealed = end.isSealed
  }

  var lastNumber: UInt64 { scan.transactions.lastNumber }

  /// Checks the block with which `bytes` begin. Returns its size; nil when it is not whole. When this throws, nothing
  /// has changed.
  mutating func follow(
    _ bytes: UnsafeRawBufferPointer, _ opener: BlockOpener, _ hasher: SHA256
  ) throws -> Int? {
    guard bytes.count >= BlockHeader.size else { return nil }
    let at = Position(segment: segment, offset: place.contentOffset)
    let head = UnsafeRawBufferPointer(rebasing: bytes[..<BlockHeader.size])
    guard let size = try Self.size(of: head, at: at) else { return nil }
    guard bytes.count >= size, let block = BlockHeader(head) else { return nil }
    if isSealed { throw SegmentFault(.content, at, "a block stands behind the seal") }
    let stored = UnsafeRawBufferPointer(rebasing: bytes[BlockHeader.size..<size])
    let checksum = CRC32C.of(stored, continuing: BlockHeader.checksumStart(head))
    let content = try opener.open(block, stored, checksum: checksum, at: at, chain: place.chain)
    var next = scan
    try next.follow(content, at: at, block.flags)
    scan = next
    place.fileOffset += UInt64(size)
    place.contentOffset += UInt64(content.count)
    if !content.isEmpty { place.chain = hasher.chain(before: place.chain, content: content) }
    isSealed = block.flags.contains(.seal)
    if block.flags.contains(.border), !isSealed { border = (place, lastNumber) }
    return size
  }

  /// The size of the block that begins with these bytes; nil when they are too few to tell.
  static func size(of bytes: UnsafeRawBufferPointer, at place: Position) throws -> Int? {
    guard bytes.count >= BlockHeader.size else { return nil }
    guard let block = BlockHeader(bytes) else { throw SegmentFault(.torn, place, "no block stands here") }
    guard block.storedLength <= BlockHeader.contentLengthMax else {
      throw SegmentFault(.content, place, "a block of \(block.storedLength) bytes is too large")
    }
    return BlockHeader.size + Int(block.storedLength)
  }
}
