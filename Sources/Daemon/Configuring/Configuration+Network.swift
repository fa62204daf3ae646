import Changes

extension Configuration {
  /// `[pump.NAME]`: the trails that a pump copies to another node, or fetches from it.
  ///
  ///     Configuration.Pump(name: "to-hq", trails: TrailPatterns(["till.*"]), way: .push, url: url)
  package struct Pump: Equatable, Sendable {
    package enum Direction: String, Sendable {
      case push
      case pull
    }

    @ByBytes package var name: String
    package var trails: TrailPatterns
    package var way: Direction
    package var url: PeerURL
    /// The name that the other node's certificate must have; nil for the host of the URL.
    @ByBytes package var peer: String? = nil
    /// The certificates. If nil, the pump uses those that `[receive]` names; if it names none, those in the state
    /// folder.
    package var tls: PeerFiles?
    /// The limit for sending or fetching, in bytes per second; nil for no limit.
    package var bytesPerSecond: Int?

    package init(name: String, trails: TrailPatterns, way: Direction, url: PeerURL) {
      (self.name, self.trails, self.way, self.url) = (name, trails, way, url)
    }
  }

  /// `[receive]`: the listener to which other nodes push, and from which they pull.
  package struct Receive: Equatable, Sendable {
    /// The address to listen on: an IP address without brackets, or `localhost`.
    @ByBytes package var host: String
    package var port: UInt16
    /// The certificates; nil for the files that `cairn peer invite` wrote to the state folder.
    package var tls: PeerFiles?
    package var isInsecure = false
    package var connections = 1000

    package init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }

    package var isLoopback: Bool { PeerURL.isLoopback(host) }
    package var address: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
  }

  /// `[peer.NAME]`: the trails that node NAME may push to this node, and those that it may pull.
  package struct Peer: Equatable, Sendable {
    @ByBytes package var name: String
    package var push: TrailPatterns
    package var pull: TrailPatterns
    /// The maximum number of the peer's trails on this node.
    package var trails = Self.trailsUsual
    package static let trailsUsual = 1000
    /// The maximum disk space for this peer's trails, in bytes; nil: half of `[limits] disk`.
    package var diskBytes: Int64?
    /// The maximum number of request bodies that the peer may send at the same time.
    package var requests = 64

    package init(name: String, push: TrailPatterns, pull: TrailPatterns) {
      (self.name, self.push, self.pull) = (name, push, pull)
    }
  }

  /// `tls = { certificate, key, peers }`: paths of PEM files.
  package struct PeerFiles: Equatable, Sendable {
    @ByBytes package var certificate: String
    @ByBytes package var key: String
    /// The path of the file with the authorities that sign the certificates of other nodes.
    @ByBytes package var peers: String

    package init(certificate: String, key: String, peers: String) {
      (self.certificate, self.key, self.peers) = (certificate, key, peers)
    }
  }

  /// Returns whether this node receives a trail of another node: a pump fetches it, or a peer may push it.
  package func receives(_ trail: String) -> Bool {
    pumps.contains { $0.way == .pull && $0.trails.includes(trail) } || peers.contains { $0.push.includes(trail) }
  }
}

/// The address of another node's listener: `https://hq.example:7420`.
///
///     PeerURL("https://hq.example")?.port   // 7420
package struct PeerURL: Equatable, Sendable, CustomStringConvertible {
  package var isTLS: Bool
  /// A name, or an IP address without brackets.
  @ByBytes package var host: String
  package var port: UInt16

  package static let usualPort: UInt16 = 7420

  /// Parses a URL; nil for a text with a path, a user or another scheme than `https` or `http`.
  package init?(_ text: String) {
    let lower = text.asciiLowercased
    guard let scheme = ["https://", "http://"].first(where: lower.hasPrefix) else { return nil }
    isTLS = scheme == "https://"
    var rest = lower.dropFirst(scheme.count)
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    port = Self.usualPort
    if rest.hasPrefix("[") {
      guard let end = rest.firstIndex(of: "]") else { return nil }
      host = String(rest[rest.index(after: rest.startIndex)..<end])
      guard host.contains(":"), host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }) else { return nil }
      rest = rest[rest.index(after: end)...]
    } else {
      host = String(rest.prefix { $0 != ":" })
      guard Self.isHost(host) else { return nil }
      rest = rest.dropFirst(host.count)
    }
    guard !rest.isEmpty else { return }
    guard rest.hasPrefix(":"), let number = UInt16(rest.dropFirst()), number > 0 else { return nil }
    port = number
  }

  package var description: String {
    "\(isTLS ? "https" : "http")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }

  package var isLoopback: Bool { Self.isLoopback(host) }

  static func isLoopback(_ host: String) -> Bool {
    host == "localhost" || host == "::1" || (host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." })
  }

  static func isHost(_ text: String) -> Bool {
    guard let first = text.first, text.utf8.count <= 253, first != ".", first != "-" else { return false }
    return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-_".contains($0)) }
  }
}

extension Configuration.Pump {
  /// The name of the other node, as in its certificate.
  package var node: String { peer ?? url.host }
}

extension Configuration {
  private var shareBytes: Int64? { limits.diskBytes.map { $0 / 2 } }

  /// Returns the limit, in bytes of disk, for the trails that a peer may push; nil for no limit.
  package func diskBytes(of peer: Peer) -> Int64? { peer.diskBytes ?? shareBytes }

  /// The trails that may come from one other node, their maximum number, and their maximum size on disk.
  package struct Share: Sendable {
    package let node: String
    package fileprivate(set) var patterns: [TrailPatterns] = []
    /// The maximum number of trails of the other node.
    package let trails: Int
    /// The maximum size of the other node's trails on this node's disk, in bytes; nil for no limit.
    package let diskBytes: Int64?
    /// Whether the conf has a section `[peer.NAME]` for the node. If not, only pumps of this node fetch its trails.
    package let isPeer: Bool

    package func includes(_ trail: TrailName) -> Bool { patterns.contains { $0.includes(trail) } }
  }

  package var shares: [Share] {
    var shares = peers.map { peer in
      Share(
        node: peer.name, patterns: [peer.push], trails: peer.trails, diskBytes: diskBytes(of: peer), isPeer: true)
    }
    for pump in pumps where pump.way == .pull {
      if let known = shares.firstIndex(where: { $0.node == pump.node }) {
        shares[known].patterns.append(pump.trails)
      } else {
        shares.append(
          Share(
            node: pump.node, patterns: [pump.trails], trails: Peer.trailsUsual, diskBytes: shareBytes, isPeer: false))
      }
    }
    return shares
  }
}
