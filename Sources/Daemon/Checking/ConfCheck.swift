import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import SystemKit

/// The check of `cairn check --config`: compares a configuration with the databases, files and folders that it names.
/// All checks run, even if one reports a problem.
///
///     let status = try ConfCheck(configuration, loaded, user: "cairn", output: output).run()
package final class ConfCheck {
  typealias Source = (end: SourceDatabase, tables: [SourceDatabase.Table])

  let configuration: Configuration
  let loaded: LoadedConfiguration
  /// The user that runs the daemon; nil if unknown, and then the checks use the rights of this command.
  let account: Account?
  let output: CheckOutput
  /// The number of rows of each table that are read to find values that do not fit; 0: none.
  let scanRows: Int
  /// The sources of the captures that can be read, by the name of the capture.
  var sources: [String: Source] = [:]
  /// For each task that only one worker may have, such as to capture a database: the worker that has it in the conf.
  var works: [DatabaseWork: WorkerName] = [:]
  /// For each target table, the trails that write to it, from the apply workers checked so far.
  var feeders: [NameKey: [TableClaim.Feeder]] = [:]
  /// The number of replication slots that the configuration will add to each server, from the captures checked so far.
  var newSlots: [String: Int] = [:]
  var newOrigins: [String: Int] = [:]
  /// The workers of the running daemon; empty if no daemon answers.
  private(set) lazy var running = askWorkers()
  private var failures: [CairnError] = []
  private var path = ""

  /// Creates the check of a configuration.
  /// - Parameter user: The user that runs the daemon; nil for the owner of the state folder.
  /// - Parameter scanRows: The number of rows of each table to read for values that do not fit; 0: none.
  /// - Throws: `usage` if there is no such user.
  package init(
    _ configuration: Configuration, _ loaded: LoadedConfiguration, user: String?,
    scanRows: Int = CheckOutput.scanRows, output: CheckOutput
  ) throws {
    (self.configuration, self.loaded, self.output) = (configuration, loaded, output)
    self.scanRows = scanRows
    if let user {
      guard let named = Account(named: user) else {
        throw CairnError(
          .usage, "there is no user '\(user)'", hint: "name the user that runs the daemon, as in --user cairn",
          remedy: .badInput)
      }
      account = named
    } else {
      account = Folder.owner(configuration.node.state).flatMap { Account(user: $0.user) }
    }
  }

  /// Runs all checks, and returns the exit status of the first error, or 0.
  package func run() -> Int32 {
    begin("node \(configuration.node.name)")
    checkPlaces()
    // Files, folders and servers answer as they will answer the daemon.
    if Account.current == 0, let account, account.user != 0, !account.become() {
      note("cannot take on the rights of user \(account.name): all checks below use the rights of root")
    }
    for capture in configuration.captures {
      begin("capture \(capture.name)")
      if attempt({ try check(capture) }) { tellFailure(.capture, capture.name) }
    }
    if let receive = configuration.receive {
      begin("receive")
      attempt { try check(receive) }
    }
    if let metrics = configuration.metrics, let tls = metrics.tls {
      begin("metrics")
      attempt {
        try checkFiles(tls.certificate, tls.key, tls.peers)
        try tellExpiry(of: tls.certificate)
        try tellExpiry(of: tls.peers)
        say("\(metrics.address): TLS 1.3", [("event", .text("metrics")), ("ok", .bool(true)), ("tls", .bool(true))])
      }
    }
    for pump in configuration.pumps {
      begin("pump \(pump.name)")
      if attempt({ try check(pump) }) { tellFailure(.pump, pump.name) }
    }
    for apply in configuration.applies {
      begin("apply \(apply.name)")
      if attempt({ try check(apply) }) { tellFailure(.apply, apply.name) }
      tellSilence(apply)
    }
    tellLeftSlots()
    let count = failures.count
    say(
      count == 0
        ? "all is ready: \(configuration.captures.count.counted("capture")), \(configuration.applies.count.counted("apply", "applies"))"
        : "not ready: \(count.counted("error"))",
      [("event", .text("checked")), ("errors", .integer(Int64(count)))])
    return failures.first?.code.exitStatus ?? 0
  }

  func begin(_ path: String) {
    self.path = path
    say(path, [("event", .text("path")), ("path", .text(path))])
  }

  /// Runs one check, and returns whether it succeeded. An error is printed, and the other checks still run.
  @discardableResult func attempt(_ body: () throws -> Void) -> Bool {
    do {
      try body()
      return true
    } catch {
      fail(CairnError(enveloping: error, doing: "run"))
      return false
    }
  }

  func fail(_ error: CairnError) {
    let context = error.context.merging(["path": path]) { first, _ in first }
    let named = CairnError(
      error.code, "\(path): \(error.message)", hint: error.hint, remedy: error.remedy, context: context)
    failures.append(named)
    output.report(named)
  }

  func note(_ text: String) {
    say("notice: \(text)", [("event", .text("notice")), ("path", .text(path)), ("text", .text(text))])
  }

  func say(_ text: String, _ members: [(String, JSONObject.Value)]) {
    output.say(text, members)
  }
}
