import SystemKit
import Synchronization

/// The peers of a listener at a time.
final class HTTPConnections: Sendable {
  private struct State {
    var all: [ObjectIdentifier: HTTPConnection] = [:]
    /// Those that nobody had shown who they are when somebody looked last, in the order in which they came.
    var strangers: [HTTPConnection] = []
    var perAddress: [String: Int] = [:]
  }

  let limits: HTTPLimits
  private let state = Mutex(State())

  init(_ limits: HTTPLimits) { self.limits = limits }

  func open(_ descriptor: Int32, remote: String) -> HTTPConnection {
    state.withLock { state in
      let ofAddress = state.perAddress[remote, default: 0] + 1
      state.perAddress[remote] = ofAddress
      var excess = HTTPConnection.Excess.none
      if ofAddress > limits.perAddress {
        excess = .address
      } else if state.all.count >= limits.connections, !Self.endStranger(&state) {
        excess = .total
      }
      let connection = HTTPConnection(descriptor, remote: remote, excess: excess)
      state.all[ObjectIdentifier(connection)] = connection
      state.strangers.append(connection)
      return connection
    }
  }

  /// Makes room: the connection that has stood for longest without a word of who it is gives way to a new one. So those
  /// who hold many open keep nobody out. False: all are of peers.
  private static func endStranger(_ state: inout State) -> Bool {
    state.strangers.removeAll { !$0.isStranger || $0.isEnded }
    guard let oldest = state.strangers.first else { return false }
    oldest.end()
    return true
  }

  /// Before its descriptor is closed.
  func close(_ connection: HTTPConnection) {
    state.withLock { state in
      state.all[ObjectIdentifier(connection)] = nil
      state.strangers.removeAll { $0 === connection }
      let ofAddress = state.perAddress[connection.remote, default: 1] - 1
      state.perAddress[connection.remote] = ofAddress == 0 ? nil : ofAddress
    }
  }

  /// Ends the connections with a request under way that may not go on. Idle ones are asked with their next request.
  ///
  /// - Parameter counts: Whether a certificate still counts; asked once for each certificate.
  /// - Parameter mayGoOn: Whether a request may still be answered.
  func endUnwelcome(counts: (PeerCertificate) -> Bool, mayGoOn: (HTTPRequest) -> Bool) {
    var known: [String: Bool] = [:]
    func isWelcome(_ request: HTTPRequest) -> Bool {
      if let peer = request.peer {
        let isGood = known[peer.fingerprint] ?? counts(peer)
        known[peer.fingerprint] = isGood
        if !isGood { return false }
      }
      return mayGoOn(request)
    }
    // Not under the lock: files are looked at.
    let unwelcome = state.withLock { Array($0.all.values) }.filter { connection in
      !connection.isEnded && !(connection.underWay.map(isWelcome) ?? true)
    }
    guard !unwelcome.isEmpty else { return }
    state.withLock { state in
      for connection in unwelcome where state.all[ObjectIdentifier(connection)] === connection { connection.end() }
    }
  }

  /// Ends those whose time is over.
  func endOverdue() {
    let now = Clock.monotonicMilliseconds
    // Under the lock, since whoever closes a descriptor takes its connection out before.
    state.withLock { state in
      for connection in state.all.values { connection.endWhenOver(now: now, limits) }
    }
  }
}
