import Changes
import CodecKit
import SystemKit

/// Creates a trail: its first segment, then the file `durable`, each synced. A folder without that file has no trail.
struct TrailCreator {
  let folder: TrailFolder
  let allocateBytes: Int
  var isCopy = false

  /// Returns whether the folder has no trail, and removes the files of an interrupted creation.
  ///
  /// - Throws: `trail-damaged` if there are segments but no file `durable`.
  func isNeeded() throws -> Bool {
    if Trail.exists(folder: folder.path) { return false }
    for number in try folder.segments() {
      let file = try File(folder.segmentPath(number), .read)
      let search = TailSearch(file: file, size: try file.size, breakOffset: 0, contentOffset: 0)
      guard number == 1 || isCopy, try search.laterSyncedBlock() == nil else {
        throw folder.damaged(nil, "there are segments, but the file durable is missing")
      }
      try folder.removeSegment(number)
    }
    return true
  }

  /// Creates a trail with a random id.
  ///
  /// - Parameter now: The present time, µs since 1970 UTC.
  func create(_ name: TrailName, _ now: Int64) throws {
    guard let id = TrailID(randomBytes(16)) else { throw folder.bug("no random bytes") }
    let header = SegmentHeader(trail: id, number: 1, created: now, firstTransaction: 1, chain: .zero, name: name)
    try LiveSegment(folder, header, allocateBytes: allocateBytes).close()
    try mark(header)
  }

  /// Creates the file `durable` for a segment that has no block yet.
  func mark(_ header: SegmentHeader) throws {
    let mark = DurableMark(
      generation: 1, segment: header.number, fileOffset: header.length, contentOffset: 0, chain: header.chain,
      lastTransaction: header.firstTransaction - 1, trail: header.trail)
    if Folder.exists(folder.newMarkPath) { try Folder.remove(folder.newMarkPath) }
    let marks = try MarkFile(folder.newMarkPath, .create)
    try marks.write(mark)
    try marks.file.sync()
    try marks.file.close()
    try Folder.rename(folder.newMarkPath, to: folder.markPath)
    try Folder.sync(folder.path)
  }
}
