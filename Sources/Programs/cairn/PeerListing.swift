import Changes
import Configuring
import NetKit
import SystemKit
import Trust

/// `cairn peer list`: the nodes that may connect to this node, and the nodes that it has joined.
struct PeerListing {
  private struct Row {
    var name: String
    var state: String
    var certificate: PeerCertificate?
    var expires: Int64?
    /// The kind of this node's own certificate, `authority` or `listener`; nil for the certificate of a peer.
    var own: String?
  }

  private let conf: Configuration?
  private let peers: PeerFolder

  init(_ conf: Configuration?, _ peers: PeerFolder) { (self.conf, self.peers) = (conf, peers) }

  func run(asJSON: Bool) -> Int32 {
    let rows = rows(now: Clock.system.microseconds())
    if asJSON {
      for row in rows { Terminal.print(json(row)) }
    } else if rows.isEmpty {
      Terminal.print("no peers: run 'cairn peer invite NAME' to invite a node, or 'cairn peer join LINE' to join one")
    } else {
      let head = ["PEER", "STATE", "UNTIL", "FINGERPRINT", "MAY PUSH", "MAY PULL"]
      for line in Self.columns([head] + rows.filter { $0.own == nil }.map(text)) { Terminal.print(line) }
      let own = rows.filter { $0.own != nil }.map { Array(text($0).prefix(4)) }
      guard !own.isEmpty else { return 0 }
      Terminal.print("")
      for line in Self.columns([["THIS NODE", "STATE", "UNTIL", "FINGERPRINT"]] + own) { Terminal.print(line) }
    }
    return 0
  }

  private func rows(now: Int64) -> [Row] {
    var rows: [Row] = []
    for entry in IssuedCertificates(peers).all() {
      let facts = entry.certificate
      let state = entry.isRevoked ? "revoked" : facts.notAfter < now ? "expired" : "valid"
      rows.append(Row(name: facts.commonName, state: state, certificate: facts, expires: facts.notAfter))
    }
    for invitation in Invitations(peers).all() where invitation.expires >= now {
      rows.append(Row(name: invitation.name, state: "invited", expires: invitation.expires))
    }
    // Peers whose certificate another authority has signed, and peers that have not been invited yet.
    for peer in conf?.peers ?? [] where !rows.contains(where: { $0.name == peer.name }) {
      rows.append(Row(name: peer.name, state: conf?.receive?.tls == nil ? "not invited" : "by its authority"))
    }
    for hub in peers.joinedNames {
      guard let facts = peers.joinedCertificate(hub) else { continue }
      rows.append(
        Row(
          name: hub, state: facts.notAfter < now ? "joined, expired" : "joined", certificate: facts,
          expires: facts.notAfter))
    }
    rows.sort { ($0.name, $0.expires ?? 0) < ($1.name, $1.expires ?? 0) }
    return rows + own(now: now)
  }

  /// Returns rows about this node's own certificates.
  private func own(now: Int64) -> [Row] {
    func row(_ own: String, _ facts: PeerCertificate, _ state: String) -> Row {
      Row(
        name: own, state: facts.notAfter < now ? "expired" : state, certificate: facts, expires: facts.notAfter,
        own: own)
    }
    let authorities = peers.authorities.enumerated().map {
      row("authority", $1, $0 == 0 ? "signs" : "until all have the new one")
    }
    return authorities + (peers.listener.map { [row("listener", $0, "shown")] } ?? [])
  }

  private func text(_ row: Row) -> [String] {
    let peer = conf?.peers.first { $0.name == row.name }
    let until: String? = row.expires.map { UTCTime($0).description.prefix(16) + "Z" }
    let fingerprint: String? = row.certificate.map { String($0.fingerprint.prefix(16)) }
    let (push, pull) = (peer?.push.patterns ?? [], peer?.pull.patterns ?? [])
    return [
      row.name, row.state, until ?? "-", fingerprint ?? "-", push.isEmpty ? "-" : push.joined(separator: ","),
      pull.isEmpty ? "-" : pull.joined(separator: ","),
    ]
  }

  private func json(_ row: Row) -> String {
    let peer = conf?.peers.first { $0.name == row.name }
    func list(_ patterns: TrailPatterns?) -> JSONObject.Value { .list((patterns?.patterns ?? []).map { .text($0) }) }
    var object = JSONObject([
      (row.own == nil ? "peer" : "own", .text(row.own ?? row.name)), ("state", .text(row.state)),
    ])
    object["fingerprint"] = row.certificate.map { .text($0.fingerprint) }
    object["serial"] = row.certificate.map { .text($0.serial) }
    object["until"] = row.expires.map { .text(UTCTime($0).description) }
    if row.own == nil {
      object["push"] = list(peer?.push)
      object["pull"] = list(peer?.pull)
    }
    return object.line
  }

  private static func columns(_ rows: [[String]]) -> [String] {
    let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      let cells = row.enumerated().map { $1 + String(repeating: " ", count: widths[$0] - $1.count) }
      return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
    }
  }
}
