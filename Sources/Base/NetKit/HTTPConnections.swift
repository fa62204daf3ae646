import Changes
import SystemKit
import Synchronization

/// The open connections of a listener.
final class HTTPConnections: Sendable {
  private struct State {
    var all: [ObjectIdentifier: HTTPConnection] = [:]
    // The connections whose clients have not shown a valid certificate yet, oldest first.
    var strangers: [HTTPConnection] = []
    var perAddress: [String: Int] = [:]
    var perPeer: [NameKey: Set<ObjectIdentifier>] = [:]
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

  // Ends the oldest connection whose client has shown no valid certificate. Returns false if there is none.
  private static func endStranger(_ state: inout State) -> Bool {
    state.strangers.removeAll { !$0.isStranger || $0.isEnded }
    guard let oldest = state.strangers.first else { return false }
    oldest.end()
    return true
  }

  /// Counts a connection for the name in its certificate. Returns false, and does not count it, if the name has its
  /// maximum number of connections.
  func admit(_ connection: HTTPConnection, _ name: String) -> Bool {
    state.withLock { state in
      let those = state.perPeer[name, default: []]
      // A connection that is refused must not take the place of one that was admitted before.
      if those.contains(ObjectIdentifier(connection)) { return true }
      guard those.count < limits.perPeer else { return false }
      connection.countsFor(name)
      state.perPeer[name, default: []].insert(ObjectIdentifier(connection))
      return true
    }
  }

  func close(_ connection: HTTPConnection) {
    state.withLock { state in
      state.all[ObjectIdentifier(connection)] = nil
      state.strangers.removeAll { $0 === connection }
      for name in connection.names {
        state.perPeer[name]?.remove(ObjectIdentifier(connection))
        if state.perPeer[name]?.isEmpty == true { state.perPeer[name] = nil }
      }
      let ofAddress = state.perAddress[connection.remote, default: 1] - 1
      state.perAddress[connection.remote] = ofAddress == 0 ? nil : ofAddress
    }
  }

  /// Ends each connection whose request in progress may not continue.
  ///
  /// - Parameter counts: Returns whether a certificate is still valid. It is called once for each certificate.
  /// - Parameter mayGoOn: Returns whether a request may still be answered.
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
    // This is done without the lock, because it reads files.
    let unwelcome = state.withLock { Array($0.all.values) }.filter { connection in
      !connection.isEnded && !(connection.underWay.map(isWelcome) ?? true)
    }
    guard !unwelcome.isEmpty else { return }
    state.withLock { state in
      for connection in unwelcome where state.all[ObjectIdentifier(connection)] === connection { connection.end() }
    }
  }

  func endOverdue() {
    let now = Clock.monotonicMilliseconds
    // This is done under the lock: a connection is removed under it before its descriptor is closed.
    state.withLock { state in
      for connection in state.all.values { connection.endWhenOver(now: now, limits) }
    }
  }
}
