import Changes

/// Adds the bytes of one segment to a copy of a trail. The bytes arrive in pieces of any size; only whole blocks are
/// added. If another feed adds a block at the same place first, this feed fails with `trail-elsewhere`.
///
///     let feed = CopyFeed(trail: id, at: place, from: "till-7")
///     try feed.take(bytes, for: copy)
package final class CopyFeed {
  package let trail: TrailID
  /// The place in the trail at which the next received block belongs.
  package private(set) var place: TrailPlace
  /// The end of the local copy, if the sending node continues at a later segment. Nil if there is no gap, or after the
  /// first bytes were added.
  private var restartsBehind: TrailPlace?
  private var rest = ByteWriter(capacity: 256 << 10)
  private var isSealed = false
  private let sender: String
  private let memory: BlockMemory
  private var claim: BlockMemory.Claim?
  /// Whether the feed has added a whole block to the copy. A segment's header is no block.
  package private(set) var hasBlock = false

  /// - Parameter sender: The node that sends the bytes, whose share of ``BlockMemory`` the blocks use.
  package init(
    trail: TrailID, at place: TrailPlace, from sender: String, restartsBehind end: TrailPlace? = nil,
    memory: BlockMemory = .shared
  ) {
    (self.trail, self.place, self.sender, self.memory) = (trail, place, sender, memory)
    restartsBehind = end
  }

  deinit { free() }

  /// Returns the chain hash in the segment header at the start of `bytes`; nil if there are fewer than 88 bytes.
  package static func chain(inHeader bytes: UnsafeRawBufferPointer) -> ChainHash? {
    bytes.count >= 88 ? ChainHash(bytes[56..<88]) : nil
  }

  /// Whether the bytes received so far end with a whole header or block.
  package var isWhole: Bool { rest.count == 0 }

  package func take(_ bytes: UnsafeRawBufferPointer, for copy: TrailCopy) throws {
    var bytes = bytes
    while !bytes.isEmpty {
      if isSealed { throw copy.unfit(place, "there are bytes after the seal") }
      if rest.count > 0 {
        let missing = try min(missing(copy), bytes.count)
        rest.append(UnsafeRawBufferPointer(rebasing: bytes[..<missing]))
        bytes = UnsafeRawBufferPointer(rebasing: bytes[missing...])
        if try add(rest.bytes, copy) > 0 {
          rest.removeAll()
          rest.shrink(above: BlockMemory.usualBytes)
          free()
        } else if missing == 0 {
          throw copy.unfit(place, "no block can be taken here")
        }
        continue
      }
      let taken = try add(bytes, copy)
      bytes = UnsafeRawBufferPointer(rebasing: bytes[taken...])
      if taken == 0 {
        if let size = try Self.size(of: bytes, at: place, copy) { try makeRoom(size) }
        rest.append(bytes)
        return
      }
    }
  }

  private func add(_ bytes: UnsafeRawBufferPointer, _ copy: TrailCopy) throws -> Int {
    let taken: Int
    if let end = restartsBehind {
      taken = try copy.restart(bytes, at: place, of: trail, behind: end, from: sender)
      if taken > 0 { restartsBehind = nil }
    } else {
      taken = try copy.append(bytes, at: place, of: trail, from: sender)
    }
    if taken > 0, let end = copy.end {
      hasBlock =
        hasBlock || end.segment != place.segment || place.offset > 0 || end.offset > UInt64(headerLength(bytes))
      isSealed = end.segment != place.segment
      place = end
    }
    return taken
  }

  /// Returns how many more bytes complete the header or block in `rest`, or the part of it that shows its size.
  private func missing(_ copy: TrailCopy) throws -> Int {
    guard let size = try Self.size(of: rest.bytes, at: place, copy) else {
      return (place.offset == 0 ? SegmentHeader.startLength : BlockHeader.size) - rest.count
    }
    try makeRoom(size)
    return size - rest.count
  }

  private func makeRoom(_ size: Int) throws {
    guard size > BlockMemory.usualBytes, claim == nil else { return }
    claim = try memory.claim(size, of: sender, for: .arrival)
    rest.reserve(size - rest.count)
  }

  private func free() {
    if let claim { memory.free(claim) }
    claim = nil
  }

  private func headerLength(_ bytes: UnsafeRawBufferPointer) -> Int {
    (try? SegmentHeader.length(of: bytes, number: place.segment)) ?? 0
  }

  private static func size(
    of bytes: UnsafeRawBufferPointer, at place: TrailPlace, _ copy: TrailCopy
  ) throws -> Int? {
    do {
      if place.offset > 0 {
        return try CopyCheck.size(of: bytes, at: Position(segment: place.segment, offset: 0))
      }
      return bytes.count < SegmentHeader.startLength
        ? nil : try SegmentHeader.length(of: bytes, number: place.segment)
    } catch let fault as SegmentFault { throw copy.unfit(place, fault.problem) }
  }
}
