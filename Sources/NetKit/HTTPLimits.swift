/// What a listener takes upon itself.
package struct HTTPLimits: Sendable {
  /// A link over which the other side's kernel says nothing for as long is dead, whoever dialled: packets vanish there.
  static let linkSeconds = 10

  /// Connections at a time; those above are answered with 503, unless one of a stranger can be ended instead.
  package var connections: Int
  /// Connections of one address at a time, half of all where nothing is said; those above are answered with 429.
  package var perAddress: Int
  /// A connection that neither asks nor moves a byte for as long is ended.
  package var idleSeconds: Int
  /// From the beginning of a connection to the end of the head of its first request.
  package var handshakeSeconds: Int
  package var headerBytes: Int
  /// What is read of a body that nobody wants before its connection is cut.
  package var unwantedBytes: UInt64

  package init(
    connections: Int = 1000, perAddress: Int? = nil, idleSeconds: Int = 60, handshakeSeconds: Int = 10,
    headerBytes: Int = 16384, unwantedBytes: UInt64 = 16 << 20
  ) {
    self.connections = connections
    self.perAddress = perAddress ?? (connections + 1) / 2
    (self.idleSeconds, self.handshakeSeconds) = (idleSeconds, handshakeSeconds)
    (self.headerBytes, self.unwantedBytes) = (headerBytes, unwantedBytes)
  }
}
