/// The text of a man page in mdoc. The functions escape their plain text for roff.
struct ManualPage {
  private(set) var text: String

  init(_ name: String, _ section: Int, date: String, summary: String) {
    text = ".Dd \(date)\n.Dt \(name.uppercased()) \(section)\n.Os Cairn \(Cairn.version)\n"
    heading("NAME")
    request("Nm \(name)")
    request("Nd \(Self.guarded(summary))")
  }

  mutating func heading(_ title: String) { request("Sh \(title)") }
  mutating func subheading(_ title: String) { request("Ss \(Self.guarded(title))") }

  /// Appends a request of mdoc unchanged, such as `Sh NAME`.
  mutating func request(_ line: String) { text += ".\(line)\n" }

  /// Appends a paragraph. Each sentence gets a line of its own, so that roff sets the space after a full stop
  /// correctly.
  mutating func paragraph(_ content: String) {
    if !Self.endsWithHeading(text) { request("Pp") }
    sentences(content)
  }

  /// Appends indented lines without line breaking, such as an example.
  mutating func literal(_ lines: [String]) {
    request("Bd -literal -offset indent")
    for line in lines { text += Self.line(line) + "\n" }
    request("Ed")
  }

  /// Appends a list of terms with their meanings. Each term is mdoc, such as `Fl -once`.
  mutating func list(_ items: [(word: String, meaning: String)], width: String = "Ds") {
    guard !items.isEmpty else { return }
    request("Bl -tag -width \(width)")
    for item in items {
      request("It \(item.word)")
      sentences(item.meaning)
    }
    request("El")
  }

  /// Appends the `details` of a command: paragraphs, examples and tables.
  mutating func details(_ details: String) {
    for part in Self.paragraphs(details) {
      let isExample = part[0].hasPrefix("example: ")
      if isExample { paragraph(part.count == 1 ? "Example:" : "Examples:") }
      if isExample || part.allSatisfy({ $0.hasPrefix("  ") }) {
        literal(part.map { String($0.dropFirst(isExample ? "example: ".count : 2)) })
      } else {
        paragraph(part.joined(separator: " "))
      }
    }
  }

  /// Returns the lines of each paragraph of a text.
  static func paragraphs(_ text: String) -> [[String]] {
    text.split(separator: "\n", omittingEmptySubsequences: false).split(separator: "").map { $0.map(String.init) }
  }

  private static func endsWithHeading(_ text: String) -> Bool {
    guard let last = text.dropLast().split(separator: "\n").last else { return false }
    return last.hasPrefix(".Sh") || last.hasPrefix(".Ss")
  }

  private mutating func sentences(_ content: String) {
    var line = ""
    for word in content.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      if !line.isEmpty, Self.line(line + " " + word).count > 80 {
        text += Self.line(line) + "\n"
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
      if word.hasSuffix(".") || word.hasSuffix(":") || word.hasSuffix(".)") {
        text += Self.line(line) + "\n"
        line = ""
      }
    }
    if !line.isEmpty { text += Self.line(line) + "\n" }
  }

  private static func line(_ line: String) -> String {
    let safe = escaped(line)
    return safe.hasPrefix(".") || safe.hasPrefix("'") ? "\\&" + safe : safe
  }

  /// Escapes words after an mdoc request, so that roff does not read them as requests.
  static func guarded(_ words: String) -> String {
    words.split(separator: " ").map { word in
      let isDelimited = [")", "]", ".", ",", ":", ";", "?", "!"].contains(word.suffix(1))
      return "\\&" + escaped(String(word)).replacing("\"", "\\(dq") + (isDelimited ? "\\&" : "")
    }.joined(separator: " ")
  }

  private static func escaped(_ text: String) -> String {
    var safe = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": safe += "\\e"
      case "-": safe += "\\-"
      case "'": safe += "\\(aq"
      case "`": safe += "\\(ga"
      case "^": safe += "\\(ha"
      case "~": safe += "\\(ti"
      case _ where scalar.isASCII: safe.unicodeScalars.append(scalar)
      default: safe += "\\[u\(String(scalar.value, radix: 16, uppercase: true))]"
      }
    }
    return safe
  }
}

extension String {
  fileprivate func replacing(_ part: Character, _ by: String) -> String {
    reduce(into: "") { $0 += $1 == part ? by : String($1) }
  }
}
