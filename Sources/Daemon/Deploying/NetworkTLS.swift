import Changes
import Configuring
import NetKit
import Trust

/// Finds the certificates of the listener and of pumps, in the conf and the state folder.
package enum NetworkTLS {
  /// Returns the listener's certificate and its trusted authorities; nil for plain HTTP, which needs `insecure = true`.
  /// Revoked certificates are refused.
  ///
  /// - Throws: `conf-missing` if there are no certificates and `insecure` is not set; `conf-value` if `insecure` is set
  ///   although the state folder has certificates.
  package static func server(_ receive: Configuration.Receive, state: String) throws -> ServerTLS? {
    let peers = PeerFolder(state: state)
    if receive.isInsecure {
      guard peers.hasServer else { return nil }
      throw CairnError(
        .confValue,
        "[receive] is insecure, but peers have certificates of this node in \(peers.path): over plain HTTP each peer could claim the name of any other",
        hint: "remove insecure from [receive]; or, if certificates are no longer wanted, move \(peers.path) away",
        remedy: .badInput)
    }
    if let files = receive.tls {
      return ServerTLS(
        certificate: files.certificate, key: files.key, authorities: files.peers, revoked: peers.serverTLS.revoked)
    }
    if peers.hasServer { return peers.serverTLS }
    throw CairnError(
      .confMissing,
      "there is no server certificate for \(receive.address): no tls in [receive], and none in \(peers.path)",
      hint:
        "run 'cairn peer invite NAME', which creates a certificate; or name your own files with tls; or write 'insecure = true' in [receive] if only peers can reach this address",
      remedy: .retry)
  }

  /// Returns the name of the node that a pump connects to, if this node has joined it; otherwise nil.
  package static func joined(_ pump: Configuration.Pump, state: String) -> String? {
    let names = PeerFolder(state: state).joinedNames
    // A pump without a peer's name leads to the only node that was joined.
    guard let peer = pump.peer else { return names.count == 1 ? names[0] : nil }
    return names.contains(peer) ? peer : nil
  }

  /// Returns the certificate that a pump shows, and the authorities that it trusts; nil for a URL of plain HTTP.
  ///
  /// - Parameter own: The certificate files that `[receive]` of this node names.
  /// - Throws: `conf-missing` if the URL is one of HTTPS and no certificate is configured or stored.
  package static func client(
    _ pump: Configuration.Pump, own: Configuration.PeerFiles?, state: String
  ) throws -> ClientTLS? {
    guard pump.url.isTLS else { return nil }
    if let files = pump.tls ?? own {
      return ClientTLS(certificate: files.certificate, key: files.key, authorities: files.peers, name: pump.peer)
    }
    let peers = PeerFolder(state: state)
    guard peers.joinedNames.isEmpty, !peers.hasServer else {
      return peers.clientTLS(joined(pump, state: state) ?? pump.peer)
    }
    throw CairnError(
      .confMissing,
      "there is no client certificate for \(pump.url): no tls in [pump.\(pump.name)], and none in \(peers.path)",
      hint: "run 'cairn peer join' with the line that 'cairn peer invite' printed at the other node", remedy: .retry)
  }
}
