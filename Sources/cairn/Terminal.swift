import Changes
import Glibc
import Operating

/// Standard output and error, with colours and moving lines only where a person looks at them.
enum Terminal {
  static let isInteractive = isatty(1) == 1 && getenv("NO_COLOR") == nil
  static let isErrorInteractive = isatty(2) == 1 && getenv("NO_COLOR") == nil

  /// A line to standard output, at once.
  static func print(_ line: String) { write(line + "\n", to: 1) }

  /// A line to standard error.
  static func note(_ line: String) { write(line + "\n", to: 2) }

  /// Writes all of it; a closed pipe or a full disk ends the program, since there is nobody to tell.
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

  /// The error line and its hint.
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
    note("cairn: \(red)error [\(error.code.rawValue)]\(plain): \(oneLine(error.message))")
    note("hint: \(oneLine(error.hint))")
  }

  /// Names and keys come from databases: nothing in them may break the line or reach the terminal as a command.
  private static func oneLine(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0x0a, 0x0d, 0x09: line += " "
      case 0..<0x20, 0x7f..<0xa0: line += "\\x" + UInt64(scalar.value).hex(2)
      default: line.unicodeScalars.append(scalar)
      }
    }
    return line
  }
}
