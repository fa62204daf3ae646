import Changes
import Glibc
import SystemKit

extension Trail {
  /// Builds the indexes of sealed segments that have none. Returns their numbers.
  ///
  /// - Parameters:
  ///   - most: The highest number of indexes to build now.
  ///   - processorMilliseconds: The processor time for one segment.
  ///   - isEnding: Whether to return now. Asked often, inside of a segment too.
  ///   - failed: Called with the error of a segment that cannot be indexed, or not in this time. It gets an empty index,
  ///     so it is not tried again.
  package static func buildIndexes(
    folder path: String, most: Int = .max, processorMilliseconds: Int64 = 30_000, isEnding: () -> Bool = { false },
    failed: (CairnError) -> Void = { _ in }
  ) throws -> [UInt64] {
    struct IsEnding: Error {}
    let folder = TrailFolder(path)
    var built: [UInt64] = []
    var error: (any Error)?
    do {
      let (_, mark) = try folder.openMark()
      for number in try folder.segments() where number < mark.segment && built.count < most {
        if isEnding() { break }
        if Folder.exists(folder.indexPath(number)) { continue }
        let limit = Clock.threadMilliseconds + processorMilliseconds
        do {
          let isWritten = try folder.writeIndex(number) {
            if isEnding() { throw IsEnding() }
            if Clock.threadMilliseconds >= limit { throw SegmentFault.tooLarge(number) }
          }
          if isWritten { built.append(number) }
        } catch let fault as SegmentFault {
          guard Folder.exists(folder.segmentPath(number)) else { continue }
          try folder.writeEmptyIndex(number, of: mark.trail)
          built.append(number)
          failed(folder.outward(fault, "index"))
        } catch let error as FileError where error.isMissing {
          continue
        } catch is IsEnding { break } catch let other { error = error ?? other }
      }
    } catch { throw folder.outward(error, "index") }
    // Segments after the one with the error are indexed all the same.
    if let error { throw folder.outward(error, "index") }
    return built
  }
}

extension Clock {
  /// The processor time of the calling thread, ms.
  package static var threadMilliseconds: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }
}

extension SegmentFault {
  static func tooLarge(_ number: UInt64) -> SegmentFault {
    SegmentFault(.content, Position(segment: number, offset: 0), "the segment is too large to be indexed")
  }
}

extension TrailFolder {
  func indexPath(_ number: UInt64) -> String { "\(path)/\(number.hex(8)).idx" }

  /// Returns the disk space of a segment's index in bytes; 0 if it has none.
  func indexAllocated(_ number: UInt64) -> UInt64 {
    var info = stat()
    return stat(indexPath(number), &info) == 0 ? UInt64(clamping: Int64(info.st_blocks) * 512) : 0
  }

  /// Removes a segment and its index, the index first. No error if the index is missing.
  func removeSegment(_ number: UInt64) throws(FileError) {
    for suffix in ["", ".new"] {
      do throws(FileError) { try Folder.remove(indexPath(number) + suffix) } catch {
        if !error.isMissing { throw error }
      }
    }
    try Folder.remove(segmentPath(number))
  }

  /// Builds the index of a sealed segment and writes its file. Returns false for a segment that needs none.
  ///
  /// - Parameter check: Called often. An error that it throws ends the work.
  func writeIndex(_ number: UInt64, check: () throws -> Void) throws -> Bool {
    let size = try File(segmentPath(number), .read).size
    guard size >= IndexBuilder.segmentBytesMin else { return false }
    let budget = IndexBuilder.budget(size)
    let bytes = try IndexBuilder.build(
      self, number, limit: size, isSealed: true, lengthMax: min(budget, SegmentIndex.lengthMax), check: check)
    guard bytes.count <= budget else { throw SegmentFault.tooLarge(number) }
    try writeIndex(number, bytes)
    return true
  }

  /// Writes an index that makes searches read the segment.
  func writeEmptyIndex(_ number: UInt64, of trail: TrailID) throws {
    let size = try File(segmentPath(number), .read).size
    try writeIndex(number, SegmentIndex.empty(.init(trail: trail, segment: number, bytes: size, chain: .zero)))
  }

  private func writeIndex(_ number: UInt64, _ bytes: [UInt8]) throws {
    try bytes.withUnsafeBytes { try File.replace(indexPath(number), with: $0) }
    // The segment may have been purged meanwhile.
    if !Folder.exists(segmentPath(number)) { try? Folder.remove(indexPath(number)) }
  }

  /// Returns the index of a segment: from its file, or built now. Nil if the segment was purged.
  ///
  /// - Parameter isRebuilt: Whether to build the index even if it has a file.
  func index(_ number: UInt64, _ mark: DurableMark, isRebuilt: Bool = false) throws -> OpenIndex? {
    let file: File
    do throws(FileError) { file = try File(segmentPath(number), .read) } catch {
      if error.isMissing { return nil }
      throw error
    }
    let isSealed = number < mark.segment
    let limit = isSealed ? try file.size : mark.fileOffset
    if isSealed, !isRebuilt, let identity = try identity(file, number, limit), let index = OpenIndex(self, identity) {
      return index
    }
    let bytes = try IndexBuilder.build(self, number, limit: limit, isSealed: isSealed)
    guard let index = OpenIndex(bytes) else {
      throw SegmentFault(
        .content, Position(segment: number, offset: 0), "the segment is too large to be searched: look with --from")
    }
    if isSealed, limit >= IndexBuilder.segmentBytesMin, bytes.count <= IndexBuilder.budget(limit), isOwn {
      try? writeIndex(number, bytes)
    }
    return index
  }

  /// Returns the identity of a sealed segment, whose last block is the seal; nil if it is damaged.
  private func identity(_ file: File, _ number: UInt64, _ size: UInt64) throws -> SegmentIndex.Identity? {
    let header = try SegmentHeader.read(file, number: number)
    guard size >= header.length + UInt64(BlockHeader.size) else { return nil }
    let seal = try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
      try file.read(into: buffer, at: size - UInt64(BlockHeader.size)) == buffer.count
        ? BlockHeader(UnsafeRawBufferPointer(buffer)) : nil
    }
    guard let seal, seal.flags.contains(.seal) else { return nil }
    return .init(trail: header.trail, segment: number, bytes: size, chain: seal.chain)
  }

  // A file of another user would be in the way of the daemon that owns the folder.
  private var isOwn: Bool {
    var info = stat()
    return stat(path, &info) == 0 && info.st_uid == geteuid() && access(path, W_OK) == 0
  }
}
