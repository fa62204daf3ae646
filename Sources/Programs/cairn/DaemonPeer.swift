import Changes
import ControlAPI

/// The functions that commands share to send requests to a daemon.
enum DaemonPeer {
  static let config = Option("--config", "DIR", "folder of the daemon's conf (default /etc/cairn)")
  static let socket = Option("--socket", "PATH", "the daemon's control socket, instead of reading it from the conf")
  static let options = [config, socket, Option.json]

  /// Sends a request to the daemon, and returns the answer. Prints the answer if JSON output was requested.
  static func ask(_ arguments: Arguments, _ request: ControlRequest) throws -> JSONObject {
    let answer = try address(arguments).ask(request)
    if arguments.has("--json") { Terminal.print(answer.line) }
    return answer
  }

  /// Prints the notes of an answer to standard error. Returns true if there are any.
  @discardableResult static func tellNotes(of answer: JSONObject) -> Bool {
    let notes = answer.texts("notes")
    for note in notes { Terminal.note("cairn: \(note)") }
    return !notes.isEmpty
  }

  static func address(_ arguments: Arguments) -> DaemonAddress {
    if let path = arguments.value("--socket") { return DaemonAddress(client: ControlClient(path), confError: nil) }
    return DaemonConf.address(arguments.value("--config"))
  }
}

/// `cairn start`: starts a worker that was stopped or has failed.
struct StartCommand: Command {
  static let name = "start"
  static let summary = "start a worker of the daemon"
  static let operands = "WORKER"
  static let options = DaemonPeer.options
  static let details = """
    WORKER is a name of 'cairn status', such as capture.pos or apply.erp; the name of the section alone is enough if
    only one worker has it. A worker that waits for its next try starts at once.

    example: cairn start apply.erp
    """
  static func run(_ arguments: Arguments) throws -> Int32 { try WorkerOrder.run(arguments, .start) }
}

/// `cairn stop`: stops a worker at the next transaction boundary.
struct StopCommand: Command {
  static let name = "stop"
  static let summary = "stop a worker of the daemon at the next transaction border"
  static let operands = "WORKER"
  static let options = DaemonPeer.options
  static let details = """
    The worker stays stopped until 'cairn start', or until the daemon starts again. A daemon starts all workers of its
    conf, also after a crash or a reboot. To stop a worker for longer, remove its section from the conf. Nothing is
    lost: changes wait in the journal or the log of the source, or in the trail.

    example: cairn stop apply.erp
    """
  static func run(_ arguments: Arguments) throws -> Int32 { try WorkerOrder.run(arguments, .stop) }
}

/// `cairn restart`: stops a worker and starts it again.
struct RestartCommand: Command {
  static let name = "restart"
  static let summary = "stop a worker of the daemon and start it again"
  static let operands = "WORKER"
  static let options = DaemonPeer.options
  static let details = """
    example: cairn restart capture.pos
    """
  static func run(_ arguments: Arguments) throws -> Int32 { try WorkerOrder.run(arguments, .restart) }
}

/// `cairn reload`: makes the daemon load its configuration again. Prints the reason if the daemon refuses the new
/// configuration.
struct ReloadCommand: Command {
  static let name = "reload"
  static let summary = "make the daemon reload its conf"
  static let operands = ""
  static let options = DaemonPeer.options
  static let details = """
    Workers that the change does not affect continue. A conf that is refused changes nothing, and all errors are printed.

    example: cairn reload
    """
  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let answer = try DaemonPeer.ask(arguments, ControlRequest(.reload))
    DaemonPeer.tellNotes(of: answer)
    guard !arguments.has("--json") else { return 0 }
    var isNothing = true
    for (key, word) in [("added", "new"), ("removed", "gone"), ("changed", "restarted")] {
      let names = answer.texts(key)
      if names.isEmpty { continue }
      isNothing = false
      Terminal.print("\(word): \(names.joined(separator: ", "))")
    }
    if isNothing { Terminal.print("loaded; no worker is affected") }
    return 0
  }
}

private enum WorkerOrder {
  static func run(_ arguments: Arguments, _ command: ControlRequest.Command) throws -> Int32 {
    let name = try arguments.operands(1...1)[0]
    let answer = try DaemonPeer.ask(arguments, ControlRequest(command, name))
    if !arguments.has("--json") {
      Terminal.print("\(answer.text("worker") ?? name): \(answer.text("event") ?? "done")")
    }
    return 0
  }
}

/// `cairn copy`: refreshes tables at the target of an apply.
struct CopyCommand: Command {
  static let name = "copy"
  static let summary = "copy tables to a target of the daemon again, while changes continue"
  static let operands = "APPLY"
  static let options =
    [
      Option("--tables", "PATTERN,...", "tables to copy, such as 'item,order*' (default: all)"),
      Option("--wait", nil, "wait until the rows have arrived, with a progress bar on a terminal"),
    ] + DaemonPeer.options
  static let details = """
    The capture that feeds the apply reads the rows again, in chunks between the changes; every apply of its trail gets
    them. If the trail comes from another node, that node is asked, over all nodes in between. If one row has stopped a
    one-way apply, --tables with its table starts it again. It skips the changes of these tables until their copies. Use
    it without --tables also if a target, a slot or a journal was lost. The target then drops its position, and waits
    for a copy of everything.

    example: cairn copy erp --tables item --wait
    example: cairn copy erp
    """
  static func run(_ arguments: Arguments) throws -> Int32 {
    let name = try arguments.operands(1...1)[0]
    let tables = arguments.value("--tables").map { $0.split(at: ",") } ?? []
    let wait = arguments.has("--wait") ? try CopyWait(arguments, name) : nil
    let answer = try DaemonPeer.ask(arguments, ControlRequest(.copy, name, tables: tables))
    tell(arguments, answer)
    let isHeld = DaemonPeer.tellNotes(of: answer)
    guard let wait else { return 0 }
    return isHeld ? 1 : try wait.run(TablePatterns(answer.texts("names")), count: max(1, answer.texts("tables").count))
  }

  private static func tell(_ arguments: Arguments, _ answer: JSONObject) {
    guard !arguments.has("--json") else { return }
    if let node = answer.text("asked_of") {
      Terminal.print("asked node \(node) to copy again; see 'cairn status'")
      return
    }
    let asked = answer.texts("tables")
    Terminal.print(
      answer.bool("everything") == true
        ? "copying everything again; see 'cairn status'" : "copying again: \(asked.joined(separator: ", "))")
  }
}

extension JSONObject {
  fileprivate func texts(_ key: String) -> [String] {
    list(key).compactMap { if case .text(let text) = $0 { text } else { nil } }
  }
}
