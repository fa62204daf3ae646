import Changes
import Glibc
import Operating

/// Output to standard output and standard error, with colours and updated lines only on a terminal.
enum Terminal {
  static let isInteractive = isatty(1) == 1 && getenv("NO_COLOR") == nil
  /// Whether standard output goes to a terminal instead of a file or pipe.
  static let isOutputShown = isatty(1) == 1
  static let isErrorInteractive = isatty(2) == 1 && getenv("NO_COLOR") == nil

  /// Writes a line to standard output, without characters that control the terminal.
  static func print(_ line: String) { write(line.oneLine + "\n", to: 1) }

  /// Writes text of several lines to standard output. Put external names and values on one line
  /// (``Swift/String/oneLine``) before inserting them.
  static func page(_ text: String) { write(text.severalLines + "\n", to: 1) }

  /// Writes a line to standard error, without characters that control the terminal.
  static func note(_ line: String) { write(line.oneLine + "\n", to: 2) }

  /// Writes text of several lines to standard error, like ``page(_:)``.
  static func notes(_ text: String) { write(text.severalLines + "\n", to: 2) }

  /// Writes SQL to standard output. A file or pipe gets it byte for byte; on a terminal it is written like
  /// ``page(_:)``.
  static func script(_ text: String) { write((isOutputShown ? text.severalLines : text) + "\n", to: 1) }

  /// Writes all of the text unchanged. If that fails, because a pipe was closed or the disk is full, ends the program.
  static func write(_ text: String, to descriptor: Int32) {
    var text = text
    text.withUTF8 { bytes in
      var rest = UnsafeRawBufferPointer(bytes)
      while let start = rest.baseAddress, !rest.isEmpty {
        let n = Glibc.write(descriptor, start, rest.count)
        if n < 0 {
          if errno == EINTR || errno == EAGAIN { continue }
          exit(ErrorCode.ioFailed.exitStatus)
        }
        rest = UnsafeRawBufferPointer(rebasing: rest[n...])
      }
    }
  }

  /// Prints the line of an error, and its hint.
  static func report(_ error: CairnError, asJSON: Bool) {
    if asJSON {
      var object = JSONObject()
      object["event"] = .text("error")
      object["code"] = .text(error.code.rawValue)
      object["message"] = .text(error.message)
      object["hint"] = .text(error.hint)
      for (key, value) in error.context.sorted(by: { $0.key < $1.key }) { object[key] = .text(value) }
      print(object.line)
    }
    let (red, plain) = isErrorInteractive ? ("\u{1b}[31m", "\u{1b}[0m") : ("", "")
    write("cairn: \(red)error [\(error.code.rawValue)]\(plain): \(error.message.oneLine)\n", to: 2)
    note("hint: \(error.hint)")
  }
}
