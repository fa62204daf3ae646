import Changes
import NetKit
import SystemKit
import Trails

/// A loop that transfers one trail to or from one peer until it is stopped. After most errors it tries again.
protocol TrailTransfer: AnyObject {
  var gauge: TransferGauge { get }
  var stop: StopSignal { get }
  /// Transfers the trail until an error occurs, which it throws.
  ///
  /// - Parameter achieved: Is called after most successful requests, to reset the counts of failures.
  func session(_ achieved: () -> Void) throws
}

/// The error that a trail began at the receiving node, so that it is not transferred.
struct LeftOut: Error {}

extension TrailTransfer {
  func run() {
    var patience = TransferPatience()
    while !stop.isSet {
      let error: CairnError
      do {
        try session {
          patience.calm()
          gauge.set { $0.error = nil }
        }
        return
      } catch is HTTPClient.Stopped {
        return
      } catch is LeftOut {
        gauge.set { ($0.state, $0.error) = (.leftOut, nil) }
        // The name of a node changes only with a restart of the pump, so the transfer waits until it is stopped.
        while !stop.wait(milliseconds: 60_000) {}
        return
      } catch let fault as PumpFault {
        error = fault.error
      } catch let thrown as CairnError {
        error = thrown
      } catch let thrown {
        error = CairnError(.bug, "\(thrown)", hint: "please report this", remedy: .bug)
      }
      guard let milliseconds = patience.next(error, chance: Double.random(in: 0...1)) else {
        gauge.set { ($0.state, $0.error) = (.stopped, error) }
        while !stop.wait(milliseconds: 60_000) {}
        return
      }
      gauge.set { ($0.state, $0.error) = (.retrying, error) }
      _ = stop.wait(milliseconds: Int32(clamping: milliseconds))
    }
  }
}
