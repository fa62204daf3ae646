import NetKit
import Pumping

/// The direction of a connection, and whether it uses TLS.
struct CopyWay {
  let direction: TransferProgress.Direction
  let isTLS: Bool

  static let all = [false, true].flatMap { isTLS in
    [TransferProgress.Direction.push, .pull].map { CopyWay(direction: $0, isTLS: isTLS) }
  }

  var name: String { "\(direction.rawValue)-\(isTLS ? "tls" : "plain")" }

  /// Connects two nodes so that a trail of one goes to the other. Returns the node that dials.
  func connect(_ from: PumpNode, _ to: PumpNode, _ certificates: BenchCertificates) throws -> PumpNode {
    let (listener, dialler) = direction == .push ? (to, from) : (from, to)
    let port = try listener.listen(isTLS ? certificates.server : nil, peer: dialler.name)
    try dialler.pump(direction, port: port, isTLS ? certificates.client(dialler.name) : nil)
    return dialler
  }
}
