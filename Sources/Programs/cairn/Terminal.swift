import Changes
import Endpoints
import Glibc

/// The output to standard output and standard error. Colours are used only on a terminal.
enum Terminal {
  static let isInteractive = isatty(1) == 1 && getenv("NO_COLOR") == nil
  static let isOutputShown = isatty(1) == 1
  static let isErrorInteractive = isatty(2) == 1 && getenv("NO_COLOR") == nil

  /// Writes a line to standard output. Control characters become spaces or their codes.
  static func print(_ line: String) { write(line.oneLine + "\n", to: 1) }

  /// Writes several lines to standard output. Convert external names and values with ``Swift/String/oneLine`` before
  /// inserting them.
  static func page(_ text: String) { write(text.severalLines + "\n", to: 1) }

  /// Writes a line to standard error. Control characters become spaces or their codes.
  static func note(_ line: String) { write(line.oneLine + "\n", to: 2) }

  /// Writes several lines to standard error. Other control characters than line breaks become their codes.
  static func notes(_ text: String) { write(text.severalLines + "\n", to: 2) }

  /// Writes SQL to standard output. On a terminal, control characters except line breaks become their codes.
  static func script(_ text: String) { write((isOutputShown ? text.severalLines : text) + "\n", to: 1) }

  /// Writes the whole text unchanged. Ends the program if that fails.
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
