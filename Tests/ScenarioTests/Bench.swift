import Foundation
import TestServers
import Testing

/// Full size with CAIRN_SOAK=1, otherwise reduced.

/// `cairn` and other programs, one scenario after the other: they measure time, and the machine may be small.
@Suite(.serialized) enum Scenarios {}

/// The same with daemons; they mostly wait, so that they may run beside the others.
@Suite(.serialized) enum DaemonScenarios {}

/// The output of a child process.
struct Outcome {
  var status: Int32
  var output: String
  var errors: String

  /// The lines of errors and hints, without notices about rows that are or may be left out.
  var errorLines: [Substring] {
    errors.split(separator: "\n").filter {
      !$0.contains("is not captured") && !$0.contains("with triggers switched off")
    }
  }
}

/// A temporary folder with a source, a target and a state, the programs that work on them, and nothing is left over.
final class Bench {
  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path
  /// The debug build beside the test bundle.
  static let cairn: String = {
    var folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
    for bundle in [Bundle.main.bundleURL] + Bundle.allBundles.map(\.bundleURL) + [folder] {
      folder = bundle
      for _ in 0..<4 {
        let candidate = folder.appendingPathComponent("cairn").path
        if FileManager.default.isExecutableFile(atPath: candidate), !isFolder(candidate) { return candidate }
        folder = folder.deletingLastPathComponent()
      }
    }
    return root + "/.build/debug/cairn"
  }()
  static let python = "/usr/bin/python3"
  static func tool(_ name: String) -> String { root + "/Tests/Tools/" + name }

  let folder: String
  private var running: [Child] = []

  init() throws {
    folder = NSTemporaryDirectory() + "/cairn-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  /// Ends all that were started here.
  func killAll() {
    for process in running { process.signal(SIGKILL) }
    running = []
  }

  deinit {
    killAll()
    try? FileManager.default.removeItem(atPath: folder)
  }

  private static func isFolder(_ path: String) -> Bool {
    var isFolder: ObjCBool = false
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
  }

  func path(_ name: String) -> String { folder + "/" + name }

  /// Starts a program in the folder; its output goes to `NAME.out` and `NAME.err`.
  func start(
    _ name: String, _ program: String, _ arguments: [String], environment: [String: String] = [:]
  ) throws -> Child {
    let process = try Child(
      program, arguments, folder: folder,
      environment: ProcessInfo.processInfo.environment.merging(environment) { $1 }, output: path("\(name).out"),
      errors: path("\(name).err"))
    running.removeAll { !$0.isRunning }
    running.append(process)
    return process
  }

  func text(_ name: String) -> String {
    String(decoding: FileManager.default.contents(atPath: path(name)) ?? Data(), as: UTF8.self)
  }

  /// Runs a program to its end; one that takes longer than `seconds` is killed, which shows as its status.
  @discardableResult
  func run(
    _ program: String, _ arguments: [String], seconds: Double = 120, environment: [String: String] = [:]
  ) throws -> Outcome {
    let name = "run-" + UUID().uuidString
    let process = try start(name, program, arguments, environment: environment)
    defer { for suffix in [".out", ".err"] { unlink(path(name + suffix)) } }
    wait(process, seconds: seconds)
    return Outcome(status: process.terminationStatus, output: text(name + ".out"), errors: text(name + ".err"))
  }

  func wait(_ process: Child, seconds: Double = 120) { process.wait(seconds: seconds) }

  // MARK: The programs

  func sqlite(_ database: String, _ sql: String) throws -> String {
    let outcome = try run("/usr/bin/sqlite3", ["-bail", "-cmd", ".timeout 10000", database, sql])
    guard outcome.status == 0 else { throw TestFailure("sqlite3 \(database): \(outcome.errors)") }
    return outcome.output
  }

  /// The project's sample, in `source.db`.
  func makeSample(_ name: String = "source.db", mode: String = "wal") throws {
    _ = try sqlite(name, "PRAGMA journal_mode = \(mode)")
    let outcome = try run("/usr/bin/sqlite3", ["-bail", name, ".read '\(Self.root)/docs/demo/sample.sql'"])
    guard outcome.status == 0 else { throw TestFailure(outcome.errors) }
  }

  var replicateArguments: [String] {
    ["replicate", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--state", "state"]
  }

  func replicateOnce(_ more: [String] = [], seconds: Double = 180) throws -> Outcome {
    try run(Self.cairn, replicateArguments + ["--once"] + more, seconds: seconds)
  }

  func startReplicating(_ name: String = "cairn", environment: [String: String] = [:]) throws -> Child {
    try start(name, Self.cairn, replicateArguments, environment: environment)
  }

  func stop(_ process: Child, _ signal: Int32 = SIGINT) -> Int32 {
    process.signal(signal)
    wait(process, seconds: 30)
    return process.terminationStatus
  }

  func workload(_ process: Int, seed: UInt64, _ more: [String], environment: [String: String] = [:]) throws -> Child {
    try start(
      "workload\(process)", Self.python,
      [Self.tool("workload.py"), "source.db", "--seed", "\(seed)", "--process", "\(process)"] + more,
      environment: environment)
  }

  /// Empty when source and target are equal, else what differs: said by a program that knows nothing of Cairn.
  func differences(_ more: [String] = []) throws -> String {
    let outcome = try run(Self.python, [Self.tool("compare.py"), "source.db", "target.db"] + more)
    return outcome.status == 0 ? "" : String((outcome.output + outcome.errors).suffix(2000))
  }

  /// Waits until a query of the target gives `answer`.
  func waitForTarget(_ sql: String, _ answer: String, seconds: Double = 30) throws -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      let outcome = try run("/usr/bin/sqlite3", ["-readonly", "-cmd", ".timeout 5000", "target.db", sql])
      if outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) == answer { return true }
      usleep(20_000)
    }
    return false
  }
}

extension Child {
  /// Its anonymous memory now, in KiB.
  var anonymousKiB: Int {
    let status = try? String(contentsOfFile: "/proc/\(processIdentifier)/status", encoding: .utf8)
    let line = status?.split(separator: "\n").first { $0.hasPrefix("RssAnon") }
    return Int(line?.split(whereSeparator: { !$0.isNumber }).first ?? "") ?? 0
  }
}
