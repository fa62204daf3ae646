import Glibc
import SystemKit
import TestServers

/// `cairn replicate` between two databases, with a state of its own, run as an operator runs it.
struct Replication {
  let stage: Stage
  let from: String
  let to: String
  let state: String
  var isTwoWay = false

  init(_ stage: Stage, from: String, to: String, state name: String) throws {
    (self.stage, self.from, self.to) = (stage, from, to)
    state = try stage.freshFolder(name)
  }

  private var arguments: [String] {
    ["replicate", "--from", from, "--to", to, "--state", state] + (isTwoWay ? ["--two-way"] : [])
  }

  /// Applies everything that is committed now.
  @discardableResult func once(watch: () throws -> Void = {}) throws -> MeasuredRun {
    try MeasuredRun(stage.options.cairn, arguments + ["--once"], in: stage.folder, watch: watch)
  }

  /// Follows until it is stopped.
  func follow() throws -> Child { try MeasuredRun.start(stage.options.cairn, arguments, in: stage.folder) }

  /// Ends a running cairn. Throws if its exit status is not 0.
  func stop(_ child: Child) throws {
    child.signal(SIGINT)
    child.wait(seconds: 60)
    guard child.terminationStatus == 0 else {
      throw TestFailure("cairn ended with \(child.terminationStatus): \(MeasuredRun.text(stage.path("run.err")))")
    }
  }

  func compare() throws -> MeasuredRun {
    try MeasuredRun(stage.options.cairn, ["compare", "--from", from, "--to", to, "--state", state], in: stage.folder)
  }

  /// Removes the objects that capture added to the source.
  func detach() throws { _ = try MeasuredRun(stage.options.cairn, ["detach", from], in: stage.folder) }
}
