import Capturing
import Changes
import Synchronization
import SystemKit

/// The end of a replication: by an error, or because the workers have caught up.
extension Replication {
  func work(_ body: () throws -> Void) {
    do { try body() } catch {
      note(error)
      stop()
    }
  }

  /// Two-way: runs an apply. If it fails after the drain signal, as for a suspended table, the opposite apply still goes
  /// on to the end of its trail.
  func finishing(_ apply: () throws -> Void) throws {
    do { try apply() } catch  where drainSignal.isSet { note(error) }
  }

  /// Keeps an error, if it is the first one, until all workers have ended.
  func note(_ error: any Error) {
    let envelope = CairnError(enveloping: error, doing: "replicate")
    failure.withLock { $0 = $0 ?? envelope }
  }

  /// Two-way: waits until both captures have caught up, then makes each apply stop at the end of its trail. The
  /// captures run until both apply workers have stopped.
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
