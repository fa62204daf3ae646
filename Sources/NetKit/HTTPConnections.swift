import SystemKit
import Synchronization

/// The peers of a listener at a time.
final class HTTPConnections: Sendable {
  private struct State {
    var all: [ObjectIdentifier: HTTPConnection] = [:]
    var perAddress: [String: Int] = [:]
  }

  let limits: HTTPLimits
  private let state = Mutex(State())

  init(_ limits: HTTPLimits) { self.limits = limits }

  func open(_ descriptor: Int32, remote: String) -> HTTPConnection {
    state.withLock { state in
      let ofAddress = state.perAddress[remote, default: 0] + 1
      state.perAddress[remote] = ofAddress
      let excess: HTTPConnection.Excess =
        state.all.count >= limits.connections ? .total : ofAddress > limits.perAddress ? .address : .none
      let connection = HTTPConnection(descriptor, remote: remote, excess: excess)
      state.all[ObjectIdentifier(connection)] = connection
      return connection
    }
  }

  /// Before its descriptor is closed.
  func close(_ connection: HTTPConnection) {
    state.withLock { state in
      state.all[ObjectIdentifier(connection)] = nil
      let ofAddress = state.perAddress[connection.remote, default: 1] - 1
      state.perAddress[connection.remote] = ofAddress == 0 ? nil : ofAddress
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
