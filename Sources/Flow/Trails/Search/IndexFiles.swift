import Changes
import Glibc
import SystemKit

extension Trail {
  /// Builds the indexes of sealed segments that have none. Returns their numbers.
  ///
  /// - Parameter most: The highest number of indexes to build now.
  package static func buildIndexes(folder path: String, most: Int = .max, isEnding: () -> Bool = { false }) throws
    -> [UInt64]
  {
    let folder = TrailFolder(path)
    var built: [UInt64] = []
    do {
      let (_, mark) = try folder.openMark()
      for number in try folder.segments() where number < mark.segment && built.count < most {
        if isEnding() || Folder.exists(folder.indexPath(number)) { continue }
        do {
          if try folder.writeIndex(number) { built.append(number) }
        } catch let error as FileError where error.isMissing { continue }
      }
    } catch { throw folder.outward(error, "index") }
    return built
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
  func writeIndex(_ number: UInt64) throws -> Bool {
    let size = try File(segmentPath(number), .read).size
    guard size >= IndexBuilder.segmentBytesMin else { return false }
    let bytes = try IndexBuilder.build(self, number, limit: size, isSealed: true)
    try writeIndex(number, bytes)
    return true
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
    if isSealed, limit >= IndexBuilder.segmentBytesMin, isOwn { try? writeIndex(number, bytes) }
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
