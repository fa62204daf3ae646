import Changes
import CodecKit
import SystemKit

/// Appends the bytes of another node's segment files to a copy of the trail. Each copy has one instance, which holds
/// the lock of the folder and checks all bytes. After a failed write or sync, close the copy and open it again.
package final class TrailCopy {
  package let name: TrailName
  /// The part of the copy that was cut off at its opening; nil if nothing was cut off.
  package private(set) var recovery: TrailRecovery?

  private static let allocateBytes = 1 << 20

  private let folder: TrailFolder
  private let lock: File
  private let hasher: SHA256
  private var marks: MarkFile?
  private var mark: DurableMark?
  private var segment: LiveSegment?
  private var check: CopyCheck?
  private var oldest: UInt64 = 0
  private var failure: CairnError?

  /// Opens the copy in `folder`, or prepares a new one.
  ///
  /// - Throws: `trail-busy` if another writer has the lock, `state-foreign` if the folder has another trail,
  ///   `trail-damaged`, `trail-version`.
  package static func open(folder path: String, name: TrailName) throws -> TrailCopy {
    let folder = TrailFolder(path)
    do { return try TrailCopy(folder, name) } catch { throw folder.outward(error, "open") }
  }

  private init(_ folder: TrailFolder, _ name: TrailName) throws {
    self.folder = folder
    self.name = name
    hasher = try SHA256()
    lock = try folder.lock()
    let creator = TrailCreator(folder: folder, allocateBytes: Self.allocateBytes, isCopy: true)
    if try !creator.isNeeded() { try recover() }
  }

  package var id: TrailID? { mark?.trail }

  /// Whether the folder has any part of the trail.
  package var hasBegun: Bool { mark != nil }

  /// Releases the lock. First removes the folder if the lock is its only file. No call may follow.
  package func discard() {
    if !hasBegun, (try? Folder.names(folder.path)) == [Folder.lastName(of: folder.lockPath)] {
      try? Folder.remove(folder.lockPath)
      try? Folder.remove(folder.path)
    }
    try? close()
  }

  /// Deletes the copy from the disk, and releases the lock. No call may follow.
  package func remove() throws {
    try guarded {
      if mark != nil { try Folder.remove(folder.markPath) }
      for number in try folder.segments() { try folder.removeSegment(number) }
      (mark, marks, segment, check) = (nil, nil, nil, nil)
    }
    discard()
  }

  /// The place at which the next bytes are added; nil if the folder has no part of the trail yet. Bytes before it may
  /// not be synced yet.
  package var end: TrailPlace? {
    guard let mark else { return nil }
    if let segment {
      return TrailPlace(segment: segment.number, offset: segment.place.fileOffset, chain: segment.place.chain)
    }
    return TrailPlace(segment: (check?.segment ?? mark.segment) + 1, offset: 0, chain: check?.place.chain ?? mark.chain)
  }

  /// Throws `trail-elsewhere` or `trail-forked` if bytes of trail `id` cannot be added at `place`.
  package func expect(_ place: TrailPlace, of id: TrailID) throws {
    try guarded { try expect(place, id) }
  }

  /// Adds whole blocks at the end of the copy, without a sync; at offset 0, the segment's header comes before them.
  ///
  /// - Parameter sender: The node that sends the bytes, whose share of ``BlockMemory`` the blocks use.
  /// - Returns: The number of bytes added, without a partial block at the end.
  /// - Throws: `trail-elsewhere` if the copy does not end at `place`; `trail-forked` if the copy is of another trail,
  ///   or differs from it before `place`; `trail-damaged` for a fault in the bytes, after the whole blocks before it
  ///   are added.
  package func append(
    _ bytes: UnsafeRawBufferPointer, at place: TrailPlace, of id: TrailID, from sender: String
  ) throws -> Int {
    try guarded {
      try expect(place, id)
      if place.offset > 0 { return try add(bytes, sender) }
      guard let header = try header(bytes, at: place, of: id) else { return 0 }
      if mark != nil {
        try follow(header)
        try writing {
          segment = try LiveSegment(
            folder, header, encoded: Array(bytes[..<Int(header.length)]), isDurable: false, isCopy: true,
            allocateBytes: Self.allocateBytes)
          check = CopyCheck(header)
        }
      } else {
        try create(header, bytes)
      }
      return try Int(header.length) + add(UnsafeRawBufferPointer(rebasing: bytes[Int(header.length)...]), sender)
    }
  }

  /// Continues the copy at a later segment of the trail, and deletes all earlier segments. Returns the number of bytes
  /// added.
  ///
  /// - Parameter end: The end of the copy. The method throws `trail-elsewhere` if the copy ends elsewhere, or ends in
  ///   or after that segment.
  package func restart(
    _ bytes: UnsafeRawBufferPointer, at place: TrailPlace, of id: TrailID, behind end: TrailPlace, from sender: String
  ) throws -> Int {
    try guarded {
      guard let mark, let own = self.end, end == own, place.segment > own.segment, place.offset == 0 else {
        throw elsewhere(place)
      }
      try expect(id)
      guard let header = try header(bytes, at: place, of: id) else { return 0 }
      try segment?.close()
      try begin(header, bytes, mark)
      try removeForerunners(of: header.number)
      return try Int(header.length) + add(UnsafeRawBufferPointer(rebasing: bytes[Int(header.length)...]), sender)
    }
  }

  /// Syncs the added bytes, and moves the durable mark to the end of the last whole transaction. Returns the first and
  /// the last place of the copy; nil if the copy has no bytes yet.
  @discardableResult
  package func sync() throws -> TrailStanding? {
    try guarded {
      guard let end, let check, let id else { return nil }
      try writing {
        if let segment, !segment.isSynced { try segment.sync() }
        guard try marks?.file.isInPlace ?? true, try segment?.isInPlace ?? true else { throw folder.removed() }
        try moveMark()
      }
      return TrailStanding(
        name: name, id: id, oldest: try oldestSegment(), end: end,
        position: Position(segment: end.segment, offset: segment == nil ? 0 : check.place.contentOffset),
        lastTransaction: check.lastNumber)
    }
  }

  /// Syncs all bytes and the file `durable`, and releases the lock. No call may follow.
  package func close() throws {
    defer {
      failure = failure ?? folder.bug("a copy is used after it was closed")
      try? lock.close()
    }
    try sync()
    try guarded {
      try marks?.file.sync()
      try segment?.close()
    }
  }
}

// MARK: - Adding

extension TrailCopy {
  private func add(_ bytes: UnsafeRawBufferPointer, _ sender: String) throws -> Int {
    guard let segment, var next = check else { return 0 }
    // There is only one instance of the check, so that no list in it is copied.
    check = nil
    var taken = 0
    var fault: (any Error)?
    do {
      try PeerOpeners.shared.with(blocksOf: sender) { opener in
        try next.follow(bytes, opener, hasher, taken: &taken)
      }
    } catch { fault = error }
    let (place, isSealed) = (next.place, next.isSealed)
    check = next
    if taken > 0 {
      try writing { try segment.append(UnsafeRawBufferPointer(rebasing: bytes[..<taken]), to: place) }
      if isSealed { try seal(segment) }
    }
    if let fault { throw folder.unfit(fault) }
    return taken
  }

  /// Syncs a segment whose last block has arrived, before the next segment is created.
  private func seal(_ segment: LiveSegment) throws {
    try writing {
      try segment.finish()
      try moveMark()
      try segment.close()
      self.segment = nil
    }
  }

  /// Moves the durable mark to the end of the last whole transaction, which must be synced. Syncs the folder first if
  /// the durable mark moves to another segment.
  private func moveMark() throws {
    guard let mark, let marks, let check else { return }
    let (border, isNew) = (check.border, check.segment != mark.segment)
    guard isNew || border.place.fileOffset > mark.fileOffset else { return }
    if isNew { try Folder.sync(folder.path) }
    let moved = mark.moved(to: check.segment, border.place, lastTransaction: border.lastNumber)
    try marks.write(moved)
    if isNew { try marks.file.sync() }
    self.mark = moved
  }

  private func header(
    _ bytes: UnsafeRawBufferPointer, at place: TrailPlace, of id: TrailID
  ) throws -> SegmentHeader? {
    do {
      guard bytes.count >= SegmentHeader.startLength else { return nil }
      let length = try SegmentHeader.length(of: bytes, number: place.segment)
      guard bytes.count >= length else { return nil }
      let header = try SegmentHeader.decode(
        UnsafeRawBufferPointer(rebasing: bytes[..<length]), number: place.segment)
      func fault(_ problem: String) -> SegmentFault {
        SegmentFault(.content, Position(segment: place.segment, offset: 0), problem)
      }
      guard header.trail == id else { throw fault("the segment is of trail \(header.trail), not of \(id)") }
      guard header.name == name else { throw fault("the segment is of trail \(header.name), not of \(name)") }
      guard header.chain == place.chain else {
        throw fault("chain hash before the segment is \(header.chain), expected \(place.chain)")
      }
      guard header.number > 1 || (header.chain == .zero && header.firstTransaction == 1) else {
        throw fault("the first segment does not begin with transaction 1")
      }
      return header
    } catch let fault as SegmentFault { throw folder.unfit(fault) }
  }

  private func follow(_ header: SegmentHeader) throws {
    guard let check else { return }
    guard header.firstTransaction == check.lastNumber + 1 else {
      throw folder.unfit(
        SegmentFault(
          .content, Position(segment: header.number, offset: 0),
          "the segment's first transaction is \(header.firstTransaction), expected \(check.lastNumber + 1)"))
    }
  }

  /// Continues the copy at a later segment, which starts with `header`. Moves the durable mark to that segment before
  /// any block is added.
  private func begin(_ header: SegmentHeader, _ bytes: UnsafeRawBufferPointer, _ mark: DurableMark) throws {
    try writing {
      let next = try LiveSegment(
        folder, header, encoded: Array(bytes[..<Int(header.length)]), isCopy: true,
        allocateBytes: Self.allocateBytes)
      let moved = mark.moved(to: next, lastTransaction: header.firstTransaction - 1)
      try marks?.write(moved)
      try marks?.file.sync()
      self.mark = moved
      segment = next
      check = CopyCheck(header)
    }
  }

  private func create(_ header: SegmentHeader, _ bytes: UnsafeRawBufferPointer) throws {
    try writing {
      segment = try LiveSegment(
        folder, header, encoded: Array(bytes[..<Int(header.length)]), isCopy: true,
        allocateBytes: Self.allocateBytes)
      try TrailCreator(folder: folder, allocateBytes: Self.allocateBytes, isCopy: true).mark(header)
      (_, mark) = try folder.openMark()
      marks = try MarkFile(folder.markPath, .readWrite)
      check = CopyCheck(header)
    }
  }
}

// MARK: - Places

extension TrailCopy {
  private func expect(_ place: TrailPlace, _ id: TrailID) throws {
    guard let end else {
      guard place.offset == 0 else { throw elsewhere(place) }
      return
    }
    try expect(id)
    guard end.isSameSpot(as: place) else { throw elsewhere(place) }
    guard end.chain == place.chain else {
      throw folder.forked("chain hash at \(place) is \(end.chain) in the copy, \(place.chain) in what came")
    }
  }

  private func expect(_ id: TrailID) throws {
    guard let own = mark?.trail, own != id else { return }
    throw folder.forked("the copy is of the trail with the id \(own), what came is of \(id)")
  }

  private func elsewhere(_ place: TrailPlace) -> CairnError {
    CairnError(
      .trailElsewhere,
      "the copy of trail \(folder.label) ends at \(end?.description ?? "nothing"), and received bytes for \(place)",
      hint: "the sender continues from the end of the copy by itself", remedy: .retry, context: ["trail": folder.label])
  }

  func unfit(_ place: TrailPlace, _ problem: String) -> CairnError {
    folder.unfit(
      SegmentFault(
        .content, Position(segment: place.segment, offset: check?.place.contentOffset ?? 0), problem))
  }

  private func oldestSegment() throws -> UInt64 {
    if oldest == 0 || !Folder.exists(folder.segmentPath(oldest)) {
      oldest = try folder.segments().first ?? check?.segment ?? 0
    }
    return oldest
  }

  private func guarded<T>(_ body: () throws -> T) throws -> T {
    if let failure { throw failure }
    do { return try body() } catch { throw folder.outward(error, "add to") }
  }

  /// Runs `body`, which writes to the disk. After an error in it, every later call of this copy fails, because the
  /// content on disk is unknown.
  private func writing(_ body: () throws -> Void) throws {
    do { try body() } catch {
      let error = folder.outward(error, "write")
      failure = failure ?? error
      throw error
    }
  }
}

// MARK: - Opening

extension TrailCopy {
  private func recover() throws {
    let (_, old) = try folder.openMark()
    if try !isJoined(to: old.segment) { try removeForerunners(of: old.segment) }
    var recovered = Recovery(folder, old, name, keeps: .blocks)
    let end = try recovered.run()
    recovery = recovered.cut
    try removeSuccessors(of: end)
    guard let border = recovered.border else { return }
    let marks = try MarkFile(folder.markPath, .readWrite)
    let moved = old.moved(to: border.segment, border.place, lastTransaction: border.lastNumber)
    try Folder.sync(folder.path)
    try marks.write(moved)
    try marks.file.sync()
    (self.marks, mark) = (marks, moved)
    check = CopyCheck(end, border: border.place, lastNumber: border.lastNumber)
    if !end.isSealed { segment = try LiveSegment(folder, end, isCopy: true, allocateBytes: Self.allocateBytes) }
  }

  /// Returns whether segment `number` continues the previous segment in the folder; true if the folder has no previous
  /// segment.
  private func isJoined(to number: UInt64) throws -> Bool {
    guard let before = try folder.segments().last(where: { $0 < number }) else { return true }
    guard before == number - 1 else { return false }
    let header = try SegmentHeader.read(File(folder.segmentPath(number), .read), number: number)
    let file = try File(folder.segmentPath(before), .read)
    let size = try file.size
    guard size >= UInt64(BlockHeader.size) else { return false }
    return try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
      _ = try file.read(into: buffer, at: size - UInt64(BlockHeader.size))
      let seal = BlockHeader(UnsafeRawBufferPointer(buffer))
      return seal?.flags.contains(.seal) == true && seal?.chain == header.chain
    }
  }

  private func removeForerunners(of number: UInt64) throws {
    let old = try folder.segments().filter { $0 < number }
    try writing {
      for number in old { try folder.removeSegment(number) }
      if !old.isEmpty { try Folder.sync(folder.path) }
    }
  }

  /// Removes the segments after the end of the copy, which have no blocks.
  private func removeSuccessors(of end: Recovery.End) throws {
    let later = try folder.segments().filter { $0 > end.segment }
    for number in later { try folder.removeSegment(number) }
    if !later.isEmpty { try Folder.sync(folder.path) }
  }
}
