import Capturing
import Synchronization
import SystemKit

/// The end of a two-way replication whose workers have caught up.
extension Replication {
  /// Waits until both captures have caught up, then makes each apply stop at the end of its trail. The captures run
  /// until both apply workers have stopped.
  func drainOnceCaughtUp(_ back: Direction) {
    while !stopSignal.isSet {
      let (forth, back) = (captureProgress.snapshot, back.captureProgress.snapshot)
      if forth.isCaughtUp, forth.tablesToCopy == 0, back.isCaughtUp { break }
      _ = stopSignal.wait(milliseconds: 20)
    }
    drainSignal.set()
  }

  func applyEnded() {
    guard applying.subtract(1, ordering: .acquiringAndReleasing).newValue == 0, back != nil else { return }
    stopSignal.set()
  }
}
