import Changes
import ControlAPI
import Glibc
import SystemKit

/// `cairn top`: the state of a daemon on a whole terminal, refreshed every two seconds.
struct TopCommand: Command {
  static let name = "top"
  static let summary = "show the workers, paths and problems of the daemon, refreshed every 2 s"
  static let operands = ""
  static let options = [
    Option("--once", nil, "print one picture, and end"), DaemonPeer.config, DaemonPeer.socket,
  ]
  static let details = """
    The picture fits the terminal, 80 columns and 24 lines at least. Workers and paths with a problem come first, and
    the causes with their next steps are below. 'q' and Ctrl-C end it. Colours are used only on a terminal, and not if
    NO_COLOR is set. Programs read 'cairn status --json'.

    example: cairn top
    example: cairn top --once --config /etc/cairn
    """

  private static let periodMilliseconds: Int64 = 2_000
  private static let keyMilliseconds: Int32 = 100

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let daemon = DaemonPeer.address(arguments)
    let answer = try daemon.ask(ControlRequest(.status), seconds: 10)
    guard !arguments.has("--once"), Terminal.isOutputShown, isatty(0) == 1 else {
      let size = Screen.size ?? (80, 24)
      let frame = TopFrame(answer, width: size.width, height: size.height - 1, keys: false)
      for line in frame.lines {
        let (red, plain) = line.style.codes(isColoured: Terminal.isInteractive)
        Terminal.write("\(red)\(line.text.oneLine)\(plain)\n", to: 1)
      }
      return 0
    }
    let screen = Screen()
    defer { screen.close() }
    follow(daemon, answer, screen)
    return 0
  }

  private static func follow(_ daemon: DaemonAddress, _ first: JSONObject, _ screen: Screen) {
    var answer = first
    var trouble: CairnError?
    var readAt = Clock.monotonicMilliseconds
    var size = Screen.size ?? (80, 24)
    var isNew = true
    while true {
      let now = Clock.monotonicMilliseconds
      if now - readAt >= periodMilliseconds {
        (readAt, isNew) = (now, true)
        do {
          answer = try daemon.ask(ControlRequest(.status), seconds: 2)
          trouble = nil
        } catch { trouble = Cairn.envelope(error) }
      }
      let present = Screen.size ?? size
      if present != size { (size, isNew) = (present, true) }
      if isNew { screen.show(lines(answer, trouble, size)) }
      isNew = false
      if screen.isEnded(withinMilliseconds: keyMilliseconds) { return }
    }
  }

  private static func lines(_ answer: JSONObject, _ trouble: CairnError?, _ size: (width: Int, height: Int)) -> [String]
  {
    let frame = TopFrame(answer, width: size.width, height: size.height)
    var lines = frame.text(isColoured: Terminal.isInteractive)
    if let trouble, lines.count > 1 {
      lines[1] = "no answer: [\(trouble.code.rawValue)] \(trouble.message)".oneLine.cut(columns: size.width)
    }
    return Array(lines.prefix(size.height))
  }
}

/// A terminal in whose second buffer a program draws. ``close()`` restores the terminal.
private final class Screen {
  private var before = termios()
  private let isKnown: Bool
  private var signals = sigset_t()

  /// The columns and lines of the terminal; nil if the output is none.
  static var size: (width: Int, height: Int)? {
    var size = winsize()
    guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  init() {
    isKnown = tcgetattr(0, &before) == 0
    // Signals become a return value, so that the terminal is restored before the program ends.
    sigemptyset(&signals)
    for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] { sigaddset(&signals, number) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    if isKnown {
      var raw = before
      // Keys arrive one by one, without echo. Ctrl-C stays a signal.
      raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
      tcsetattr(0, TCSANOW, &raw)
    }
    // The second buffer, without a cursor and without the wrapping of lines.
    Terminal.write("\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l", to: 1)
  }

  func close() {
    Terminal.write("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l", to: 1)
    if isKnown { tcsetattr(0, TCSANOW, &before) }
  }

  func show(_ lines: [String]) {
    let text = lines.map { $0 + "\u{1b}[K" }.joined(separator: "\n")
    Terminal.write("\u{1b}[H" + text + "\u{1b}[J", to: 1)
  }

  /// Waits for a key or a signal. Returns whether it ends the program.
  func isEnded(withinMilliseconds limit: Int32) -> Bool {
    var waited = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
    if poll(&waited, 1, limit) > 0 {
      var byte: UInt8 = 0
      let count = read(0, &byte, 1)
      // The input has ended, with the terminal.
      if count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN) { return true }
      if count == 1, [UInt8(ascii: "q"), UInt8(ascii: "Q"), 3].contains(byte) { return true }
    }
    var none = timespec()
    return sigtimedwait(&signals, nil, &none) > 0
  }
}
