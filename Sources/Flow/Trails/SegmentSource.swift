import Changes
import CodecKit
import SystemKit

/// Reads the segment files of a trail as whole blocks, up to the durable end, for a copy on another node. A writer may
/// add blocks meanwhile. One thread uses a source; every error is a `CairnError`.
package final class SegmentSource {
  /// The result of comparing the end of a peer's copy with the trail.
  package enum Verdict: Equatable, Sendable {
    /// The peer's copy ends at a place in the trail, and may continue there.
    case follows
    case atEnd
    case purged
    /// The peer's copy ends after the durable end of the trail.
    case beyond
    /// The trail and the peer's copy have different contents before the end of the copy.
    case forked
  }

  /// Consecutive whole blocks of one segment. At offset 0, the segment's header comes before them.
  package struct Piece: Equatable, Sendable {
    package var place: TrailPlace
    package var count: Int
    /// The place after these blocks; after the last block of a segment, the start of the next segment.
    package var next: TrailPlace
  }

  private struct OpenSegment {
    let file: File
    let header: SegmentHeader
  }

  private let folder: TrailFolder
  private let marks: MarkFile
  private var mark: DurableMark
  private var open: OpenSegment?
  private var oldest: UInt64 = 0

  /// Opens the trail in a folder.
  ///
  /// - Throws: `trail-missing` if there is no trail.
  package static func open(folder path: String) throws -> SegmentSource {
    let folder = TrailFolder(path)
    do { return try SegmentSource(folder) } catch { throw folder.outward(error) }
  }

  private init(_ folder: TrailFolder) throws {
    self.folder = folder
    (marks, mark) = try folder.openMark()
  }

  package var id: TrailID { mark.trail }
  /// The durable end of the trail when this object last read the file `durable`.
  package var end: TrailPlace { TrailPlace(segment: mark.segment, offset: mark.fileOffset, chain: mark.chain) }

  /// Reads the file `durable`, and returns the first place of the trail and its present durable end.
  package func standing() throws -> TrailStanding {
    try guarded {
      try refresh()
      guard let live = try segment(mark.segment) else {
        throw folder.damaged(mark.position, "segment \(mark.segment.hex(8)) is missing")
      }
      return TrailStanding(
        name: live.header.name, id: id, oldest: try oldestSegment(), end: end, position: mark.position,
        lastTransaction: mark.lastTransaction)
    }
  }

  /// Compares the end of a peer's copy with the trail as it is now.
  ///
  /// - Parameter chain: The chain hash at the end of the copy; nil at the start of a segment, if the peer has no bytes.
  package func judge(segment number: UInt64, offset: UInt64, chain: ChainHash?) throws -> Verdict {
    try guarded {
      try refresh()
      guard number <= mark.segment else { return .beyond }
      if number == mark.segment, offset == mark.fileOffset { return mark.chain == chain ? .atEnd : .forked }
      if number == mark.segment, offset > mark.fileOffset { return .beyond }
      guard let segment = try segment(number) else {
        if number < mark.segment, try oldestSegment() > number { return .purged }
        throw folder.damaged(Position(segment: number, offset: 0), "segment \(number.hex(8)) is missing")
      }
      if offset == 0 { return chain == nil || segment.header.chain == chain ? .follows : .forked }
      let limit = try limit(segment)
      if offset == limit, number < mark.segment {
        return try judge(segment: number + 1, offset: 0, chain: chain)
      }
      guard offset >= segment.header.length, let block = try block(segment, at: offset, limit: limit) else {
        return .forked
      }
      return block.chain == chain ? .follows : .forked
    }
  }

  package func judge(_ place: TrailPlace) throws -> Verdict {
    try judge(segment: place.segment, offset: place.offset, chain: place.chain)
  }

  /// Returns the place at which a segment begins, before its header; nil if the segment does not exist.
  package func start(of number: UInt64) throws -> TrailPlace? {
    try guarded {
      guard number <= mark.segment, let segment = try segment(number) else { return nil }
      return TrailPlace(segment: number, offset: 0, chain: segment.header.chain)
    }
  }

  /// Returns the next blocks after a place: at most `max` bytes, but at least one block. After the end of a finished
  /// segment these are the blocks of the next segment. Nil at the durable end, and if the segment does not exist.
  ///
  /// - Parameter place: A place between two blocks of the trail, as ``judge(_:)`` has found.
  package func piece(at place: TrailPlace, max: Int) throws -> Piece? {
    try guarded {
      guard let segment = try segment(place.segment) else { return nil }
      let limit = try limit(segment)
      if place.offset == limit, place.segment < mark.segment {
        return try piece(at: TrailPlace(segment: place.segment + 1, offset: 0, chain: place.chain), max: max)
      }
      var offset = place.offset
      if offset == 0 { offset = segment.header.length }
      var next = TrailPlace(segment: place.segment, offset: offset, chain: place.chain)
      while offset < limit {
        guard let block = try block(segment, at: offset, limit: limit) else { throw broken(segment, offset) }
        next.chain = block.chain
        let size = UInt64(BlockHeader.size) + UInt64(block.storedLength)
        if offset > place.offset, offset - place.offset + size > UInt64(max) { break }
        offset += size
        next.offset = offset
        if block.flags.contains(.seal) {
          return Piece(
            place: place, count: Int(offset - place.offset),
            next: TrailPlace(segment: place.segment + 1, offset: 0, chain: block.chain))
        }
        if offset == limit {
          guard place.segment == mark.segment else { throw broken(segment, offset) }
          next.chain = mark.chain
        }
      }
      guard offset > place.offset else { return nil }
      return Piece(place: place, count: Int(offset - place.offset), next: next)
    }
  }

  /// Fills `buffer` with the bytes of `piece` from offset `start` on.
  package func read(_ piece: Piece, from start: Int = 0, into buffer: UnsafeMutableRawBufferPointer) throws {
    try guarded {
      guard let segment = try segment(piece.place.segment) else {
        throw try folder.missingSegment(piece.place.segment)
      }
      let offset = piece.place.offset + UInt64(start)
      guard try segment.file.read(into: buffer, at: offset) == buffer.count else { throw broken(segment, offset) }
    }
  }

  /// Returns a segment's file, opened for reading, the number of its durable bytes, and whether it is finished. Nil if
  /// the segment does not exist.
  package func file(_ number: UInt64) throws -> (file: File, count: UInt64, isSealed: Bool)? {
    try guarded { () throws -> (file: File, count: UInt64, isSealed: Bool)? in
      guard number <= mark.segment else { return nil }
      let file: File
      do { file = try File(folder.segmentPath(number), .read) } catch let error as FileError where error.isMissing {
        return nil
      }
      if number == mark.segment { return (file, mark.fileOffset, false) }
      return (file, try file.size, true)
    }
  }
}

extension SegmentSource {
  private func guarded<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch { throw folder.outward(error) }
  }

  private func refresh() throws {
    guard try marks.file.isInPlace else { throw folder.missing() }
    guard let newest = try marks.newest() else {
      throw folder.damaged(nil, "both slots of the durable mark are broken")
    }
    if newest.generation > mark.generation { mark = newest }
  }

  private func oldestSegment() throws -> UInt64 {
    if oldest == 0 || !Folder.exists(folder.segmentPath(oldest)) {
      oldest = try folder.segments().first ?? mark.segment
    }
    return oldest
  }

  private func segment(_ number: UInt64) throws -> OpenSegment? {
    if let open, open.header.number == number, try open.file.isLinked { return open }
    do {
      let file = try File(folder.segmentPath(number), .read)
      let header = try SegmentHeader.read(file, number: number)
      guard header.trail == mark.trail else {
        throw folder.damaged(Position(segment: number, offset: 0), "the segment is of trail \(header.trail)")
      }
      let segment = OpenSegment(file: file, header: header)
      open = segment
      return segment
    } catch let error as FileError where error.isMissing { return nil }
  }

  private func limit(_ segment: OpenSegment) throws -> UInt64 {
    segment.header.number == mark.segment ? mark.fileOffset : try segment.file.size
  }

  /// Returns the header of the block at a file offset; nil if no whole block is there before `limit`.
  private func block(_ segment: OpenSegment, at offset: UInt64, limit: UInt64) throws -> BlockHeader? {
    guard offset <= limit, limit - offset >= UInt64(BlockHeader.size) else { return nil }
    let block = try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
      try segment.file.read(into: buffer, at: offset) == buffer.count
        ? BlockHeader(UnsafeRawBufferPointer(buffer)) : nil
    }
    guard let block, UInt64(block.storedLength) <= limit - offset - UInt64(BlockHeader.size) else { return nil }
    return block
  }

  private func broken(_ segment: OpenSegment, _ offset: UInt64) -> CairnError {
    folder.damaged(
      Position(segment: segment.header.number, offset: 0), "there is no whole block at file offset \(offset)")
  }
}
