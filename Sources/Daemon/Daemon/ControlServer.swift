import Changes
import ControlAPI
import Endpoints
import Glibc
import ServiceKit
import Synchronization
import SystemKit

/// The server on the control socket, with a thread for each client. The number of clients and the time for each request
/// are limited.
package final class ControlServer: Sendable {
  package typealias Answer = @Sendable (ControlRequest, ControlPeer) throws -> JSONObject

  // The time, in seconds, to receive a whole request, and to send its whole answer.
  private static let secondsMax = 5

  package let path: String
  private let stop = StopSignal()
  private let peers = ControlPeers()
  private let answer: Answer
  private let thread = Mutex<WorkerThread<Void>?>(nil)

  /// Listens on a socket at a path.
  ///
  /// - Throws: `state-locked` if another daemon answers there, `privilege-missing` for a group that this user is not
  ///   in, `io-failed` if no thread can be started.
  package init(_ path: String, group: String?, answer: @escaping Answer) throws {
    (self.path, self.answer) = (path, answer)
    let listener: LocalListener
    do throws(FileError) {
      try Folder.create(Folder.parent(of: path))
      listener = try LocalListener(path, group: group)
    } catch { throw Self.envelope(error, path, group) }
    let handle = Handle(listener: listener)
    let serving = try WorkerThread { [self] in serve(handle.listener) }
    thread.withLock { $0 = serving }
  }

  /// A wrapper that hands the listener to the serving thread. Only that thread uses the listener.
  private struct Handle: @unchecked Sendable { let listener: LocalListener }

  private static func envelope(_ error: FileError, _ path: String, _ group: String?) -> CairnError {
    switch error.code {
    case EADDRINUSE:
      CairnError(
        .stateLocked, "another daemon listens on the control socket \(path)",
        hint: "stop that daemon, or set another socket in [control]", remedy: .retry)
    case EEXIST:
      CairnError(
        .stateUnwritable, "\(path) exists and is not a socket",
        hint: "move the file away, or set another socket in [control]")
    case EPERM where group != nil, ENOENT where error.operation.hasPrefix("getgrnam"):
      CairnError(
        .privilegeMissing, "the control socket cannot be given to the group \(group ?? ""): \(error)",
        hint: "create the group and make the daemon's user a member of it, or leave [control] group out")
    default: error.asCairnError(doing: "listen on the control socket")
    }
  }

  /// Stops accepting connections. Requests that have arrived are still answered.
  package func close() {
    stop.set()
    let ended = thread.withLock { thread in
      defer { thread = nil }
      return thread
    }
    _ = ended?.join()
  }

  private func serve(_ listener: LocalListener) {
    while !stop.isSet {
      var entries = [
        pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
      ]
      guard poll(&entries, 2, -1) > 0, !stop.isSet else { continue }
      guard let socket = listener.accept(seconds: Self.secondsMax) else { continue }
      let connection = ControlPeers.Connection(socket)
      guard peers.open(connection) else {
        try? socket.writeLine(ControlReply.refused(Self.busy(connection.peer)).line, seconds: 1)
        continue
      }
      do throws(CairnError) {
        try detached { [self] in
          handle(connection)
          peers.close(connection)
        }
      } catch {
        peers.close(connection)
        try? socket.writeLine(ControlReply.refused(error).line, seconds: 1)
      }
    }
  }

  private static func busy(_ peer: ControlPeer) -> CairnError {
    CairnError(
      .busy, "user \(peer.user.map(String.init) ?? "unknown") has too many orders in progress",
      hint: "try again when these orders have ended", remedy: .retry)
  }

  private func handle(_ connection: ControlPeers.Connection) {
    let socket = connection.socket
    while !stop.isSet {
      connection.isWaiting = true
      guard let line = try? socket.readLine(bytesMax: ControlRequest.bytesMax, seconds: Self.secondsMax) else { return }
      connection.isWaiting = false
      let reply: ControlReply
      var isRubbish = false
      do {
        let request: ControlRequest
        do { request = try ControlRequest(parsing: line) } catch {
          isRubbish = true
          throw error
        }
        reply = .done(try answer(request, connection.peer))
      } catch { reply = .refused(CairnError(enveloping: error, doing: "answer")) }
      do { try socket.writeLine(reply.line, seconds: Self.secondsMax) } catch { return }
      if isRubbish { return }
    }
  }
}
