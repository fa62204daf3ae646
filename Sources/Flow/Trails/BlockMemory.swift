import Changes
import Synchronization
import SystemKit

/// The memory for blocks of more than ``usualBytes``, shared by all trails of this process. A block from a peer waits
/// for memory for a limited time; a reader of a trail never waits.
///
///     try BlockMemory.shared.claim(40 << 20)
///     defer { BlockMemory.shared.free(40 << 20) }
package final class BlockMemory: Sendable {
  /// The largest block that needs no reservation, in bytes.
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
  /// The highest memory use for such large blocks so far, in bytes.
  package var peak: Int { state.withLock { $0.peak } }

  /// Reserves memory for a peer's block, and waits for it if necessary. A single block may exceed the limit.
  ///
  /// - Throws: `busy` if other blocks leave no room in time: ten seconds by default.
  package func claim(_ bytes: Int) throws {
    guard bytes > 0 else { return }
    let deadline = Clock.monotonicMilliseconds + Int64(patienceMilliseconds)
    while !tryClaim(bytes) {
      guard Clock.monotonicMilliseconds < deadline else {
        throw CairnError(
          .busy,
          "a block of \(bytes) bytes must wait for memory: other large blocks use \(used) of \(limit) bytes",
          hint: "Cairn tries again by itself; raise [limits] memory if that happens often", remedy: .retry)
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

  /// Reserves memory, without waiting, for a block of a trail that is already on this node.
  package func take(_ bytes: Int) { state.withLock { $0.take(bytes) } }

  package func free(_ bytes: Int) { state.withLock { $0.used -= bytes } }
}

extension BlockMemory.State {
  fileprivate mutating func take(_ bytes: Int) {
    used += bytes
    peak = max(peak, used)
  }
}
