import Changes
import Explaining

/// `cairn explain`: the meaning, the cause and the remedy of an error code, as in `docs/reference/errors.md`.
struct ExplainCommand: Command {
  static let name = "explain"
  static let summary = "explain what an error code means and what to do"
  static let operands = "[CODE]"
  static let options = [
    Option.json, Option("--markdown", nil, "print the page of all codes, docs/reference/errors.md"),
  ]
  static let details = """
    CODE is the word in brackets in an error message, with or without the brackets. Without CODE all codes are
    listed, with the exit status that each of them gives.

    example: cairn explain trail-damaged
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(0...1)
    if arguments.has("--markdown") {
      guard words.isEmpty, !arguments.has("--json") else {
        throw arguments.usage("--markdown prints all codes, and takes no other argument", nil)
      }
      Terminal.write(markdown, to: 1)
      return 0
    }
    let codes = try words.first.map { [try code($0, arguments)] } ?? ErrorCode.allCases
    if arguments.has("--json") {
      for code in codes { Terminal.print(json(code)) }
    } else if words.isEmpty {
      Terminal.page(list)
    } else {
      for code in codes { Terminal.page(text(code)) }
    }
    return 0
  }

  private static func code(_ word: String, _ arguments: Arguments) throws -> ErrorCode {
    var name = word.lowercased()
    if name.hasPrefix("[") { name.removeFirst() }
    if name.hasSuffix("]") { name.removeLast() }
    if let code = ErrorCode(rawValue: name) { return code }
    let near = name.nearest(in: ErrorCode.allCases.map(\.rawValue))
    throw arguments.usage(
      "there is no error code '\(word)'",
      (near.map { "did you mean \($0)? " } ?? "") + "run 'cairn explain' for all codes;")
  }

  // MARK: Text

  private static var list: String {
    let width = ErrorCode.allCases.map(\.rawValue.count).max() ?? 0
    return ErrorCode.allCases.map { code in
      let name = code.rawValue + String(repeating: " ", count: width - code.rawValue.count)
      return "\(name)  \(code.exitStatus)  \(code.explanation.title)"
    }.joined(separator: "\n")
  }

  private static func text(_ code: ErrorCode) -> String {
    let explanation = code.explanation
    var lines = ["\(code.rawValue): \(explanation.title) (exit status \(code.exitStatus))", ""]
    lines += wrapped(explanation.why, first: "", rest: "")
    lines.append("")
    for (index, step) in explanation.what.enumerated() {
      lines += wrapped(step, first: "\(index + 1). ", rest: "   ")
    }
    return lines.joined(separator: "\n")
  }

  private static func wrapped(_ text: String, first: String, rest: String) -> [String] {
    var lines: [String] = []
    var line = first
    var isEmpty = true
    for word in text.split(separator: " ") {
      if !isEmpty, line.count + 1 + word.count > 80 {
        lines.append(line)
        line = rest
        isEmpty = true
      }
      line += (isEmpty ? "" : " ") + word
      isEmpty = false
    }
    return lines + [line]
  }

  // MARK: For programs

  private static func json(_ code: ErrorCode) -> String {
    let explanation = code.explanation
    return JSONObject([
      ("code", .text(code.rawValue)), ("exit_status", .integer(Int64(code.exitStatus))),
      ("title", .text(explanation.title)), ("why", .text(explanation.why)),
      ("what", .list(explanation.what.map { .text($0) })),
    ]).line
  }

  /// The content of the page `docs/reference/errors.md`.
  static var markdown: String {
    var page = """
      # Errors

      Every error has a code, which is printed in brackets: `cairn: error [trail-damaged]: ...`, followed by a hint.
      Codes are stable: a code keeps its meaning, and programs may rely on it. Exit statuses are those of `sysexits.h`;
      several codes share one. `cairn explain CODE` prints the same text as this page, which is printed by
      `cairn explain --markdown`.

      | code | exit status | |
      |---|---|---|

      """
    for code in ErrorCode.allCases {
      page += "| [`\(code.rawValue)`](#\(code.rawValue)) | \(code.exitStatus) | \(code.explanation.title) |\n"
    }
    for code in ErrorCode.allCases {
      let explanation = code.explanation
      page += "\n## \(code.rawValue)\n\n"
      page += "**\(capitalized(explanation.title)).** Exit status \(code.exitStatus).\n\n\(explanation.why)\n\n"
      for (index, step) in explanation.what.enumerated() { page += "\(index + 1). \(step)\n" }
    }
    return page
  }

  private static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }
}
