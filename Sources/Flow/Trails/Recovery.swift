import Changes
import CodecKit
import SystemKit

/// Finds the end of a trail for its writer (`docs/trail-format.md`, Recovery). Checks everything before the durable
/// mark, keeps whole transactions after it, and cuts off the rest. The caller holds the lock of the folder.
struct Recovery {
  /// The part of a trail after its durable mark that is kept.
  enum Kept {
    /// Everything up to the end of the last whole transaction.
    case transactions
    /// All whole blocks, even those of an unfinished transaction, for a copy of another node's trail.
    case blocks
  }

  /// The place where the writer continues, with the state of the trail there.
  struct End {
    var segment: UInt64
    var place: LiveSegment.Place
    var records: SegmentRecords
    var lastHeader: TransactionHeader?
    var isSealed: Bool
    var lastNumber: UInt64 { records.transactions.lastNumber }
  }

  let folder: TrailFolder
  let mark: DurableMark
  let name: TrailName
  let keeps: Kept
  private(set) var cut: TrailRecovery?
  /// The end of the last whole transaction, to which the durable mark may move; nil before ``run()``.
  private(set) var border: (segment: UInt64, place: LiveSegment.Place, lastNumber: UInt64)?

  init(_ folder: TrailFolder, _ mark: DurableMark, _ name: TrailName, keeps: Kept) {
    self.folder = folder
    self.mark = mark
    self.name = name
    self.keeps = keeps
  }

  /// Recovers the trail, and returns its synced end. The durable mark stays where it is.
  mutating func run() throws -> End {
    let segments = try folder.segments()
    var cursor = try open(mark.segment, lastHeader: nil)
    try readToMark(cursor)
    var end = try recoverBehindMark(cursor, hasLater: segments.contains { $0 > mark.segment })
    while end.isSealed, segments.contains(end.segment + 1) {
      do {
        cursor = try open(end.segment + 1, lastHeader: end.lastHeader)
      } catch let fault as SegmentFault where fault.kind == .torn {
        try dropUnfinished(end.segment + 1, fault, hasLater: segments.contains { $0 > end.segment + 1 })
        return try withHeader(end)
      }
      try check(cursor.header, follows: end)
      end = try recoverBehindMark(cursor, hasLater: segments.contains { $0 > end.segment + 1 })
    }
    return try withHeader(end)
  }

  private func open(_ number: UInt64, lastHeader: TransactionHeader?) throws -> SegmentCursor {
    let cursor: SegmentCursor
    do { cursor = try SegmentCursor(folder, number, lastHeader: lastHeader) } catch let error as FileError
      where error.isMissing
    {
      throw folder.damaged(Position(segment: number, offset: 0), "segment \(number.hex(8)) is missing")
    }
    guard cursor.header.trail == mark.trail else {
      throw cursor.fault(.content, 0, "segment is of trail \(cursor.header.trail), the durable mark of \(mark.trail)")
    }
    guard cursor.header.name == name else {
      throw CairnError(
        .stateForeign, "folder \(folder.path) contains trail \(cursor.header.name), not \(name)",
        hint: "use another state folder, or another name for the capture", context: ["trail": folder.label])
    }
    return cursor
  }

  private func check(_ header: SegmentHeader, follows end: End) throws {
    guard header.chain == end.place.chain, header.firstTransaction == end.lastNumber + 1 else {
      throw folder.damaged(
        Position(segment: header.number, offset: 0), "the segment does not follow segment \(end.segment.hex(8))")
    }
  }

  private func readToMark(_ cursor: SegmentCursor) throws {
    while cursor.fileOffset < mark.fileOffset {
      Pulse.beat()
      try cursor.loadBlock(limit: mark.fileOffset)
      while try cursor.nextRecord() != nil {}
    }
    if mark.fileOffset < cursor.fileOffset {
      throw cursor.fault(.content, 0, "the durable mark is inside the segment header")
    }
    if let problem = cursor.problem(at: mark) { throw cursor.fault(.content, cursor.contentEnd, problem) }
  }

  /// Reads the whole blocks after the durable mark, and cuts off the rest. For a copy of a trail, keeps all whole
  /// blocks; for a writer's own trail, only whole transactions.
  private mutating func recoverBehindMark(_ cursor: SegmentCursor, hasLater: Bool) throws -> End {
    let start = cursor.number == mark.segment ? cursor.fileOffset : 0
    let size = try cursor.file.size
    var end = Self.end(cursor)
    border = (end.segment, end.place, end.lastNumber)
    var tear: SegmentFault?
    while !end.isSealed, cursor.fileOffset < size {
      do { try cursor.loadBlock(limit: size) } catch let fault as SegmentFault where fault.kind == .torn {
        tear = fault
        break
      }
      Pulse.beat()
      while try cursor.nextRecord() != nil {}
      if keeps == .blocks || cursor.isAtBorder { end = Self.end(cursor) }
      if cursor.isAtBorder, !end.isSealed { border = (end.segment, end.place, end.lastNumber) }
    }
    if !end.isSealed, keeps == .transactions {
      // The next segment is created only after the last block of this one (the seal) has been synced.
      if hasLater {
        throw tear ?? cursor.fault(.torn, cursor.contentEnd, "the seal is missing, but there is a later segment")
      }
      let search = TailSearch(
        file: cursor.file, size: size, breakOffset: cursor.fileOffset, contentOffset: cursor.contentEnd)
      if let tear, let later = try search.laterSyncedBlock() {
        throw folder.damaged(
          tear.position, "\(tear.problem); a later block, at file offset \(later), proves that it was synced")
      }
    }
    try cutAndSync(cursor, start: start, end: end, size: size)
    return end
  }

  private static func end(_ cursor: SegmentCursor) -> End {
    End(
      segment: cursor.number,
      place: .init(fileOffset: cursor.fileOffset, contentOffset: cursor.contentEnd, chain: cursor.chainAtEnd()),
      records: cursor.rules, lastHeader: cursor.transactions.lastHeader, isSealed: cursor.isSealed)
  }

  private mutating func cutAndSync(_ cursor: SegmentCursor, start: UInt64, end: End, size: UInt64) throws {
    let search = TailSearch(
      file: cursor.file, size: size, breakOffset: end.place.fileOffset, contentOffset: end.place.contentOffset)
    let torn = try search.usedBytes()
    guard torn > 0 || end.place.fileOffset > start || end.isSealed else { return }
    let file = try File(cursor.file.path, .readWrite)
    try rewrite(file, from: start, to: end.place.fileOffset)
    if torn > 0 || end.isSealed { try file.truncate(to: end.place.fileOffset) }
    try file.sync()
    try file.close()
    if torn > 0 {
      cut = TrailRecovery(
        bytes: torn + (cut?.bytes ?? 0), position: Position(segment: end.segment, offset: end.place.contentOffset))
    }
  }

  /// Writes bytes of the file again, unchanged, so that the next sync writes them to the disk. After a failed sync, the
  /// kernel may regard lost pages as written.
  private func rewrite(_ file: File, from start: UInt64, to end: UInt64) throws {
    var window = Scratch(capacity: 1 << 20)
    var offset = start
    while offset < end {
      let piece = try window.bytes(Int(min(1 << 20, end - offset)))
      guard try file.read(into: piece, at: offset) == piece.count else {
        throw folder.damaged(nil, "\(file.path) became shorter while it was recovered")
      }
      try file.write(UnsafeRawBufferPointer(piece), at: offset)
      offset += UInt64(piece.count)
    }
  }

  /// Removes the last segment if a crash left it without a whole header. Throws `fault` if the segment is damaged
  /// instead.
  private mutating func dropUnfinished(_ number: UInt64, _ fault: SegmentFault, hasLater: Bool) throws {
    let file = try File(folder.segmentPath(number), .read)
    let search = TailSearch(file: file, size: try file.size, breakOffset: 0, contentOffset: 0)
    if try hasLater || (keeps == .transactions && search.laterSyncedBlock() != nil) { throw fault }
    cut = TrailRecovery(bytes: try search.usedBytes() + (cut?.bytes ?? 0), position: fault.position)
    try folder.removeSegment(number)
    try Folder.sync(folder.path)
  }

  /// Returns `end` with the header of the trail's last transaction.
  ///
  /// If the last segment has no transaction yet, reads the header from the previous segment. For the copy of a trail by
  /// a pump, returns `end` unchanged.
  private func withHeader(_ end: End) throws -> End {
    guard keeps == .transactions, end.lastHeader == nil, end.lastNumber > 0 else { return end }
    var end = end
    let cursor = try open(end.segment - 1, lastHeader: nil)
    while !cursor.isSealed {
      try cursor.loadBlock(limit: cursor.file.size)
      while try cursor.nextRecord() != nil {}
    }
    guard cursor.transactions.lastNumber == end.lastNumber, let header = cursor.transactions.lastHeader else {
      throw cursor.fault(.content, cursor.contentEnd, "transaction \(end.lastNumber) is missing")
    }
    end.lastHeader = header
    return end
  }
}
