import Changes
import Synchronization
import SystemKit

/// The memory that blocks of unusual size take in this process: one budget for all trails, for peers and readers.
///
/// A block of more than ``usualBytes`` counts, with its stored bytes while they are gathered and its content while it
/// is unpacked. Bytes that a peer sends wait for room, for a limited time, and are then refused with `busy`. A reader
/// takes its memory without waiting: it holds one block at a time, and a block from a peer has passed
/// ``blockBytesMax``. A reader that waited while another reader holds memory could wait for ever.
///
///     try BlockMemory.shared.claim(40 << 20)
///     defer { BlockMemory.shared.free(40 << 20) }
package final class BlockMemory: Sendable {
  /// The size up to which a block uses memory that each worker has anyway.
  package static let usualBytes = 1 << 20
  package static let shared = BlockMemory()

  fileprivate struct State {
    var used = 0
    var peak = 0
    var limit = 256 << 20
    var blockBytesMax = 64 << 20
  }

  private let state = Mutex(State())
  private let patienceMilliseconds: Int

  package init(patienceMilliseconds: Int = 10_000) { self.patienceMilliseconds = patienceMilliseconds }

  /// The memory for all blocks of unusual size together, in bytes.
  package var limit: Int {
    get { state.withLock { $0.limit } }
    set { state.withLock { $0.limit = newValue } }
  }

  /// The largest block that is accepted from a peer, stored and unpacked, in bytes.
  package var blockBytesMax: Int {
    get { state.withLock { $0.blockBytesMax } }
    set { state.withLock { $0.blockBytesMax = newValue } }
  }

  package var used: Int { state.withLock { $0.used } }
  /// The most that was in use at one time.
  package var peak: Int { state.withLock { $0.peak } }

  /// Takes memory for a peer's block. A single block has room even if it is larger than the limit.
  /// - Throws: `busy` if other blocks leave no room in time: ten seconds by default.
  package func claim(_ bytes: Int) throws {
    guard bytes > 0 else { return }
    let deadline = Clock.monotonicMilliseconds + Int64(patienceMilliseconds)
    while !tryClaim(bytes) {
      guard Clock.monotonicMilliseconds < deadline else {
        throw CairnError(
          .busy,
          "there is no memory for a block of \(bytes) bytes now: other large blocks take \(used) bytes of \(limit)",
          hint: "it is tried again by itself; raise [limits] memory where that happens often", remedy: .retry)
      }
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

  /// Takes memory for a block of a trail that is already on this node. Never waits.
  package func take(_ bytes: Int) { state.withLock { $0.take(bytes) } }

  /// Returns memory that was claimed or taken.
  package func free(_ bytes: Int) { state.withLock { $0.used -= bytes } }
}

extension BlockMemory.State {
  fileprivate mutating func take(_ bytes: Int) {
    used += bytes
    peak = max(peak, used)
  }
}
