/// The limits of a listener on connections, waits and bytes.
package struct HTTPLimits: Sendable {
  /// The seconds without a reply from the peer's kernel after which a link counts as dead, whichever side dialled.
  static let linkSeconds = 10

  /// The maximum number of simultaneous connections. Further ones are answered with 503, unless a connection without a
  /// proven identity can be ended instead.
  package var connections: Int
  /// The maximum number of simultaneous connections of one address; by default, half of all. Further ones are answered
  /// with 429.
  package var perAddress: Int
  /// The maximum number of simultaneous connections with one certificate name; by default, a quarter of all. Further
  /// ones are answered with 429.
  package var perPeer: Int
  /// The seconds after which a connection is ended if it neither sends a request nor transfers bytes.
  package var idleSeconds: Int
  /// The seconds from the start of a connection to the end of its first request's head. It is also the time for the
  /// whole body of a client that has not proved its identity.
  package var handshakeSeconds: Int
  package var headerBytes: Int
  /// The number of bytes of a refused body that are read before the connection is closed.
  package var unwantedBytes: UInt64

  package init(
    connections: Int = 1000, perAddress: Int? = nil, perPeer: Int? = nil, idleSeconds: Int = 60,
    handshakeSeconds: Int = 10, headerBytes: Int = 16384, unwantedBytes: UInt64 = 16 << 20
  ) {
    self.connections = connections
    self.perAddress = perAddress ?? (connections + 1) / 2
    self.perPeer = perPeer ?? (connections + 3) / 4
    (self.idleSeconds, self.handshakeSeconds) = (idleSeconds, handshakeSeconds)
    (self.headerBytes, self.unwantedBytes) = (headerBytes, unwantedBytes)
  }
}
