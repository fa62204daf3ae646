import Changes
import Glibc
import Synchronization
import SystemKit

/// A budget of memory for large blocks, which all trails of this process share. Smaller blocks, up to ``usualBytes``,
/// are not counted.
///
/// A block from a peer waits up to ten seconds for memory, and is then refused with `busy`. Each node that sends
/// blocks has a share, so that no node takes the memory of the others, however slowly its blocks arrive. Readers of
/// trails get memory in the order of their requests, each through its ``BlockShare``.
///
///     let claim = try BlockMemory.shared.claim(40 << 20, of: "till-7", for: .arrival)
///     defer { BlockMemory.shared.free(claim) }
package final class BlockMemory: Sendable {
  /// The largest block that needs no reservation, in bytes.
  package static let usualBytes = 1 << 20
  package static let shared = BlockMemory()
  /// The largest number of shares. If fewer nodes send blocks, each node has a share of its own.
  package static let sharesMax = 4

  /// The stage of a peer's block for which it needs memory. The stages have separate shares, so that a block that
  /// arrives never waits for memory of the same node to be unpacked.
  package enum Stage: Sendable {
    /// The stored bytes, until all have arrived and are added to the copy. The sender decides how long that takes.
    case arrival
    /// The content, while the block is checked.
    case unpacking
  }

  /// Memory that a node's block has reserved.
  package struct Claim: Sendable {
    package let bytes: Int
    fileprivate let node: String
    fileprivate let stage: Stage
  }

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
    var shares = BlockMemory.sharesMax
    /// The bytes that each node has reserved in a stage; nodes without any are left out.
    var held: [Stage: [NameKey: Int]] = [:]
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

  /// The number of nodes that send blocks, at most ``sharesMax``. Each node may use one part in that many of ``limit``.
  package var shares: Int {
    get { state.withLock { $0.shares } }
    set { state.withLock { $0.shares = min(max(newValue, 1), Self.sharesMax) } }
  }

  package var used: Int { state.withLock { $0.used } }
  /// The most memory that blocks of more than ``usualBytes`` have used at one time since the process started, in bytes.
  package var peak: Int { state.withLock { $0.peak } }

  /// Reserves memory for a block of a node, and waits until other large blocks leave room for it.
  ///
  /// The blocks of one node in one stage have that node's share of the limit, or one block if that is larger. A node's
  /// only block of a stage may exceed the limit of all blocks while no reader and at most one other node has memory.
  /// So one node alone never keeps the blocks of others out.
  ///
  /// - Parameter node: The name in the sender's certificate, or the name of a node from which a pump fetches.
  /// - Throws: `busy` if other blocks leave no room in time: ten seconds by default.
  package func claim(_ bytes: Int, of node: String, for stage: Stage) throws -> Claim {
    let claim = Claim(bytes: bytes, node: node, stage: stage)
    let deadline = Clock.monotonicMilliseconds + Int64(patienceMilliseconds)
    while !state.withLock({ $0.take(claim) }) {
      guard Clock.monotonicMilliseconds < deadline else { throw lacksRoom(bytes, of: node) }
      Clock.sleep(milliseconds: 20)
    }
    return claim
  }

  private func lacksRoom(_ bytes: Int, of node: String) -> CairnError {
    let (own, share) = state.withLock { ($0.held(of: node), $0.share) }
    guard own > 0, own + bytes > share else { return lacksRoom(bytes) }
    return CairnError(
      .busy,
      "a block of \(bytes) bytes must wait for memory: other large blocks of '\(node)' use \(own) bytes, and its share is \(share)",
      hint: "Cairn tries again by itself; raise [limits] memory if that happens often", remedy: .retry,
      context: ["peer": node])
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

  package func free(_ claim: Claim) { state.withLock { $0.free(claim) } }
}

extension BlockMemory.State {
  fileprivate mutating func take(_ bytes: Int) {
    used += bytes
    peak = max(peak, used)
  }

  /// The bytes that the blocks of one node may have in one stage; a node's only block may be larger.
  fileprivate var share: Int { limit / shares }

  fileprivate func held(of node: String) -> Int { held.values.reduce(0) { $0 + ($1[node.nameKey] ?? 0) } }

  fileprivate mutating func take(_ claim: BlockMemory.Claim) -> Bool {
    let own = held[claim.stage]?[claim.node.nameKey] ?? 0
    guard own == 0 || own + claim.bytes <= share else { return false }
    guard used + claim.bytes <= limit || own == 0 && isAlmostAlone(claim.node) else { return false }
    take(claim.bytes)
    held[claim.stage, default: [:]][claim.node.nameKey] = own + claim.bytes
    return true
  }

  /// Returns whether no reader and at most one other node has memory.
  private func isAlmostAlone(_ node: String) -> Bool {
    var others = Set(held.values.flatMap(\.keys))
    others.remove(node.nameKey)
    return turns.isEmpty && others.count <= 1
  }

  fileprivate mutating func free(_ claim: BlockMemory.Claim) {
    used -= claim.bytes
    let left = (held[claim.stage]?[claim.node.nameKey] ?? 0) - claim.bytes
    held[claim.stage]?[claim.node.nameKey] = left > 0 ? left : nil
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
