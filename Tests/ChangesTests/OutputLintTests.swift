import Foundation
import Testing

/// All output of the programs goes through the functions that escape what a terminal obeys.
@Suite struct OutputLintTests {
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Sources")

  /// The lines of code with their file and number; a call that continues on the next lines is one line.
  static func calls(_ text: String) -> [(number: Int, text: String)] {
    var calls: [(Int, String)] = []
    var open = 0
    for (index, line) in text.components(separatedBy: "\n").enumerated() {
      let code = line.trimmingCharacters(in: .whitespaces)
      if code.hasPrefix("//") { continue }
      if open > 0, let last = calls.indices.last {
        calls[last].1 += " " + code
      } else {
        calls.append((index + 1, code))
      }
      open += code.filter { $0 == "(" }.count - code.filter { $0 == ")" }.count
      // A line with brackets in a literal may leave one open.
      if code.isEmpty || code == "}" { open = 0 }
    }
    return calls
  }

  private static func files() throws -> [(name: String, text: String)] {
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    return try files.compactMap { $0 as? URL }.filter { ["swift", "c", "cpp", "h"].contains($0.pathExtension) }.map {
      (
        $0.pathComponents.suffix(from: root.pathComponents.count + 1).joined(separator: "/"),
        try String(contentsOf: $0, encoding: .utf8)
      )
    }
  }

  /// Returns whether a call of `Terminal.write` may write text of others unchanged. The whole argument may be escaped.
  /// Else it must be a literal in which each interpolation is escaped, a number or a word of our own.
  static func isDoubtful(_ call: String) -> Bool {
    if ["severalLines", ".line + ", "oneLine + ", "oneLine,"].contains(where: call.contains) { return false }
    let argument = call[(call.range(of: "Terminal.write(")?.upperBound ?? call.startIndex)...]
    guard argument.drop(while: { $0 == " " }).hasPrefix("\"") else { return true }
    // Numbers, words of our own, and text that is escaped.
    let safe =
      #/\.oneLine|counted\("|^Int\(|byteCount\(|^(?:bar|rate|label|red|plain|suspects|now\.tables|now\.tablesDone \+ 1)$|code\.rawValue/#
    return call.matches(of: #/"(?:[^"\\]|\\[^(]|\\\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\))*"/#).contains {
      match in
      interpolations(String(match.0)).contains { $0.firstMatch(of: safe) == nil }
    }
  }

  private static func interpolations(_ literal: String) -> [String] {
    var parts: [String] = []
    var rest = literal[...]
    while let start = rest.range(of: "\\(") {
      var depth = 1
      var end = start.upperBound
      while end < rest.endIndex, depth > 0 {
        if rest[end] == "(" { depth += 1 }
        if rest[end] == ")" { depth -= 1 }
        end = rest.index(after: end)
      }
      parts.append(String(rest[start.upperBound..<(depth == 0 ? rest.index(before: end) : end)]))
      rest = rest[end...]
    }
    return parts
  }

  @Test func `no other code writes to the terminal`() throws {
    // The functions that do.
    let own = ["cairn/Terminal.swift", "cairnd/Cairnd.swift", "ServiceKit/ServiceLog.swift"]
    let output =
      #/(?:^|[^.\w]|Glibc\.|Swift\.)(?:print|debugPrint|dump|puts|fputs|putchar|perror|printf|vprintf|NSLog|write)\((?!\))|fprintf\(|dprintf\(|stdout|stderr/#
    var count = 0
    for (name, text) in try Self.files() where !own.contains(name) && !name.hasSuffix("cairn.h") {
      count += 1
      for (number, line) in text.components(separatedBy: "\n").enumerated() {
        let code = line.trimmingCharacters(in: .whitespaces)
        guard !code.hasPrefix("//"), let match = code.firstMatch(of: output), !code.contains("func ") else { continue }
        if match.0.hasSuffix("write("), !code.contains(#/write\([12],/#) { continue }
        Issue.record("\(name):\(number + 1) writes past Terminal and ServiceLog: \(code)")
      }
    }
    #expect(count > 500)
  }

  @Test func `text of others is escaped before it is written unchanged`() throws {
    // Constant pages; documents of our own; the text of Cairn's own help.
    let constant = ["HelpCommand.swift", "ExplainCommand.swift", "ConfigCommand.swift", "Terminal.swift"]
    var count = 0
    for (name, text) in try Self.files() where ["cairn/", "cairnd/"].contains(where: name.hasPrefix) {
      if constant.contains(where: { name.hasSuffix("/" + $0) }) { continue }
      for (number, call) in Self.calls(text) where call.contains("Terminal.write(") {
        count += 1
        if Self.isDoubtful(call) { Issue.record("\(name):\(number) writes text that may not be escaped: \(call)") }
      }
    }
    #expect(count > 5)
    let log = try #require(try Self.files().first { $0.name.hasSuffix("ServiceKit/ServiceLog.swift") }).text
    #expect(log.contains("next.cutMessage).oneLine"), "the line of an entry")
  }

  @Test(arguments: [
    ("Terminal.write(\"\\(name) is there\\n\", to: 1)", true), ("Terminal.write(text, to: 2)", true),
    ("Terminal.write(\"\\(name.oneLine) is there\", to: 1)", false), ("Terminal.write(\"\\r\", to: 2)", false),
    ("Terminal.write(\"\\(rows.counted(\"row\")) of \\(table)\", to: 2)", true),
  ]) func `a call that writes text of others is found`(call: String, isFound: Bool) {
    #expect(Self.isDoubtful(call) == isFound)
  }
}
