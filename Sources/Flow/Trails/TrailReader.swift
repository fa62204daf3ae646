import Changes
import Glibc
import SystemKit

/// Reads a trail record by record up to its durable end, while a writer may continue. One thread uses a reader. Every
/// error is a `CairnError`, after which the reader cannot be used.
package final class TrailReader {
  private let folder: TrailFolder
  private let marks: MarkFile
  private var mark: DurableMark
  private var cursor: SegmentCursor
  /// The checkpoint of the reader if it is after the durable end, as after a power cut. The reader then waits until the
  /// trail reaches it.
  private var awaited: Checkpoint?
  private var watch: FolderWatch?
  private var isFailed = false
  /// The position in the source from the last progress record that was read; nil if none was read.
  package private(set) var lastSourcePosition: [UInt8]?

  /// Opens the trail in `folder` at a checkpoint; nil for the start of the trail.
  ///
  /// - Throws: `.trailMissing`, `.trailDamaged`, `.trailVersion`, and `.checkpointForeign` if the checkpoint is not of
  ///   this trail.
  package static func open(folder path: String, at checkpoint: Checkpoint?) throws -> TrailReader {
    let folder = TrailFolder(path)
    do { return try TrailReader(folder, checkpoint) } catch { throw folder.outward(error) }
  }

  private init(_ folder: TrailFolder, _ checkpoint: Checkpoint?) throws {
    self.folder = folder
    let mark: DurableMark
    (marks, mark) = try folder.openMark()
    self.mark = mark
    if let checkpoint, checkpoint.trail != mark.trail {
      throw folder.foreign(
        checkpoint, "the checkpoint is of trail \(checkpoint.trail), this one is \(mark.trail)")
    }
    let segments = try folder.segments()
    guard let oldest = segments.first, oldest <= mark.segment else {
      throw folder.damaged(mark.position, "segment \(mark.segment.hex(8)) is missing")
    }
    let number = checkpoint?.position.segment ?? oldest
    if let checkpoint, !segments.contains(number) {
      if number < oldest { throw folder.foreign(checkpoint, "the oldest segment is \(oldest.hex(8))") }
      if number > mark.segment { throw folder.foreign(checkpoint, "the trail ends at \(mark.position)") }
    }
    cursor = try Self.openCursor(folder, number, trail: mark.trail)
    guard let checkpoint else { return }
    if checkpoint.position > mark.position {
      try seekBehindMark(checkpoint)
      awaited = checkpoint
    } else {
      try seek(checkpoint)
    }
    pause()
  }

  package var name: TrailName { cursor.header.name }
  package var id: TrailID { mark.trail }
  /// Whether the trail is still in the folder. False if it was removed, or if another trail replaced it.
  package var isInPlace: Bool { get throws { try marks.file.isInPlace } }

  /// The position of the last returned record.
  package var position: Position { Position(segment: cursor.number, offset: cursor.recordOffset) }

  /// The place after the last returned commit record. Each access computes a chain hash, so access this property once
  /// per batch.
  package var checkpoint: Checkpoint {
    awaited
      ?? Checkpoint(
        trail: id, position: Position(segment: cursor.number, offset: cursor.commitOffset), chain: cursor.commitChain)
  }

  /// The durable end of the trail when the reader last read the file `durable`.
  package var durableEnd: Checkpoint { mark.checkpoint }

  /// Returns a table's schema by its id in the segment; nil before the schema's record has been read.
  package func schema(_ id: UInt64) -> TableSchema? { cursor.schemas[id] }

  /// Returns the next record; nil at the durable end, where a later call may find more. The record is valid until the
  /// next call.
  package func next() throws -> Record? {
    if isFailed { throw folder.bug("a reader is used after it failed") }
    do { return try advance() } catch {
      isFailed = true
      throw folder.outward(error)
    }
  }

  /// Frees the memory of a block of more than 1 MiB until the next call of ``next()``. Call it before the calling
  /// thread waits for anything. Records that were returned are no longer valid.
  package func pause() { cursor.pause() }

  /// Runs `body`, which decodes values of records from this reader.
  ///
  ///     try reader.decoding { try change.after?.values() }
  ///
  /// - Throws: The errors of `body`. A ``DecodingError`` becomes `trail-damaged` with the position of the record.
  package func decoding<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as DecodingError {
      throw folder.damaged(position, "a value of the record cannot be decoded: \(error)")
    }
  }

  /// Waits until the trail has more to read, `fd` is readable, or the time is over (negative: no limit). Returns true
  /// if the trail has more to read.
  package func wait(milliseconds: Int, also fd: Int32? = nil) throws -> Bool {
    do { return try waitForMark(milliseconds, fd) } catch { throw folder.outward(error, "wait for") }
  }
}

// MARK: - Reading

extension TrailReader {
  var segmentBytesRead: UInt64 { cursor.fileOffset }
  var segmentNumber: UInt64 { cursor.number }
  /// The position after the last returned commit record, without a chain hash.
  package var commitPosition: Position { Position(segment: cursor.number, offset: cursor.commitOffset) }

  private static func openCursor(_ folder: TrailFolder, _ number: UInt64, trail: TrailID) throws -> SegmentCursor {
    let cursor: SegmentCursor
    do { cursor = try SegmentCursor(folder, number) } catch let error as FileError where error.isMissing {
      throw try folder.missingSegment(number)
    }
    let header = cursor.header
    guard header.trail == trail else {
      throw cursor.fault(.content, 0, "segment is of trail \(header.trail), the durable mark of \(trail)")
    }
    guard number > 1 || (header.chain == .zero && header.firstTransaction == 1) else {
      throw cursor.fault(.content, 0, "the first segment does not begin with transaction 1")
    }
    return cursor
  }

  private func advance() throws -> Record? {
    while true {
      if let record = try cursor.nextRecord() {
        if case .progress(let position, _) = record { lastSourcePosition = position }
        return record
      }
      if try !loadNext() { return nil }
    }
  }

  private func loadNext() throws -> Bool {
    if let checkpoint = awaited {
      _ = try refreshMark()
      guard checkpoint.position <= mark.position else { return false }
      awaited = nil
      cursor = try Self.openCursor(folder, checkpoint.position.segment, trail: id)
      try seek(checkpoint)
      return true
    }
    if cursor.isSealed {
      try openNextSegment()
      return true
    }
    if isAtMark {
      if let problem = cursor.problem(at: mark) { throw cursor.fault(.content, cursor.contentEnd, problem) }
      guard try refreshMark() else { return false }
    }
    if mark.segment < cursor.number { return false }
    Pulse.beat()
    do {
      try cursor.loadBlock(limit: mark.segment == cursor.number ? mark.fileOffset : cursor.file.size)
    } catch let fault as SegmentFault where mark.segment > cursor.number {
      guard try cursor.isAtZeros else { throw fault }
      throw try purgedMeanwhile() ?? fault
    }
    if cursor.isSealed, mark.segment == cursor.number {
      throw cursor.fault(.content, cursor.contentEnd, "the durable mark is after the seal")
    }
    return true
  }

  /// Waits up to three seconds for a purge of the segment that this reader reads. Returns the error for a purged
  /// segment; nil if there was no purge.
  private func purgedMeanwhile() throws -> CairnError? {
    for _ in 0..<30 {
      if try !cursor.file.isLinked { return try folder.missingSegment(cursor.number) }
      Clock.sleep(milliseconds: 100)
    }
    return nil
  }

  private var isAtMark: Bool { mark.segment == cursor.number && mark.fileOffset == cursor.fileOffset }

  private func openNextSegment() throws {
    guard !cursor.transactions.isOpen else {
      throw cursor.fault(.content, cursor.contentEnd, "the segment ends inside of a transaction")
    }
    let next = try Self.openCursor(folder, cursor.number + 1, trail: id)
    let chain = cursor.chainAtEnd()
    guard next.header.chain == chain else {
      throw next.fault(.content, 0, "chain hash before the segment is \(next.header.chain), expected \(chain)")
    }
    let expected = cursor.transactions.lastNumber + 1
    guard next.header.firstTransaction == expected else {
      throw next.fault(
        .content, 0, "the segment's first transaction is \(next.header.firstTransaction), expected \(expected)")
    }
    guard next.header.name == name else {
      throw next.fault(.content, 0, "the segment is of trail \(next.header.name), expected \(name)")
    }
    cursor = next
  }

  /// Reads the durable mark from its file, and returns whether it moved. Ignores a durable mark of an older generation.
  private func refreshMark() throws -> Bool {
    guard let newest = try marks.newest() else {
      throw folder.damaged(nil, "both slots of the durable mark are broken")
    }
    guard newest.generation > mark.generation else { return false }
    guard newest.trail == mark.trail else { throw folder.damaged(nil, "the durable mark is of another trail") }
    let isMoved = newest.position != mark.position
    mark = newest
    return isMoved
  }

  private func seek(_ checkpoint: Checkpoint) throws {
    try skip(to: checkpoint) { try self.advance() }
  }

  /// Searches the blocks after the durable end for the place of a checkpoint, and continues there.
  ///
  /// - Throws: `checkpoint-foreign` if the trail has another chain hash there, or if a block is not whole.
  private func seekBehindMark(_ checkpoint: Checkpoint) throws {
    do {
      try skip(to: checkpoint) {
        while true {
          if let record = try self.cursor.nextRecord() { return record }
          let size = try self.cursor.file.size
          if self.cursor.isSealed || self.cursor.fileOffset >= size { return nil }
          try self.cursor.loadBlock(limit: size)
        }
      }
    } catch let fault as SegmentFault where fault.kind == .torn {
      throw folder.foreign(checkpoint, "the trail ends at \(mark.position)")
    }
  }

  private func skip(to checkpoint: Checkpoint, _ next: () throws -> Record?) throws {
    let offset = checkpoint.position.offset
    while cursor.commitOffset < offset {
      guard try next() != nil, cursor.number == checkpoint.position.segment else {
        throw folder.foreign(checkpoint, "the segment ends before it")
      }
      if cursor.recordOffset >= offset { break }
    }
    guard cursor.commitOffset == offset else {
      throw folder.foreign(checkpoint, "no transaction ends there")
    }
    guard cursor.commitChain == checkpoint.chain else {
      throw folder.foreign(
        checkpoint, "chain hash is \(cursor.commitChain), the checkpoint has \(checkpoint.chain)")
    }
  }
}

// MARK: - Waiting

extension TrailReader {
  private func waitForMark(_ milliseconds: Int, _ fd: Int32?) throws -> Bool {
    let deadline = milliseconds < 0 ? nil : ContinuousClock.now + .milliseconds(milliseconds)
    let watch = try openWatch()
    while true {
      Pulse.beat()
      // Events are forgotten before the mark is read, so a later event ends the poll.
      watch.drain()
      if try hasMore() { return true }
      guard try marks.file.isInPlace else { throw folder.missing() }
      var polled = [pollfd(fd: watch.descriptor, events: Int16(POLLIN), revents: 0)]
      if let fd { polled.append(pollfd(fd: fd, events: Int16(POLLIN), revents: 0)) }
      let count = poll(&polled, nfds_t(polled.count), Self.pollTime(until: deadline))
      if count < 0, errno != EINTR { throw FileError(code: errno, operation: "poll", path: folder.markPath) }
      if count > 0, polled.count > 1, polled[1].revents != 0 { return try hasMore() }
      if let deadline, ContinuousClock.now >= deadline { return try hasMore() }
    }
  }

  private func openWatch() throws -> FolderWatch {
    if let watch { return watch }
    let new = try folder.watch()
    watch = new
    return new
  }

  private func hasMore() throws -> Bool {
    if try refreshMark() { return awaited.map { $0.position <= mark.position } ?? true }
    if awaited != nil { return false }
    return !cursor.isAtBlockEnd || mark.segment > cursor.number
      || (mark.segment == cursor.number && mark.fileOffset > cursor.fileOffset)
  }

  private static func pollTime(until deadline: ContinuousClock.Instant?) -> Int32 {
    guard let deadline else { return -1 }
    let left = ContinuousClock.now.duration(to: deadline)
    if left <= .zero { return 0 }
    let (seconds, attoseconds) = left.components
    return seconds < 86_400 ? Int32(seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1) : 86_400_000
  }
}
