import PostgresKit

/// The place in the replication stream of the rows of an open chunk: right before the first transaction that the
/// chunk's snapshot does not show. If the stream later brings a transaction that the snapshot shows, the chunk is
/// *raced*.
///
///     place.open(chunk)
///     if place.isDue(before: xid) { … place.placed(chunk) }     // at each begin of a transaction
///     place.pass(xid)
///     switch place.next(received: end) { … }                    // at each end
struct ChunkPlace {
  enum Step: Equatable {
    case nothing
    /// The chunk must be written to the trail now.
    case place
    /// The chunk must be closed now.
    case end
  }

  private(set) var chunk: PostgresChunk?
  private var isPlaced = false
  private var isRaced = false

  var isEmpty: Bool { chunk == nil }

  mutating func open(_ chunk: PostgresChunk) { (self.chunk, isPlaced, isRaced) = (chunk, false, false) }

  /// Returns whether the chunk must be written to the trail before transaction `xid`.
  func isDue(before xid: UInt32) -> Bool { !isPlaced && chunk.map { !$0.snapshot.shows(xid) } == true }

  /// Marks the written chunk as raced if its snapshot shows transaction `xid`.
  mutating func pass(_ xid: UInt32) { if isPlaced, chunk?.snapshot.shows(xid) == true { isRaced = true } }

  /// Returns what to do with the open chunk, after every transaction before `received` has been processed.
  func next(received: LSN) -> Step {
    guard let chunk, received >= chunk.end else { return .nothing }
    return isPlaced ? .end : .place
  }

  mutating func placed(_ chunk: PostgresChunk) { (self.chunk, isPlaced) = (chunk, true) }

  /// Closes the chunk, and returns it; nil if no chunk was open.
  ///
  /// - Returns: `isRaced` is true if changes that the chunk shows came again after it.
  mutating func take() -> (chunk: PostgresChunk, isRaced: Bool)? {
    defer { drop() }
    return chunk.map { ($0, isRaced) }
  }

  mutating func drop() { (chunk, isPlaced, isRaced) = (nil, false, false) }
}
