import Changes
import CodecKit

/// Checks the blocks that arrive for a copy of a trail, in order.
struct CopyCheck {
  /// The end of the last checked block in the segment.
  private(set) var place: LiveSegment.Place
  /// The end of the last block that ends a transaction, and the number of that transaction.
  private(set) var border: (place: LiveSegment.Place, lastNumber: UInt64)
  private(set) var isSealed = false
  let segment: UInt64
  private var scan: RecordScan

  init(_ header: SegmentHeader) {
    segment = header.number
    place = .init(fileOffset: header.length, contentOffset: 0, chain: header.chain)
    scan = RecordScan(SegmentRecords(TransactionTracker(lastNumber: header.firstTransaction - 1)))
    border = (place, header.firstTransaction - 1)
  }

  /// Creates a check that continues at the end of a recovered copy.
  ///
  /// - Parameter border: The end of the last whole transaction, whose number is `lastNumber`.
  init(_ end: Recovery.End, border: LiveSegment.Place, lastNumber: UInt64) {
    segment = end.segment
    place = end.place
    scan = RecordScan(end.records)
    self.border = (border, lastNumber)
    isSealed = end.isSealed
  }

  var lastNumber: UInt64 { scan.records.transactions.lastNumber }

  /// Checks the whole blocks in `bytes`, up to the end of the segment.
  ///
  /// - Parameter taken: Is increased by the size of each block that passes the check, even if a later block throws.
  mutating func follow(
    _ bytes: UnsafeRawBufferPointer, _ opener: BlockOpener, _ hasher: SHA256, taken: inout Int
  ) throws {
    let several = blocks(bytes)
    if several.count >= BlockCrew.blocksMin {
      _ = try BlockCrew.shared.open(several, of: segment) { block, opened in
        try take(block, opened)
        taken += block.size
      }
    }
    while !isSealed, let block = try block(UnsafeRawBufferPointer(rebasing: bytes[taken...])) {
      try take(block, BlockCrew.open(block, segment, opener, hasher))
      taken += block.size
    }
  }

  private mutating func take(_ block: BlockCrew.Block, _ opened: BlockCrew.Opened) throws {
    let (header, at) = (block.header, Position(segment: segment, offset: place.contentOffset))
    try BlockOpener.check(header, checksum: opened.checksum, at: at, chain: place.chain)
    guard let content = try opened.content?.get() else { return }
    let size = OpenTransactionSize(
      contentBytes: place.contentOffset - border.place.contentOffset + UInt64(content.count),
      storedBytes: place.fileOffset - border.place.fileOffset + UInt64(block.size))
    try size.check(at: at)
    try scan.follow(content, at: at, header.flags, recordsMax: size.recordsMax)
    place = .init(
      fileOffset: place.fileOffset + UInt64(block.size), contentOffset: place.contentOffset + UInt64(content.count),
      chain: opened.chain)
    isSealed = header.flags.contains(.seal)
    if header.flags.contains(.border), !isSealed { border = (place, lastNumber) }
  }

  /// Returns the whole blocks at the start of `bytes`. Stops before a partial block or a block of more than 1 MiB, and
  /// at the end of the segment.
  private func blocks(_ bytes: UnsafeRawBufferPointer) -> [BlockCrew.Block] {
    var (blocks, offset) = ([BlockCrew.Block](), 0)
    while let block = try? block(UnsafeRawBufferPointer(rebasing: bytes[offset...])),
      block.header.contentLength <= BlockOpener.usualBytes
    {
      blocks.append(block)
      offset += block.size
      if block.header.flags.contains(.seal) { break }
    }
    return blocks
  }

  /// Returns the block at the start of `bytes`; nil if it is not whole.
  private func block(_ bytes: UnsafeRawBufferPointer) throws -> BlockCrew.Block? {
    guard let size = try Self.size(of: bytes, at: Position(segment: segment, offset: place.contentOffset)),
      bytes.count >= size, let header = BlockHeader(bytes)
    else { return nil }
    return BlockCrew.Block(
      header: header, start: UnsafeRawBufferPointer(rebasing: bytes[..<BlockHeader.size]),
      stored: UnsafeRawBufferPointer(rebasing: bytes[BlockHeader.size..<size]))
  }

  /// Returns the size of the block that begins with these bytes; nil if its header is not whole.
  ///
  /// - Throws: If the block is larger than a peer may send.
  static func size(of bytes: UnsafeRawBufferPointer, at place: Position) throws -> Int? {
    guard bytes.count >= BlockHeader.size else { return nil }
    guard let block = BlockHeader(bytes) else { throw SegmentFault(.torn, place, "there is no block here") }
    let (length, most) = (Int(max(block.storedLength, block.contentLength)), BlockMemory.shared.blockBytesMax)
    // The block of the largest allowed record also holds its kind and length.
    guard length <= most + 16 else {
      throw CairnError(
        .usage, "a block at \(place) has \(length) bytes; the limit is \(most)",
        hint: "raise [limits] block at the node that receives the trail, and reload", remedy: .retry,
        context: ["position": place.description])
    }
    return BlockHeader.size + Int(block.storedLength)
  }
}
