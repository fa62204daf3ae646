import Foundation
import TestServers
import Testing

/// A node in a folder of its own: conf, daemon, and the commands that ask it.
final class DaemonBench {
  let bench: Bench
  static let cairnd = URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path + "/cairnd"
  private var daemons = 0
  private(set) var daemon: Child?
  private var variables: [String: String] = [:]

  init() throws {
    bench = try Bench()
    try FileManager.default.createDirectory(atPath: bench.path("conf/conf.d"), withIntermediateDirectories: true)
  }

  /// Writes `cairn.toml`: a node in the folder `state`, and what is given.
  func write(_ text: String, state: String = "state") throws {
    let head = "[node]\nname = \"store-042\"\nstate = \"\(bench.path(state))\"\n"
    try Data((head + text).utf8).write(to: URL(fileURLWithPath: bench.path("conf/cairn.toml")))
  }

  /// From one SQLite file to another.
  func pair(_ more: String = "") -> String {
    """
    [database.pos]
    url = "sqlite://\(bench.path("source.db"))"
    [database.copy]
    url = "sqlite://\(bench.path("target.db"))"
    [capture.pos]
    database = "pos"
    [apply.copy]
    trail = "store-042.pos"
    database = "copy"
    \(more)

    """
  }

  // MARK: The daemon

  /// Starts it with the conf folder, or with one file; returns its log's name.
  @discardableResult
  func start(_ conf: String = "conf", environment: [String: String] = [:]) throws -> Child {
    daemons += 1
    variables = environment
    let child = try bench.start(
      "cairnd\(daemons)", Self.cairnd, ["--config", conf],
      environment: environment.merging(["RUNTIME_DIRECTORY": bench.folder]) { $1 })
    daemon = child
    return child
  }

  /// Everything that daemons said, one after the other.
  var log: String { (1...max(1, daemons)).map { bench.text("cairnd\($0).err") }.joined() }

  /// Ends it; its exit status.
  func end(_ signal: Int32 = SIGTERM) -> Int32 {
    guard let daemon else { return -1 }
    daemon.signal(signal)
    daemon.wait(seconds: 30)
    return daemon.terminationStatus
  }

  func waitForLog(_ text: String, seconds: Double = 20) -> Bool { wait(seconds: seconds) { log.contains(text) } }

  func wait(seconds: Double = 20, _ condition: () -> Bool) -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      if condition() { return true }
      usleep(50_000)
    }
    return condition()
  }

  // MARK: Commands

  @discardableResult
  func cairn(_ words: String...) throws -> Outcome {
    let place = words[0] != "compare" ? ["--socket", bench.path("control")] : ["--config", "conf"]
    return try bench.run(Bench.cairn, words + place, environment: variables)
  }

  /// The status, as programs read it.
  func status() -> [String: Any]? {
    guard let outcome = try? cairn("status", "--json"), let data = outcome.output.data(using: .utf8) else { return nil }
    return (try? JSONSerialization.jsonObject(with: data)) as? [String: Any]
  }

  func worker(_ name: String) -> [String: Any]? {
    let workers = status()?["workers"] as? [[String: Any]]
    return workers?.first { $0["name"] as? String == name }
  }

  /// Waits until a worker is in a state, and for its error where one is named.
  func wait(for name: String, _ state: String, code: String? = nil, seconds: Double = 20) -> Bool {
    wait(seconds: seconds) {
      guard let worker = worker(name), worker["state"] as? String == state else { return false }
      return code == nil || (worker["error"] as? [String: Any])?["code"] as? String == code
    }
  }
}
