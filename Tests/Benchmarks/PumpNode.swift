import Changes
import Glibc
import NetKit
import Pumping
import SystemKit
import TestServers
import Trails

/// A node in this process, with the parts that the daemon is made of: trails in a folder, a listener, a pump.
final class PumpNode {
  let name: String
  let state: String
  private let shared: PumpShared
  private var listener: (server: HTTPServer, desk: PumpHandler)?
  private var running: (pump: Pump, stop: StopSignal, thread: WorkerThread<Void>)?

  /// Creates a node in a new folder, or in one with trails.
  init(_ name: String, state: String) throws {
    (self.name, self.state) = (name, state)
    shared = PumpShared(copies: TrailCopies(state: state))
  }

  /// Starts the listener; every peer may push and pull every trail.
  func listen(_ tls: ServerTLS?, peer: String) throws -> UInt16 {
    let grants = Grants([peer: .init(push: TrailPatterns(["*"]), pull: TrailPatterns(["*"]))])
    let desk = PumpHandler(
      .init(node: name, grants: { grants }, join: { _ in .answer(HTTPResponse(status: 404)) }), copies: shared.copies)
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: tls, handler: desk)
    listener = (server, desk)
    return server.port
  }

  func pump(_ direction: TransferProgress.Direction, port: UInt16, _ tls: ClientTLS?) throws {
    let plan = PumpPlan(
      direction, url: "\(tls == nil ? "http" : "https")://127.0.0.1:\(port)",
      trails: TrailPatterns([SalesTrail.name.description]), node: name, tls: tls)
    let (pump, stop) = (Pump(plan, shared), StopSignal())
    running = (pump, stop, try WorkerThread { try? pump.run(stop: stop) })
  }

  var folder: String { "\(state)/\(SalesTrail.name)" }
  /// The durable end of the trail here; nil if it has not begun.
  var end: TrailPlace? { try? SegmentSource.open(folder: folder).end }
  /// The error that stops the pump.
  var problem: CairnError? { running?.pump.error ?? running?.pump.progress.first?.error }
  /// Whether the other side has the whole trail.
  var isIdle: Bool { running?.pump.progress.first?.state == .waiting }

  /// Returns when the durable end equals that of the other node. `pause` is in microseconds.
  func wait(until other: PumpNode, pump: PumpNode, pause: UInt32, seconds: Double = 1800) throws {
    let (goal, begun) = (other.end, Stopwatch())
    while end != goal {
      guard begun.seconds < seconds else {
        throw TestFailure("the copy does not come to its end: \(pump.problem?.message ?? "no error is known")")
      }
      usleep(pause)
    }
  }

  func stop() {
    if let running {
      running.stop.set()
      _ = running.thread.join()
    }
    running = nil
    if let listener {
      listener.desk.end()
      listener.server.stop()
    }
    listener = nil
    shared.copies.close()
  }

  deinit { stop() }
}
