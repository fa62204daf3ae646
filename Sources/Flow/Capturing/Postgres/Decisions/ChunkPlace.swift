import PostgresKit

/// The place in the replication stream at which the rows of an open chunk belong. This type does no I/O.
///
/// The chunk belongs right before the first transaction that its snapshot does not show; there it is exact. After that
/// place, the stream may still bring a transaction that the snapshot shows. The chunk is then *raced*: the trail gets
/// the changes of that transaction a second time.
///
///     place.open(chunk)
///     if place.isDue(before: xid) { … place.placed(chunk) }     // at each begin of a transaction
///     place.pass(xid)
///     switch place.next(received: end) { … }                    // at each end
struct ChunkPlace {
  enum Step: Equatable {
    case nothing
    /// The stream has passed everything that the snapshot shows: the chunk must be written to the trail now.
    case place
    /// The chunk is in the trail, and the stream has passed everything that the chunk's snapshot shows: close the
    /// chunk.
    case end
  }

  private(set) var chunk: PostgresChunk?
  private var isPlaced = false
  private var isRaced = false

  var isEmpty: Bool { chunk == nil }

  mutating func open(_ chunk: PostgresChunk) { (self.chunk, isPlaced, isRaced) = (chunk, false, false) }

  /// Returns whether the chunk must be written to the trail before the transaction that begins now.
  func isDue(before xid: UInt32) -> Bool { !isPlaced && chunk.map { !$0.snapshot.shows(xid) } == true }

  /// Checks whether the snapshot of the chunk in the trail shows the transaction that begins now. If so, marks the
  /// chunk as raced: the transaction's changes come a second time.
  mutating func pass(_ xid: UInt32) { if isPlaced, chunk?.snapshot.shows(xid) == true { isRaced = true } }

  /// Returns what to do with the open chunk, once every transaction before `received` has been processed.
  func next(received: LSN) -> Step {
    guard let chunk, received >= chunk.end else { return .nothing }
    return isPlaced ? .end : .place
  }

  /// Remembers that the rows of the chunk are in the trail.
  mutating func placed(_ chunk: PostgresChunk) { (self.chunk, isPlaced) = (chunk, true) }

  /// Closes the chunk. Returns the chunk, and whether changes that it shows came again after it (raced); nil if no
  /// chunk was open.
  mutating func take() -> (chunk: PostgresChunk, isRaced: Bool)? {
    defer { drop() }
    return chunk.map { ($0, isRaced) }
  }

  mutating func drop() { (chunk, isPlaced, isRaced) = (nil, false, false) }
}
