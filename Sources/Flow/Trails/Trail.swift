import Changes
import SystemKit

/// Functions about whole trails, which need no lock while a writer adds to the trail.
package enum Trail {
  /// Returns whether a folder has a trail, by the trail's file `durable`.
  package static func exists(folder: String) -> Bool { Folder.exists(TrailFolder(folder).markPath) }

  /// Returns the sorted names of the trails in a state folder; empty if the folder does not exist.
  package static func names(state: String) throws -> [TrailName] {
    let entries: [String]
    do throws(FileError) { entries = try Folder.names(state) } catch {
      if error.isMissing { return [] }
      throw error.asCairnError(doing: "list the trails")
    }
    return entries.compactMap { TrailName($0) }
      .filter { exists(folder: "\(state)/\($0)") }
  }

  /// Returns the facts about each trail in a state folder.
  package static func list(state: String) throws -> [TrailInfo] {
    try names(state: state).map { try info(folder: "\(state)/\($0)") }
  }

  /// Starts to watch the durable mark of the trail in a folder. A caller that reads the trail afterwards misses no later
  /// change.
  ///
  /// - Throws: `trail-missing` if there is no trail in the folder.
  package static func watch(folder: String) throws -> FolderWatch { try TrailFolder(folder).watch() }

  /// Returns the id of the trail in a folder; nil if the folder has no trail yet.
  package static func id(folder path: String) throws -> TrailID? {
    guard exists(folder: path) else { return nil }
    let folder = TrailFolder(path)
    do { return try folder.openMark().1.trail } catch { throw folder.outward(error) }
  }

  /// Returns the facts about the trail in a folder, from the file `durable` and the segment headers.
  ///
  /// - Parameter earlier: Facts about the same folder, if there are any. Their sealed segments, which never change, are
  ///   not read again.
  package static func info(folder path: String, since earlier: TrailInfo? = nil) throws -> TrailInfo {
    let folder = TrailFolder(path)
    do { return try info(folder, since: earlier) } catch { throw folder.outward(error) }
  }

  /// Returns the start of the segment that contains a transaction. For a purged transaction, this is the oldest
  /// segment; for a future one, the segment of the last transaction.
  package static func segmentStart(folder path: String, of number: UInt64) throws -> Checkpoint {
    let folder = TrailFolder(path)
    do {
      let info = try info(folder)
      let reached = min(number, info.lastTransaction)
      let segment = info.segments.last { $0.firstTransaction <= reached } ?? info.segments[0]
      let header = try SegmentHeader.read(
        File(folder.segmentPath(segment.number), .read), number: segment.number)
      return Checkpoint(
        trail: info.id, position: Position(segment: segment.number, offset: 0), chain: header.chain)
    } catch { throw folder.outward(error) }
  }

  /// Returns the number of the first transaction of a segment; nil if the segment does not exist.
  package static func firstTransaction(folder path: String, ofSegment number: UInt64) throws -> UInt64? {
    let folder = TrailFolder(path)
    let segment = folder.segmentPath(number)
    guard Folder.exists(segment) else { return nil }
    do { return try SegmentHeader.read(File(segment, .read), number: number).firstTransaction } catch {
      throw folder.outward(error)
    }
  }

  /// Returns the id of the trail in a folder and its last durable transaction; nil if the folder has no trail.
  package static func end(folder path: String) throws -> (id: TrailID, lastTransaction: UInt64)? {
    guard exists(folder: path) else { return nil }
    let folder = TrailFolder(path)
    do {
      let (_, mark) = try folder.openMark()
      return (mark.trail, mark.lastTransaction)
    } catch { throw folder.outward(error) }
  }

  /// Reads a trail from its oldest segment to its durable end, and checks every checksum, chain hash, header, record
  /// and value. Throws at the first fault.
  ///
  /// - Parameter progress: Called from time to time with the number of bytes that have been checked, and with the
  ///   number of bytes to check in all.
  package static func verify(
    folder path: String, progress: (_ done: UInt64, _ total: UInt64) -> Void = { _, _ in }
  ) throws -> TrailSummary {
    let folder = TrailFolder(path)
    do {
      let info = try info(folder)
      let reader = try TrailReader.open(folder: path, at: nil)
      var verification = Verification(reader: reader, folder: folder)
      try verification.run(info, progress)
      progress(info.bytes, info.bytes)
      return verification.summary
    } catch { throw folder.outward(error) }
  }

  /// Deletes the finished segments before the segment of `below`, oldest first, and returns their numbers. `below` must
  /// not be after the durable checkpoint of any reader. The segment of the trail's last transaction is always kept.
  package static func purge(folder path: String, below: Position) throws -> [UInt64] {
    let folder = TrailFolder(path)
    do {
      let (_, mark) = try folder.openMark()
      let kept = mark.contentOffset > 0 ? mark.segment : mark.segment - min(mark.segment, 1)
      let deleted = try folder.segments().filter { $0 < min(below.segment, kept) }
      for number in deleted {
        // Another reader of the trail may delete it at the same time.
        do throws(FileError) { try folder.removeSegment(number) } catch {
          if !error.isMissing { throw error }
        }
      }
      if !deleted.isEmpty { try Folder.sync(path) }
      return deleted
    } catch { throw folder.outward(error, "purge") }
  }

  private static func info(_ folder: TrailFolder, since earlier: TrailInfo? = nil) throws -> TrailInfo {
    let (_, mark) = try folder.openMark()
    var segments: [TrailInfo.Segment] = []
    var name: TrailName?
    var writtenAt: Int64 = 0
    let now = Clock.system.microseconds()
    let known = sealed(earlier, mark)
    let (numbers, indexes) = try folder.segmentsAndIndexes()
    for number in numbers where number <= mark.segment {
      if number < mark.segment, var segment = known[number] {
        let isIndexed = indexes.contains(number)
        if isIndexed != (segment.indexed > 0) { segment.indexed = isIndexed ? folder.indexAllocated(number) : 0 }
        segments.append(segment)
        continue
      }
      guard let (header, file) = try header(folder, number) else { continue }
      let isLive = number == mark.segment
      writtenAt = try file.writtenAt
      segments.append(
        .init(
          number: number, bytes: isLive ? mark.fileOffset : try file.size, isSealed: !isLive,
          firstTransaction: header.firstTransaction, created: min(header.created, writtenAt, now),
          allocated: try file.allocated,
          indexed: indexes.contains(number) ? folder.indexAllocated(number) : 0))
      name = header.name
    }
    guard let first = segments.first, segments.last?.number == mark.segment, let name else {
      throw folder.damaged(mark.position, "segment \(mark.segment.hex(8)) is missing")
    }
    return TrailInfo(
      folder: folder.path, name: name, id: mark.trail, segments: segments,
      firstPosition: Position(segment: first.number, offset: 0), end: mark.checkpoint,
      lastTransaction: mark.lastTransaction, bytes: segments.reduce(0) { $0 + $1.bytes }, writtenAt: writtenAt)
  }

  /// Returns the sealed segments of earlier facts by number; none if the trail has begun again since.
  private static func sealed(_ earlier: TrailInfo?, _ mark: DurableMark) -> [UInt64: TrailInfo.Segment] {
    guard let earlier, earlier.id == mark.trail, earlier.end.position <= mark.position,
      earlier.lastTransaction <= mark.lastTransaction
    else { return [:] }
    return Dictionary(earlier.segments.lazy.filter(\.isSealed).map { ($0.number, $0) }) { $1 }
  }

  /// Returns the header of a segment with the open file; nil if the segment has just been purged.
  private static func header(_ folder: TrailFolder, _ number: UInt64) throws -> (SegmentHeader, File)? {
    do {
      let file = try File(folder.segmentPath(number), .read)
      return (try SegmentHeader.read(file, number: number), file)
    } catch let error as FileError where error.isMissing { return nil }
  }
}
