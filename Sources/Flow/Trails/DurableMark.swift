import Changes
import CodecKit

/// The durable mark in encoded form, stored twice in the file `durable` (`docs/trail-format.md`, Durable mark).
struct DurableMark: Equatable {
  static let magic: UInt64 = 0x5255_444e_5249_4143  // CAIRNDUR
  static let size = 128

  var generation: UInt64
  var segment: UInt64
  /// The file offset after the last synced block that ends a transaction.
  var fileOffset: UInt64
  var contentOffset: UInt64
  var chain: ChainHash
  /// The number of the last transaction before the durable mark; 0 if there is none.
  var lastTransaction: UInt64
  var trail: TrailID

  var position: Position { Position(segment: segment, offset: contentOffset) }
  var checkpoint: Checkpoint { Checkpoint(trail: trail, position: position, chain: chain) }

  func encoded() -> [UInt8] {
    var out = ByteWriter(capacity: Self.size)
    out.appendFixed(Self.magic)
    out.appendFixed(generation)
    out.appendFixed(segment)
    out.appendFixed(fileOffset)
    out.appendFixed(contentOffset)
    out.append(chain.bytes)
    out.appendFixed(lastTransaction)
    out.append(trail.bytes)
    while out.count < Self.size - 4 { out.append(0) }
    out.appendFixed(CRC32C.of(out.bytes))
    return Array(out.bytes)
  }

  /// Decodes one of the two durable marks in the file `durable`; nil if its bytes are not valid.
  init?(_ slot: ArraySlice<UInt8>) {
    guard slot.count == Self.size else { return nil }
    var fields = Fields(Array(slot))
    guard fields.next() == Self.magic else { return nil }
    generation = fields.next()
    segment = fields.next()
    fileOffset = fields.next()
    contentOffset = fields.next()
    guard let chain = ChainHash(fields.next(32)) else { return nil }
    self.chain = chain
    lastTransaction = fields.next()
    guard let trail = TrailID(fields.next(16)) else { return nil }
    self.trail = trail
    _ = fields.next(28)
    guard fields.next() == CRC32C.of(Array(slot.dropLast(4))), NumberBounds.isSegment(segment),
      [generation, fileOffset, contentOffset, lastTransaction].allSatisfy(NumberBounds.isNumber)
    else { return nil }
  }

  init(
    generation: UInt64, segment: UInt64, fileOffset: UInt64, contentOffset: UInt64, chain: ChainHash,
    lastTransaction: UInt64, trail: TrailID
  ) {
    self.generation = generation
    self.segment = segment
    self.fileOffset = fileOffset
    self.contentOffset = contentOffset
    self.chain = chain
    self.lastTransaction = lastTransaction
    self.trail = trail
  }
}
