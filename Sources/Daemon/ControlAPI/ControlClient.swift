import Changes
import Glibc
import SystemKit

/// A client of a daemon's control socket.
///
///     let answer = try ControlClient("/run/cairn/control.sock").ask(ControlRequest(.status))
package struct ControlClient: Sendable {
  package let path: String
  private static let replyBytesMax = 16 << 20

  package init(_ path: String) { self.path = path }

  /// Returns the path of a daemon's socket: `given`; if nil, `control` in `$RUNTIME_DIRECTORY`; if that is not set,
  /// `control` in the state folder.
  package static func path(given: String?, state: String) -> String {
    if let given { return given }
    if let runtime = getenv("RUNTIME_DIRECTORY").map({ String(cString: $0) }), runtime.hasPrefix("/") {
      return runtime.split(separator: ":").first.map { "\($0)/control" } ?? runtime
    }
    return state + "/control"
  }

  /// Returns the sockets that a client tries, in order: the socket named in the state folder's lock file, if any, then
  /// `given`. If `given` is nil, two default paths take its place.
  ///
  /// - Parameter given: The path from the conf; nil if the conf has none.
  package static func places(given: String?, state: String) -> [String] {
    let usual = given.map { [$0] } ?? ["/run/cairn/control", path(given: nil, state: state)]
    return (noted(in: state).map { [$0] } ?? []) + usual
  }

  // From the second line of the lock file in the state folder; nil if there is none.
  private static func noted(in state: String) -> String? {
    guard let file = try? File(state + "/lock", .read) else { return nil }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
    let lines = bytes.prefix(count).split(separator: 0x0a)
    return lines.count > 1 ? String(decoding: lines[1], as: UTF8.self) : nil
  }

  /// Sends a request, and returns its result.
  ///
  /// - Throws: The daemon's own error; `daemon-unreachable` if no daemon answers.
  package func ask(_ request: ControlRequest, seconds: Int = 60) throws -> JSONObject {
    let line: [UInt8]?
    do throws(FileError) {
      let socket = try LocalSocket.connect(path, seconds: seconds)
      try socket.writeLine(request.line)
      line = try socket.readLine(bytesMax: Self.replyBytesMax)
    } catch { throw unreachable(error) }
    guard let line, let reply = ControlReply(parsing: line) else {
      throw CairnError(
        .daemonUnreachable, "the program at \(path) is not a cairnd, or ended during an answer",
        hint: "try again; 'systemctl status cairnd' shows whether it runs", remedy: .retry)
    }
    switch reply {
    case .done(let facts): return facts
    case .refused(let error): throw error
    }
  }

  private func unreachable(_ error: FileError) -> CairnError {
    let hint =
      switch error.code {
      case EACCES, EPERM: "run as the daemon's user, as a member of the group in [control] group, or as root"
      case EAGAIN: "it is busy or hangs: try again, and read its log ('journalctl -u cairnd')"
      default:
        "start it ('systemctl start cairnd', or 'cairnd --config DIR'); if it runs with another conf, name its folder with --config"
      }
    let why = error.code == EAGAIN ? "it does not answer" : String(cString: strerror(error.code))
    let isRefused = [EACCES, EPERM].contains(error.code)
    return CairnError(
      .daemonUnreachable, "no cairnd answers at \(path): \(why)", hint: hint, remedy: isRefused ? .badInput : .retry)
  }
}
