import Changes
import Glibc
import Synchronization
import SystemKit

/// A budget of memory for large blocks, which all trails of this process share. Smaller blocks, up to ``usualBytes``,
/// are not counted.
///
/// A block from a peer waits up to ten seconds for memory, and is then refused with `busy`. Readers of trails get
/// memory in the order of their requests, each through its ``BlockShare``.
///
///     try BlockMemory.shared.claim(40 << 20)
///     defer { BlockMemory.shared.free(40 << 20) }
package final class BlockMemory: Sendable {
  /// The largest block that needs no reservation, in bytes.
  package static let usualBytes = 1 << 20
  package static let shared = BlockMemory()

  /// Memory that a reader has reserved for one block.
  struct Turn {
    fileprivate let bytes: Int
    /// The number of blocks for which the thread already had memory. It is 1 if the thread reads a second block while
    /// it uses a first one.
    fileprivate let depth: Int
    fileprivate let thread: pthread_t
  }

  fileprivate struct State {
    var used = 0
    var peak = 0
    var limit = 256 << 20
    var blockBytesMax = 64 << 20
    /// The bytes that readers have reserved, by the number of blocks that their thread already held.
    var read: [Int: Int] = [:]
    /// The number of blocks for which each thread has reserved memory; threads without such a block are left out.
    var turns: [pthread_t: Int] = [:]
    /// The tickets of the waiting readers in order, by the number of blocks that their thread already holds.
    var waiting: [Int: [UInt64]] = [:]
    var lastTicket: UInt64 = 0
  }

  private let state = Mutex(State())
  private let patienceMilliseconds: Int
  private let readerPatienceMilliseconds: Int

  package init(patienceMilliseconds: Int = 10_000, readerPatienceMilliseconds: Int = 60_000) {
    self.patienceMilliseconds = patienceMilliseconds
    self.readerPatienceMilliseconds = readerPatienceMilliseconds
  }

  /// The limit for all blocks of more than ``usualBytes`` together, in bytes.
  package var limit: Int {
    get { state.withLock { $0.limit } }
    set { state.withLock { $0.limit = newValue } }
  }

  /// The largest block that is accepted from a peer, stored or unpacked, in bytes.
  package var blockBytesMax: Int {
    get { state.withLock { $0.blockBytesMax } }
    set { state.withLock { $0.blockBytesMax = newValue } }
  }

  package var used: Int { state.withLock { $0.used } }
  /// The most memory that blocks of more than ``usualBytes`` have used at one time since the process started, in bytes.
  package var peak: Int { state.withLock { $0.peak } }

  /// Reserves memory for a peer's block, and waits until other large blocks leave room for it. While no other large
  /// block has memory, the block may exceed the limit.
  ///
  /// - Throws: `busy` if other blocks leave no room in time: ten seconds by default.
  package func claim(_ bytes: Int) throws {
    guard bytes > 0 else { return }
    let deadline = Clock.monotonicMilliseconds + Int64(patienceMilliseconds)
    while !tryClaim(bytes) {
      guard Clock.monotonicMilliseconds < deadline else { throw lacksRoom(bytes) }
      Clock.sleep(milliseconds: 20)
    }
  }

  private func tryClaim(_ bytes: Int) -> Bool {
    state.withLock { state in
      guard state.used == 0 || state.used + bytes <= state.limit else { return false }
      state.take(bytes)
      return true
    }
  }

  private func lacksRoom(_ bytes: Int) -> CairnError {
    CairnError(
      .busy, "a block of \(bytes) bytes must wait for memory: other large blocks use \(used) of \(limit) bytes",
      hint: "Cairn tries again by itself; raise [limits] memory if that happens often", remedy: .retry)
  }

  /// Reserves memory for the block of a reader. Waits until earlier readers have their memory and large blocks leave
  /// room.
  ///
  /// Among readers whose threads hold the same number of blocks, one may exceed the limit. So two readers that each
  /// hold a block and need a second one do not wait for ever.
  /// - Throws: `busy` if there is no room in time: 60 seconds by default.
  func begin(_ bytes: Int) throws -> Turn {
    let thread = pthread_self()
    let (depth, ticket) = state.withLock { $0.line(up: thread) }
    defer { state.withLock { $0.waiting[depth]?.removeAll { $0 == ticket } } }
    let deadline = Clock.monotonicMilliseconds + Int64(readerPatienceMilliseconds)
    let turn = Turn(bytes: bytes, depth: depth, thread: thread)
    while !state.withLock({ $0.begin(turn, ticket, isForced: Pulse.isToEnd) }) {
      guard Clock.monotonicMilliseconds < deadline else { throw lacksRoom(bytes) }
      Pulse.beat()
      Clock.sleep(milliseconds: 5)
    }
    return turn
  }

  func end(_ turn: Turn) { state.withLock { $0.end(turn) } }

  package func free(_ bytes: Int) { state.withLock { $0.used -= bytes } }
}

extension BlockMemory.State {
  fileprivate mutating func take(_ bytes: Int) {
    used += bytes
    peak = max(peak, used)
  }

  fileprivate mutating func line(up thread: pthread_t) -> (depth: Int, ticket: UInt64) {
    let depth = turns[thread] ?? 0
    lastTicket += 1
    waiting[depth, default: []].append(lastTicket)
    return (depth, lastTicket)
  }

  fileprivate mutating func begin(_ turn: BlockMemory.Turn, _ ticket: UInt64, isForced: Bool) -> Bool {
    let others = read[turn.depth] ?? 0
    let isNext = waiting[turn.depth]?.first == ticket
    guard isForced || isNext && (others == 0 || used + turn.bytes <= limit) else { return false }
    take(turn.bytes)
    read[turn.depth] = others + turn.bytes
    turns[turn.thread, default: 0] += 1
    return true
  }

  fileprivate mutating func end(_ turn: BlockMemory.Turn) {
    used -= turn.bytes
    read[turn.depth, default: 0] -= turn.bytes
    let left = (turns[turn.thread] ?? 1) - 1
    turns[turn.thread] = left > 0 ? left : nil
  }
}

/// The memory that one reader of a trail has for its block. Only a block of more than 1 MiB counts in ``BlockMemory``.
///
///     try share.take(for: header)  // waits until large blocks leave room
///     share.leave()
final class BlockShare {
  private let memory: BlockMemory
  private var turn: BlockMemory.Turn?

  init(_ memory: BlockMemory = .shared) { self.memory = memory }

  deinit { leave() }

  /// Whether memory in ``BlockMemory`` is reserved for the reader's block.
  var isTaken: Bool { turn != nil }

  /// Frees the memory of the reader's previous block, then reserves memory for the stored bytes of `block` and its
  /// content. Waits until other blocks leave room.
  /// - Throws: `busy` if other blocks leave no room within 60 seconds.
  func take(for block: BlockHeader) throws {
    leave()
    let bytes = [Int(block.storedLength), BlockOpener.unpackedLength(block)].filter { $0 > BlockMemory.usualBytes }
    guard !bytes.isEmpty else { return }
    turn = try memory.begin(bytes.reduce(0, +))
  }

  func leave() {
    if let turn { memory.end(turn) }
    turn = nil
  }
}
