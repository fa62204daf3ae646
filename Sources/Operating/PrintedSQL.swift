import Changes

/// SQL as `cairn trail show --sql` prints it: no character stands in it that a terminal obeys instead of showing it.
///
/// Names and texts come from databases and peers. Where the dialect has an escape, the statement means the same with it:
///
/// ```swift
/// PrintedSQL.escaped("SELECT 'a\u{9b}b';", .postgres)   // SELECT E'a\u009bb';
/// PrintedSQL.escaped("SELECT \"a\u{9b}b\";", .sqlite)   // nil: SQLite has no escape in names
/// ```
///
/// Source: https://www.postgresql.org/docs/15/sql-syntax-lexical.html, sections 4.1.1 and 4.1.2.
struct PrintedSQL {
  private let text: [Unicode.Scalar]
  private let dialect: TrailSQL.Dialect
  private var at = 0
  private var out = String.UnicodeScalarView()

  /// Returns statements that mean the same; nil if the dialect has no escape where one is needed.
  static func escaped(_ sql: String, _ dialect: TrailSQL.Dialect) -> String? {
    guard sql.unicodeScalars.contains(where: isHidden) else { return sql }
    var printed = PrintedSQL(text: Array(sql.unicodeScalars), dialect: dialect)
    return printed.run() ? String(printed.out) : nil
  }

  private init(text: [Unicode.Scalar], dialect: TrailSQL.Dialect) { (self.text, self.dialect) = (text, dialect) }

  /// Lines and columns stay lines and columns.
  private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
    scalar.isObeyed && scalar != "\n" && scalar != "\t"
  }

  private func isNext(_ first: Unicode.Scalar, _ second: Unicode.Scalar) -> Bool {
    at + 1 < text.count && text[at] == first && text[at + 1] == second
  }

  /// Returns false for what has no escape.
  private mutating func run() -> Bool {
    while at < text.count {
      let scalar = text[at]
      switch scalar {
      case "-" where isNext("-", "-"): comment { $0 == "\n" }
      case "/" where isNext("/", "*"):
        var last: Unicode.Scalar = " "
        append("/", [], "*")
        at += 2
        comment { scalar in
          let isEnd = last == "*" && scalar == "/"
          last = scalar
          return isEnd
        }
      case "'":
        let escapes = dialect == .postgres && (out.last == "E" || out.last == "e") && !isWord(before: 1)
        quotedText(escapes: escapes)
      case "\"": if !name(end: "\"") { return false }
      case "`" where dialect == .sqlite: if !name(end: "`") { return false }
      case "[" where dialect == .sqlite: if !name(end: "]") { return false }
      case "$" where dialect == .postgres && !isWord(before: 0):
        if !dollarQuoted() { return false }
      case _ where Self.isHidden(scalar):
        guard scalar.properties.isWhitespace else { return false }
        out.append(" ")
        at += 1
      default:
        out.append(scalar)
        at += 1
      }
    }
    return true
  }

  /// Whether what is printed ends in a word, without its last `count` characters.
  private func isWord(before count: Int) -> Bool {
    guard let last = out.dropLast(count).last else { return false }
    return last == "_" || last == "$" || last.properties.isAlphabetic || ("0"..."9").contains(last)
      || last.value >= 0x80
  }

  private mutating func comment(until isEnd: (Unicode.Scalar) -> Bool) {
    while at < text.count {
      let scalar = text[at]
      if Self.isHidden(scalar) { out.append(contentsOf: scalar.code.unicodeScalars) } else { out.append(scalar) }
      at += 1
      if isEnd(scalar) { return }
    }
  }

  /// Returns what stands between the mark at hand and the next one that is not doubled, as it stands there.
  private mutating func content(_ end: Unicode.Scalar, escapes: Bool = false) -> ArraySlice<Unicode.Scalar> {
    let first = at + 1
    at = first
    while at < text.count {
      if escapes, text[at] == "\\" {
        at += 2
      } else if text[at] != end {
        at += 1
      } else if end != "]", at + 1 < text.count, text[at + 1] == end {
        at += 2
      } else {
        break
      }
    }
    let last = min(at, text.count)
    at = min(at + 1, text.count)
    return text[first..<last]
  }

  private mutating func quotedText(escapes: Bool) {
    let content = content("'", escapes: escapes)
    guard content.contains(where: Self.isHidden) else { return append("'", content, "'") }
    switch dialect {
    case .sqlite:
      let text = String(String.UnicodeScalarView(content)).utf8
      out.append(
        contentsOf: "(CAST(x'\(SQLLiteral.hex(Array(String(undoubling: text, UInt8(ascii: "'")).utf8)))' AS TEXT))"
          .unicodeScalars)
    case .postgres:
      if !escapes { out.append("E") }
      out.append("'")
      for scalar in content {
        if Self.isHidden(scalar) {
          out.append(contentsOf: "\\U\(UInt64(scalar.value).hex(8))".unicodeScalars)
        } else {
          if scalar == "\\", !escapes { out.append("\\") }
          out.append(scalar)
        }
      }
      out.append("'")
    }
  }

  private mutating func name(end: Unicode.Scalar) -> Bool {
    let mark = text[at]
    let content = content(end)
    guard content.contains(where: Self.isHidden) else {
      append(mark, content, end)
      return true
    }
    guard dialect == .postgres else { return false }
    out.append(contentsOf: "U&\"".unicodeScalars)
    for scalar in content {
      if Self.isHidden(scalar) {
        out.append(contentsOf: "\\+\(UInt64(scalar.value).hex(6))".unicodeScalars)
      } else {
        if scalar == "\\" { out.append("\\") }
        out.append(scalar)
      }
    }
    out.append("\"")
    return true
  }

  /// A text between dollars has no escape; a dollar that begins none is printed as it is.
  private mutating func dollarQuoted() -> Bool {
    guard let end = text[(at + 1)...].firstIndex(of: "$") else {
      out.append(text[at])
      at += 1
      return true
    }
    let tag = Array(text[at...end])
    let isTag = tag.dropFirst().dropLast().allSatisfy {
      $0 == "_" || $0.properties.isAlphabetic || ("0"..."9").contains($0)
    }
    var close = end + 1
    while isTag, close + tag.count <= text.count, !text[close..<close + tag.count].elementsEqual(tag) { close += 1 }
    guard isTag, close + tag.count <= text.count else {
      out.append(text[at])
      at += 1
      return true
    }
    let whole = text[at..<close + tag.count]
    if whole.contains(where: Self.isHidden) { return false }
    out.append(contentsOf: whole)
    at = close + tag.count
    return true
  }

  private mutating func append(
    _ first: Unicode.Scalar, _ content: ArraySlice<Unicode.Scalar>, _ last: Unicode.Scalar
  ) {
    out.append(first)
    out.append(contentsOf: content)
    out.append(last)
  }
}
