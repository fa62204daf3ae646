import Changes

/// Converts the error of the TOML parser to a problem with a hint.
enum SyntaxProblem {
  static func of(_ failure: TomlDocument.Failure, in text: String) -> ConfProblem {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let index = failure.place.line - 1
    let line = lines.indices.contains(index) ? lines[index] : ""
    let reason = plain(failure.reason)
    if reason.hasPrefix("cannot redefine existing") { return redefinition(failure, reason, lines, line) }
    return ConfProblem(.confSyntax, at: failure.place, "this is not TOML: \(reason)", hint: hint(line, reason))
  }

  private static func plain(_ reason: String) -> String {
    var text = reason[...]
    if text.hasPrefix("Error while parsing"), let colon = text.firstIndex(of: ":") {
      text = text[text.index(after: colon)...].drop { $0 == " " }
    }
    if let note = text.firstRange(of: " (TOML_") { text = text[..<note.lowerBound] }
    return text.prefix(1).lowercased() + text.dropFirst().replacing("\n", with: " ")
  }

  // MARK: Twice in one file

  private static func redefinition(
    _ failure: TomlDocument.Failure, _ reason: String, _ lines: [String], _ line: String
  ) -> ConfProblem {
    let parts = reason.split(separator: "'", omittingEmptySubsequences: false)
    let name = parts.count > 1 ? String(parts[1]) : ""
    let isHeader = line.drop { $0 == " " }.hasPrefix("[")
    var place = failure.place
    if let column = column(of: isHeader ? "[" : name, in: line) { place.column = column }
    let before = lines.prefix(place.line - 1).joined(separator: "\n")
    let first = (try? TomlDocument(before, file: place.file)).flatMap { document in
      isHeader
        ? find(name.split(separator: ".").map(String.init), in: document.root)
        : open(document.root).flatMap { key(name, in: $0) }
    }
    let there = first.map { "is there already, at \($0)" } ?? "is there already"
    return ConfProblem(
      .confTwice, at: place, isHeader ? "section [\(name)] \(there)" : "'\(name)' \(there)",
      hint: isHeader
        ? "put its options together" + (name.hasSuffix(".table") ? ", or write [[\(name)]] for a list of rules" : "")
        : "take one of the two out")
  }

  private static func column(of word: String, in line: String) -> Int? {
    guard !word.isEmpty, let range = line.firstRange(of: word) else { return nil }
    return line.unicodeScalars.distance(from: line.startIndex, to: range.lowerBound) + 1
  }

  private static func find(_ path: [String], in node: TomlNode) -> ConfPlace? {
    guard let name = path.first else { return node.place }
    switch node.value {
    case .table(let entries):
      return entries.first { $0.key == name }.flatMap { find(Array(path.dropFirst()), in: $0.node) }
    case .array(let elements): return elements.last.flatMap { find(path, in: $0) }
    default: return nil
    }
  }

  private static func key(_ name: String, in node: TomlNode) -> ConfPlace? {
    guard case .table(let entries) = node.value else { return nil }
    return entries.first { $0.key == name }?.keyPlace
  }

  // Lines that follow the last header in the file belong to its table.
  private static func open(_ node: TomlNode) -> TomlNode? {
    switch node.value {
    case .table(let entries):
      return entries.compactMap { open($0.node) }.reduce(node) { $1.place < $0.place ? $0 : $1 }
    case .array(let elements): return elements.compactMap(open).max { $0.place < $1.place }
    default: return nil
    }
  }

  // MARK: Hints

  private static func hint(_ line: String, _ reason: String) -> String {
    if reason.hasPrefix("letters outside of ASCII") {
      return "make names of a-z, 0-9, _ and -, and put other text into quotes"
    }
    let trimmed = line.drop { $0 == " " || $0 == "\t" }
    if trimmed.hasPrefix("[") {
      let opening = trimmed.hasPrefix("[[") ? 2 : 1
      let name = trimmed.drop { $0 == "[" || $0 == " " }.prefix { $0 != "]" && $0 != "#" && $0 != " " }
      return "write \(String(repeating: "[", count: opening))\(name)\(String(repeating: "]", count: opening))"
    }
    guard let equals = trimmed.firstIndex(of: "=") else {
      if let colon = trimmed.firstIndex(of: ":") {
        let (key, value) = (trimmed[..<colon], trimmed[trimmed.index(after: colon)...].drop { $0 == " " })
        return "write \(key) = \(value)"
      }
      return "write NAME = VALUE, a [section], or # before a comment"
    }
    let key = String(trimmed[..<equals].reversed().drop { $0 == " " }.reversed())
    let value = String(
      trimmed[trimmed.index(after: equals)...].drop { $0 == " " }.prefix { $0 != "#" }
        .reversed().drop { $0 == " " || $0 == "\r" }.reversed())
    switch value.first {
    case nil: return "write a value after \(key) =, or remove the line"
    case "\"", "'":
      let quote = value.prefix(1)
      return value.count > 1 && value.hasSuffix(quote)
        ? "write one value after \(key) =; \\ in \"...\" is written \\\\, or use '...'"
        : "close the quotes: \(key) = \(value)\(quote)"
    case "[": return "close the bracket, and put commas between: \(key) = [\"...\", \"...\"]"
    case "{": return "close the brace on the same line, and put commas between: \(key) = { a = \"...\", b = \"...\" }"
    default:
      switch value.lowercased() {
      case "true", "yes", "on": return "write \(key) = true"
      case "false", "no", "off": return "write \(key) = false"
      default: return "put text into quotes: \(key) = \"\(value)\""
      }
    }
  }
}
