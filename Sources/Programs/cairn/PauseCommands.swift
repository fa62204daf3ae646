import Changes
import ControlAPI
import SystemKit

/// `cairn pause`: stops a worker until `cairn resume` or a time, also over restarts of the daemon.
struct PauseCommand: Command {
  static let name = "pause"
  static let summary = "stop a worker of the daemon until 'resume' or a time, also over restarts"
  static let operands = "WORKER"
  static let options =
    [Option("--until", "TIME", "when it continues by itself: \(UntilText.forms)")] + DaemonPeer.options
  static let details = """
    The worker stops at the next transaction border. The daemon stores the pause in its state folder, so it lasts over a
    restart, a crash and a reboot. Nothing is lost: changes wait in the journal or the log of the source, or in the
    trail. A pause that is too long for [limits] makes the daemon copy tables later, as for any reader that lags.

    TIME is a time of today or, if it has passed, of tomorrow; a date with a time; or 'in 2 hours'. Another 'pause'
    replaces the time. 'cairn status' shows the pause, and exits 1 as for a stopped worker.

    example: cairn pause apply.erp --until 18:00
    example: cairn pause capture.pos --until 'in 2 hours'
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let name = try arguments.operands(1...1)[0]
    let until = try arguments.value("--until").map { text in
      guard let until = UntilText.parse(text, now: Clock.system.microseconds(), zone: LocalTime()) else {
        throw arguments.usage("--until: '\(text)' is not a time in the future", "write \(UntilText.forms);")
      }
      return until
    }
    let answer = try DaemonPeer.ask(arguments, ControlRequest(.pause, name, until: until))
    guard !arguments.has("--json") else { return 0 }
    let end = answer.text("until").map { " until \($0.prefix(19))Z" } ?? ""
    Terminal.print("\(answer.text("worker") ?? name): pausing\(end)")
    return 0
  }
}

/// `cairn resume`: ends the pause of a worker.
struct ResumeCommand: Command {
  static let name = "resume"
  static let summary = "end the pause of a worker of the daemon"
  static let operands = "WORKER"
  static let options = DaemonPeer.options
  static let details = """
    The worker continues where it stopped.

    example: cairn resume apply.erp
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let name = try arguments.operands(1...1)[0]
    let answer = try DaemonPeer.ask(arguments, ControlRequest(.resume, name))
    guard !arguments.has("--json") else { return 0 }
    Terminal.print("\(answer.text("worker") ?? name): \(answer.text("event") ?? "done")")
    return 0
  }
}
