import PostgresKit

/// The place in the stream of the chunk whose snapshot is open. Pure.
///
/// The chunk belongs right before the first transaction that its snapshot does not show; there it is exact. If a
/// transaction that the snapshot shows comes after that place, the chunk is raced: it has a change that comes again.
///
///     place.open(chunk)
///     if place.isDue(before: xid) { … place.placed(chunk) }     // at each begin of a transaction
///     place.pass(xid)
///     switch place.next(received: end) { … }                    // at each end
struct ChunkPlace {
  enum Step: Equatable {
    case nothing
    /// Everything that the snapshot shows has arrived: the chunk is to be placed.
    case place
    /// The chunk is in the trail, and the stream has passed everything that it shows.
    case end
  }

  private(set) var chunk: PostgresChunk?
  private var isPlaced = false
  private var isRaced = false

  var isEmpty: Bool { chunk == nil }

  mutating func open(_ chunk: PostgresChunk) { (self.chunk, isPlaced, isRaced) = (chunk, false, false) }

  /// Returns whether the chunk is to be placed before a transaction that begins now.
  func isDue(before xid: UInt32) -> Bool { !isPlaced && chunk.map { !$0.snapshot.shows(xid) } == true }

  /// Notes that a transaction begins.
  mutating func pass(_ xid: UInt32) { if isPlaced, chunk?.snapshot.shows(xid) == true { isRaced = true } }

  /// Returns what to do once every transaction that committed before `received` has been processed.
  func next(received: LSN) -> Step {
    guard let chunk, received >= chunk.end else { return .nothing }
    return isPlaced ? .end : .place
  }

  /// Notes that the rows of the chunk are in the trail.
  mutating func placed(_ chunk: PostgresChunk) { (self.chunk, isPlaced) = (chunk, true) }

  /// Returns the chunk, and whether it is raced; then none is open. Nil if none was.
  mutating func take() -> (chunk: PostgresChunk, isRaced: Bool)? {
    defer { drop() }
    return chunk.map { ($0, isRaced) }
  }

  mutating func drop() { (chunk, isPlaced, isRaced) = (nil, false, false) }
}
