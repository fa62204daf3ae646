import Changes
import Synchronization
import SystemKit
import Trails

/// The progress of one transfer of a trail to or from one peer.
package struct TransferProgress: Sendable {
  package enum State: String, Sendable {
    case starting
    case moving
    case waiting
    case retrying
    /// The transfer stopped after an error, and needs an operator.
    case stopped
    /// The trail began at the receiving node, so it is not transferred.
    case leftOut = "left-out"
  }

  package enum Direction: String, Sendable {
    case push
    case pull
  }

  package let trail: TrailName
  package let direction: Direction
  package var state = State.starting
  /// The name that the peer reports as its own; empty before the first contact.
  package var peer = ""
  /// The durable end of the trail's copy: at the peer for a push, at this node for a pull.
  package var copied: TrailPlace?
  package var copiedPosition: Position?
  package var end: TrailPlace?
  /// The position up to which every apply of the peer has applied the trail.
  package var peerApplied: Position?
  /// The number of bytes transferred since this transfer was started.
  package var bytes: UInt64 = 0
  package var bytesPerSecond: Double = 0
  package var error: CairnError?
  /// The time of the peer's last answer, in µs since 1970 UTC.
  package var heardAt: Int64?

  package init(_ trail: TrailName, _ direction: Direction) { (self.trail, self.direction) = (trail, direction) }
}

/// The progress of a transfer, which the transfer's thread writes and other threads read.
final class TransferGauge: Sendable {
  private struct State {
    var progress: TransferProgress
    var windowBegan = Clock.monotonicMilliseconds
    var windowBytes: UInt64 = 0
    var rate = 0.0
  }

  private static let windowMilliseconds: Int64 = 2000
  private let state: Mutex<State>

  init(_ trail: TrailName, _ direction: TransferProgress.Direction) {
    state = Mutex(State(progress: TransferProgress(trail, direction)))
  }

  var value: TransferProgress {
    state.withLock { state in
      turn(&state)
      var progress = state.progress
      progress.bytesPerSecond = state.rate
      return progress
    }
  }

  func set(_ change: (inout TransferProgress) -> Void) { state.withLock { change(&$0.progress) } }

  func heard() { state.withLock { $0.progress.heardAt = Clock.system.microseconds() } }

  func moved(_ count: Int) {
    state.withLock { state in
      state.progress.bytes += UInt64(count)
      state.windowBytes += UInt64(count)
      turn(&state)
    }
  }

  private func turn(_ state: inout State) {
    let now = Clock.monotonicMilliseconds
    let passed = now - state.windowBegan
    guard passed >= Self.windowMilliseconds else { return }
    state.rate = Double(state.windowBytes) * 1000 / Double(passed)
    (state.windowBegan, state.windowBytes) = (now, 0)
  }
}
