/// The limits of a listener on connections, waits and bytes.
///
///     let limits = HTTPLimits(connections: 32, idleSeconds: 10)
package struct HTTPLimits: Sendable {
  /// The seconds without an answer from the peer's kernel after which a connection counts as dead.
  static let linkSeconds = 10

  /// The maximum number of connections at a time. A further one gets the status 503.
  package var connections: Int
  /// The maximum number of connections from one address; by default, half of all. A further one gets the status 429.
  package var perAddress: Int
  /// The maximum number of connections with one certificate name; by default, a quarter of all. A further one gets the
  /// status 429.
  package var perPeer: Int
  /// The seconds after which a connection is ended if it neither sends a request nor transfers bytes.
  package var idleSeconds: Int
  /// The maximum number of seconds from the accept to the end of the first request's head. A body from a client without
  /// a valid certificate has the same limit.
  package var handshakeSeconds: Int
  package var headerBytes: Int
  /// The maximum number of bytes of a refused body that the server reads and ignores. If the body is larger, the server
  /// closes the connection.
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
