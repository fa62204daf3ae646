import Synchronization
import SystemKit

/// A client of the control socket.
package struct ControlPeer: Equatable, Sendable, CustomStringConvertible {
  /// The user of the client; nil if unknown.
  package let user: UInt32?
  package let process: Int32?

  package init(user: UInt32?, process: Int32?) { (self.user, self.process) = (user, process) }

  /// The client as text, such as `uid 1000, process 4711`.
  package var description: String {
    "uid \(user.map(String.init) ?? "unknown"), process \(process.map(String.init) ?? "unknown")"
  }
}

/// The open connections of the control socket: at most 64, and at most 16 of one user. A further connection closes the
/// oldest idle one.
final class ControlPeers: Sendable {
  final class Connection: @unchecked Sendable {
    let socket: LocalSocket
    let peer: ControlPeer
    private let waiting = Atomic<Bool>(true)

    init(_ socket: LocalSocket) {
      self.socket = socket
      let peer = socket.peer
      self.peer = ControlPeer(user: peer?.user, process: peer?.process)
    }

    /// Whether the connection is idle: the client has sent no whole request since it connected, or since the last
    /// answer.
    var isWaiting: Bool {
      get { waiting.load(ordering: .relaxed) }
      set { waiting.store(newValue, ordering: .relaxed) }
    }
  }

  private static let allMax = 64
  private static let ofUserMax = 16

  // Oldest first.
  private let connections = Mutex<[Connection]>([])

  /// Adds a connection. If there are too many, closes the oldest idle one first, or returns false if none is idle.
  func open(_ connection: Connection) -> Bool {
    connections.withLock { all in
      let own = all.filter { $0.peer.user == connection.peer.user }
      if own.count >= Self.ofUserMax {
        guard Self.end(own, &all) else { return false }
      } else if all.count >= Self.allMax {
        guard Self.end(all, &all) else { return false }
      }
      all.append(connection)
      return true
    }
  }

  private static func end(_ some: [Connection], _ all: inout [Connection]) -> Bool {
    guard let oldest = some.first(where: \.isWaiting) else { return false }
    oldest.socket.cut()
    all.removeAll { $0 === oldest }
    return true
  }

  func close(_ connection: Connection) { connections.withLock { $0.removeAll { $0 === connection } } }
}
