import Changes
import Glibc
import Operating
import SystemKit

/// Asks a daemon over its control socket.
package struct ControlClient: Sendable {
  package let path: String
  private static let replyBytesMax = 16 << 20

  package init(_ path: String) { self.path = path }

  /// Where a daemon listens when its conf does not say: `control` in the runtime directory of the service, or in the
  /// state folder where it runs without one.
  package static func path(given: String?, state: String) -> String {
    if let given { return given }
    if let runtime = getenv("RUNTIME_DIRECTORY").map({ String(cString: $0) }), runtime.hasPrefix("/") {
      return runtime.split(separator: ":").first.map { "\($0)/control" } ?? runtime
    }
    return state + "/control"
  }

  /// Where to look for it: where the state folder says that it listened last; then as ``path(given:state:)``, and
  /// outside of the service in its runtime directory.
  package static func places(given: String?, state: String) -> [String] {
    let usual = given.map { [$0] } ?? ["/run/cairn/control", path(given: nil, state: state)]
    return (noted(in: state).map { [$0] } ?? []) + usual
  }

  /// The lock of a state folder has the daemon's process in its first line, and its socket in the second.
  private static func noted(in state: String) -> String? {
    guard let file = try? File(state + "/lock", .read) else { return nil }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
    let lines = bytes.prefix(count).split(separator: 0x0a)
    return lines.count > 1 ? String(decoding: lines[1], as: UTF8.self) : nil
  }

  /// What was asked for. Errors: the daemon's own; `daemon-unreachable` when none answers.
  package func ask(_ request: ControlRequest, seconds: Int = 60) throws -> JSONObject {
    let line: [UInt8]?
    do throws(FileError) {
      let socket = try LocalSocket.connect(path, seconds: seconds)
      try socket.writeLine(request.line)
      line = try socket.readLine(bytesMax: Self.replyBytesMax)
    } catch { throw unreachable(error) }
    guard let line, let reply = ControlReply(parsing: line) else {
      throw CairnError(
        .daemonUnreachable, "what answers at \(path) is no cairnd, or ended in the middle of an answer",
        hint: "try again; 'systemctl status cairnd' says whether it runs", remedy: .retry)
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
      case EAGAIN: "it is busy or hangs: try again, and look into its log ('journalctl -u cairnd')"
      default:
        "start it ('systemctl start cairnd', or 'cairnd --config DIR'); if it runs with another conf, name that with --config"
      }
    let why = error.code == EAGAIN ? "it does not answer" : String(cString: strerror(error.code))
    let isRefused = [EACCES, EPERM].contains(error.code)
    return CairnError(
      .daemonUnreachable, "no cairnd answers at \(path): \(why)", hint: hint, remedy: isRefused ? .badInput : .retry)
  }
}
