import Changes
import SystemKit

/// The last segment of a trail, to which the writer adds blocks.
final class LiveSegment {
  /// A place between two blocks of the segment, with the chain hash of everything before it.
  struct Place: Equatable {
    var fileOffset: UInt64
    var contentOffset: UInt64
    var chain: ChainHash
  }

  private static let smallBytes: UInt64 = 8192
  private static let largeBytes: UInt64 = 256 << 10
  private static let zerosAhead = [UInt8](repeating: 0, count: 128 << 10)

  let number: UInt64
  private(set) var place: Place
  /// The file offset up to which the segment has been synced.
  private(set) var durable: UInt64
  private let file: File
  private let allocateBytes: UInt64
  /// Whether the segment is part of a copy of another node's trail.
  private let isCopy: Bool
  private static let copyAheadMin: UInt64 = 64 << 10
  private var allocated: UInt64
  /// The file offset up to which bytes have been written: blocks, then zeros that later blocks overwrite.
  private var written: UInt64

  /// Creates a segment with its header, and syncs the file and its entry in the folder.
  convenience init(_ folder: TrailFolder, _ header: SegmentHeader, allocateBytes: Int) throws {
    guard let bytes = header.encoded() else {
      throw folder.bug("the name \(header.name) is too long")
    }
    try self.init(folder, header, encoded: bytes, allocateBytes: allocateBytes)
  }

  /// Creates a segment with the header bytes of another node.
  ///
  /// - Parameter isDurable: Whether to sync the header and the file's entry in the folder now.
  init(
    _ folder: TrailFolder, _ header: SegmentHeader, encoded: [UInt8], isDurable: Bool = true, isCopy: Bool = false,
    allocateBytes: Int
  ) throws {
    number = header.number
    self.isCopy = isCopy
    self.allocateBytes = UInt64(max(allocateBytes, 4096))
    file = try File(folder.segmentPath(header.number), .create)
    place = Place(fileOffset: header.length, contentOffset: 0, chain: header.chain)
    durable = isDurable ? header.length : 0
    allocated = 0
    written = header.length
    if isCopy { allocated = header.length } else { try allocate(to: header.length) }
    try encoded.withUnsafeBytes { buffer throws in try file.write(buffer, at: 0) }
    guard isDurable else { return }
    try file.sync()
    try Folder.sync(folder.path)
  }

  /// Opens the last segment after a recovery, to continue at its synced end.
  init(_ folder: TrailFolder, _ end: Recovery.End, isCopy: Bool = false, allocateBytes: Int) throws {
    number = end.segment
    self.isCopy = isCopy
    self.allocateBytes = UInt64(max(allocateBytes, 4096))
    file = try File(folder.segmentPath(end.segment), .readWrite)
    place = end.place
    durable = end.place.fileOffset
    allocated = try file.size
    written = end.place.fileOffset
  }

  var isSynced: Bool { durable == place.fileOffset }
  var isInPlace: Bool { get throws { try file.isInPlace } }

  func append(_ content: UnsafeRawBufferPointer, _ flags: BlockHeader.Flags, _ encoder: BlockEncoder) throws {
    let block = try encoder.block(
      content, flags: flags, contentOffset: place.contentOffset, durable: durable, chain: place.chain)
    let end = Place(
      fileOffset: place.fileOffset + UInt64(block.count), contentOffset: place.contentOffset + UInt64(content.count),
      chain: encoder.chain(before: place.chain, content: content))
    try append(block, to: end)
  }

  /// Adds encoded blocks to the segment, without a sync.
  ///
  /// - Parameter end: The place after the added blocks.
  func append(_ blocks: UnsafeRawBufferPointer, to end: Place) throws {
    try allocate(to: place.fileOffset + UInt64(blocks.count))
    try writeAhead(of: UInt64(blocks.count))
    try file.write(blocks, at: place.fileOffset)
    // The disk begins with a large piece while the next one arrives, so the sync finds little to do.
    if UInt64(blocks.count) > Self.largeBytes { file.beginWriting(from: place.fileOffset, count: UInt64(blocks.count)) }
    place = end
  }

  func sync() throws {
    try file.syncData()
    durable = place.fileOffset
  }

  func cut(to place: Place) throws {
    try file.truncate(to: place.fileOffset)
    allocated = place.fileOffset
    written = min(written, place.fileOffset)
    self.place = place
  }

  /// Adds the seal, which is the last block, frees the space after it, and syncs the file.
  func seal(_ encoder: BlockEncoder) throws {
    try append(UnsafeRawBufferPointer(start: nil, count: 0), [.border, .sync, .seal], encoder)
    try finish()
  }

  /// Frees the space after the last block and syncs the file, which never changes again.
  func finish() throws {
    try file.truncate(to: place.fileOffset)
    try file.sync()
    durable = place.fileOffset
  }

  func close() throws { try file.close() }

  /// Writes zeros after a small block of `count` bytes. Later blocks overwrite the zeros.
  private func writeAhead(of count: UInt64) throws {
    let end = place.fileOffset + count
    guard end > written else { return }
    written = end
    guard count <= Self.smallBytes else { return }
    let zeros = min(Self.zerosAhead.count, Int(allocated - end))
    try Self.zerosAhead.withUnsafeBytes { buffer throws in
      try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<zeros]), at: end)
    }
    written += UInt64(zeros)
  }

  /// Allocates disk space up to `end`, and some more for later small blocks. Does nothing for a large block.
  private func allocate(to end: UInt64) throws {
    guard end > allocated else { return }
    if end - place.fileOffset > Self.largeBytes {
      allocated = end
      return
    }
    let ahead = isCopy ? min(allocateBytes, max(Self.copyAheadMin, allocated)) : allocateBytes
    let wanted = max(end, allocated + ahead)
    try file.allocate(from: allocated, count: wanted - allocated)
    allocated = wanted
  }
}

extension DurableMark {
  /// Returns the durable mark that replaces this one: it has the next generation and is at the end of `segment`. The
  /// segment must be synced.
  func moved(to segment: LiveSegment, lastTransaction: UInt64) -> DurableMark {
    moved(to: segment.number, segment.place, lastTransaction: lastTransaction)
  }

  func moved(to segment: UInt64, _ place: LiveSegment.Place, lastTransaction: UInt64) -> DurableMark {
    DurableMark(
      generation: generation + 1, segment: segment, fileOffset: place.fileOffset, contentOffset: place.contentOffset,
      chain: place.chain, lastTransaction: lastTransaction, trail: trail)
  }
}
