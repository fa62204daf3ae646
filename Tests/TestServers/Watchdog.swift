import Foundation
import Synchronization

/// A process that outlives the tests. When they end, in whatever way, it stops its processes and removes the folder.
///
/// It waits for the end of a named pipe that only the tests' process holds open for writing.
package final class Watchdog: Sendable {
  private struct State {
    var pipe: Int32
    var process: Child?
  }
  private let state: Mutex<State>

  /// All that are at work, ended in order when the process exits.
  private static let all = Mutex<[Watchdog]>([])
  private static let registered: Void = {
    atexit { for watchdog in Watchdog.all.withLock({ $0 }) { watchdog.end() } }
  }()

  /// `stop` is the command that is run before the folder is removed.
  package init(of folder: String, stop: [String]) throws {
    let name = folder + "/alive"
    guard mkfifo(name, 0o600) == 0 else { throw TestFailure("cannot make \(name): error \(errno)") }
    let pipe = open(name, O_RDWR | O_CLOEXEC)
    guard pipe >= 0 else { throw TestFailure("cannot open \(name): error \(errno)") }
    // In a session of its own, so that Ctrl-C of the tests does not reach it.
    let script = #"cat >/dev/null; folder=$1; shift; "$@" >/dev/null 2>&1; rm -rf "$folder""#
    let process = try Child(
      "/usr/bin/setsid", ["/bin/sh", "-c", script, "watchdog", folder] + stop, folder: "/",
      environment: ["PATH": "/usr/bin:/bin"], input: name, output: "/dev/null", errors: "/dev/null")
    state = Mutex(State(pipe: pipe, process: process))
    _ = Self.registered
    Self.all.withLock { $0.append(self) }
  }

  /// Has it do its work now, and waits.
  package func end() {
    state.withLock { state in
      if state.pipe >= 0 { close(state.pipe) }
      state.pipe = -1
      // The pipe's last writer is gone, so this comes to an end.
      if let process = state.process { process.waitUntilExit() }
      state.process = nil
    }
  }
}
