import Foundation
import Testing

/// The documents as their readers meet them: plain sentences, links that lead somewhere, terms that are defined once.
@Suite struct ProseTests {
  /// One place in a page that breaks a rule.
  struct Finding: CustomStringConvertible {
    var line: Int
    var what: String
    var description: String { "\(line): \(what)" }
  }

  /// Words that hide who does something, or that have another meaning elsewhere.
  private static let banned: Set<String> = [
    "somebody", "nobody", "behind", "stand", "stands", "tell", "tells", "told", "anew", "whoever",
  ]
  private static let bannedPairs: Set<String> = ["but for", "of which"]
  private static let bannedPhrases = ["that of those", "the one of them that", "whether it is so", "the same of the"]
  /// A sentence begins with its subject, or with "if" or "when".
  private static let bannedStarts: Set<String> = ["Of", "What", "Where"]
  private static let wordsMax = 25

  // MARK: Pages

  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static func pages() throws -> [String] {
    let all = FileManager.default.enumerator(atPath: root.path + "/docs")
    var found = ["README.md", "CHANGELOG.md"]
    while let file = all?.nextObject() as? String {
      if file.hasSuffix(".md") { found.append("docs/" + file) }
    }
    return found.sorted()
  }

  static func lines(_ page: String) throws -> [String] {
    try String(contentsOf: root.appendingPathComponent(page), encoding: .utf8)
      .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  /// The lines outside of code blocks, with their numbers from 1 on; those of code blocks are empty.
  private static func prose(_ lines: [String]) -> [(number: Int, text: String)] {
    var isCode = false
    return lines.enumerated().map { index, line in
      let isFence = line.drop { $0 == " " }.hasPrefix("```")
      if isFence { isCode.toggle() }
      return (index + 1, isFence || isCode ? "" : line)
    }
  }

  /// The text of a line without markup: code becomes one word, a link its text.
  private static func plain(_ line: String) -> String {
    var text = ""
    for (index, part) in line.split(separator: "`", omittingEmptySubsequences: false).enumerated() {
      text += index.isMultiple(of: 2) ? String(part) : "CODE"
    }
    // "[text](place)" becomes "text".
    var shown = ""
    var rest = Substring(text)
    while let middle = rest.range(of: "](") {
      let end = rest[middle.upperBound...].firstIndex(of: ")") ?? rest.endIndex
      shown += rest[..<middle.lowerBound]
      rest = rest[end...].dropFirst()
    }
    return (shown + rest).filter { !"[]*".contains($0) }
  }

  /// The cells of the tables of a page, each with its line.
  private static func cells(_ lines: [String]) -> [(number: Int, text: String)] {
    prose(lines).filter { $0.text.hasPrefix("|") }.flatMap { number, line in
      // "\|" is a bar in a cell.
      line.replacing("\\|", with: "/").split(separator: "|").map { (number, String($0)) }
    }
  }

  /// The paragraphs and list items of a page, each with its first line; tables and headings are none.
  private static func paragraphs(_ lines: [String]) -> [(number: Int, text: String)] {
    var found: [(number: Int, text: String)] = []
    var isOpen = false
    for (number, line) in prose(lines) {
      let text = line.drop { $0 == " " }
      let mayBeItem = text.first.map { "-*+0123456789".contains($0) } == true
      let item = mayBeItem ? text.prefixMatch(of: /(?:[-*+]|\d+\.) +/) : nil
      if text.isEmpty || text.hasPrefix("|") || text.hasPrefix("#") || (line.hasPrefix("    ") && !isOpen) {
        isOpen = false
      } else if let item {
        found.append((number, String(text[item.range.upperBound...])))
        isOpen = true
      } else if isOpen {
        found[found.count - 1].text += " " + text
      } else {
        found.append((number, String(text)))
        isOpen = true
      }
    }
    return found
  }

  private static func sentences(_ paragraph: String) -> [[Substring]] {
    var all: [[Substring]] = [[]]
    for word in plain(paragraph).split(separator: " ") {
      let isEnd =
        all[all.count - 1].last?.reversed().first { !"\"')".contains($0) }.map { ".!?:;".contains($0) } == true
      let isStart = word.first { !"(\"'".contains($0) }.map { $0.isUppercase || $0.isNumber } == true
      if isEnd && isStart { all.append([]) }
      all[all.count - 1].append(word)
    }
    return all.map { $0.filter { $0.contains { $0.isLetter || $0.isNumber } } }
  }

  static func bannedWords(_ line: String) -> [String] {
    let words = plain(line).split { !$0.isLetter && $0 != "'" && $0 != "-" }.map { $0.lowercased() }
    let text = words.joined(separator: " ")
    let phrases = bannedPhrases.filter { text.contains($0) }
    return phrases
      + zip(words, words.dropFirst() + [""]).flatMap { word, next in
        // "Behind NAT" is what the field says.
        let isBanned = banned.contains(word) && !(word == "behind" && next == "nat")
        return (isBanned ? [word] : []) + (bannedPairs.contains("\(word) \(next)") ? ["\(word) \(next)"] : [])
      }
  }

  static func findings(_ lines: [String]) -> [Finding] {
    var found: [Finding] = []
    for (number, line) in prose(lines) {
      found += bannedWords(line).map { Finding(line: number, what: $0) }
    }
    for (number, text) in paragraphs(lines) + cells(lines) {
      for (index, sentence) in sentences(text).enumerated() {
        let shown = sentence.prefix(6).joined(separator: " ")
        // The title of another page may begin as it likes.
        let isTitle = index == 0 && text.hasPrefix("[")
        if let first = sentence.first, !isTitle, bannedStarts.contains(String(first)) {
          found.append(.init(line: number, what: "begins with '\(first)': \(shown) …"))
        }
        if sentence.count > wordsMax {
          found.append(.init(line: number, what: "\(sentence.count) words: \(shown) …"))
        }
      }
    }
    return found.sorted { $0.line < $1.line }
  }

  // MARK: Sentences

  @Test func `sentences are plain`() throws {
    for page in try Self.pages() {
      let found = Self.findings(try Self.lines(page))
      #expect(found.isEmpty, "\(page): \(found.count) findings: \(found.prefix(20))")
    }
  }

  @Test(arguments: [
    ("Somebody writes.", 1), ("It goes on behind it.", 1), ("The shop sits behind NAT.", 0), ("`tell` is code.", 0),
    ("It works. Where it fails, look.", 1), ("| a table | nobody |", 1), ("# What it is", 0), ("All but for one.", 1),
    ("- of which one\n- two", 1), ("It is that of those here.", 1), ("```\nnobody\n```\nText.", 0),
    (Array(repeating: "word", count: 25).joined(separator: " ") + ".", 0),
    (Array(repeating: "word", count: 26).joined(separator: " ") + ".", 1),
    ("A" + String(repeating: " word", count: 20) + ". B" + String(repeating: " word", count: 20) + ".", 0),
    ("a" + String(repeating: " word", count: 13) + "\nb" + String(repeating: " word", count: 13), 1),
    ("A [link with words](page.md#somebody-else) and `two words` count as four and one.", 0),
  ])
  func `a sentence that breaks a rule is found`(text: String, count: Int) {
    let found = Self.findings(text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
    #expect(found.count == count, "\(found)")
  }

  // MARK: Links and contents

  /// The anchors that GitHub makes of the headings of a page.
  private static func anchors(_ page: String) throws -> Set<String> {
    var anchors: Set<String> = []
    var counts: [String: Int] = [:]
    for (_, line) in prose(try lines(page)) where line.hasPrefix("#") {
      let heading = line.drop { $0 == "#" }.drop { $0 == " " }.replacing("`", with: "")
        .replacing(/\[([^\]]*)\]\([^)]*\)/) { String($0.1) }
      let name = heading.lowercased().filter { $0.isLetter || $0.isNumber || "-_ ".contains($0) }
        .replacing(" ", with: "-")
      let count = counts[name, default: 0]
      anchors.insert(count == 0 ? name : "\(name)-\(count)")
      counts[name] = count + 1
    }
    return anchors
  }

  @Test func `links lead to files and headings that there are`() throws {
    var count = 0
    var anchors: [String: Set<String>] = [:]
    for page in try Self.pages() {
      let folder = Self.root.appendingPathComponent(page).deletingLastPathComponent()
      for (number, line) in Self.prose(try Self.lines(page)) {
        for match in line.contains("](") ? line.matches(of: /\]\(([^)\s]+)\)/) : [] where !match.1.contains(":") {
          let parts = match.1.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
          let file = parts[0].isEmpty ? Self.root.path + "/" + page : folder.appendingPathComponent(parts[0]).path
          let path = URL(fileURLWithPath: file).standardizedFileURL.path
          #expect(FileManager.default.fileExists(atPath: path), "\(page):\(number): \(match.1)")
          if parts.count > 1, path.hasSuffix(".md") {
            let target = String(path.dropFirst(Self.root.path.count + 1))
            if anchors[target] == nil { anchors[target] = try Self.anchors(target) }
            #expect(anchors[target]?.contains(parts[1]) == true, "\(page):\(number): \(match.1)")
          }
          count += 1
        }
      }
    }
    #expect(count > 300)
  }

  @Test func `a page of more than 300 lines has a table of contents, and the index has every page`() throws {
    let index = try Self.lines("docs/README.md").joined(separator: "\n")
    for page in try Self.pages() {
      let lines = try Self.lines(page)
      if lines.count > 300, page != "CHANGELOG.md" {
        #expect(lines.prefix(80).contains { $0.contains("](#") }, "\(page): \(lines.count) lines")
      }
      guard page.hasPrefix("docs/"), !page.hasPrefix("docs/decisions/"), page != "docs/README.md" else { continue }
      #expect(index.contains("](\(page.dropFirst("docs/".count)))"), "\(page) is not in docs/README.md")
    }
  }

  // MARK: Terms and changes

  @Test func `the glossary defines each of its terms once, in order, and names no other`() throws {
    let lines = try Self.lines("docs/reference/glossary.md")
    let terms = lines.compactMap { $0.prefixMatch(of: #/\*\*([^*]+)\*\*: /#).map { String($0.1).lowercased() } }
    #expect(terms.count > 30 && Set(terms).count == terms.count)
    #expect(terms == terms.sorted())
    for line in lines {
      for match in line.replacing(/\*\*[^*]+\*\*/, with: "").matches(of: /\*([^*]+)\*/) {
        let name = match.1.lowercased()
        let isDefined = [name, String(name.dropLast())].contains { terms.contains($0) }
        #expect(isDefined, "\(match.1) is not defined: \(line)")
      }
    }
    for term in [
      "trail", "checkpoint", "capture", "apply", "pump", "position", "segment", "refresh", "initial load",
      "suspended table", "quarantine", "conflict", "origin", "slot", "node", "peer", "change", "transaction", "reading",
      "heartbeat", "marker", "layout marker", "applied note",
    ] { #expect(terms.contains(term)) }
  }

  /// A definition has an article: "a **trail** is …". Other bold words are the headings of paragraphs.
  @Test func `a term is defined in the glossary only`() throws {
    for page in try Self.pages() where page != "docs/reference/glossary.md" {
      for (number, text) in Self.paragraphs(try Self.lines(page)) {
        let definition = text.firstMatch(of: #/\b(?:[Aa]n?|[Tt]he) \*\*[^*.]+\*\* (?:is|are|means?)\b/#)
        #expect(definition == nil, "\(page):\(number): \(definition?.output ?? "")")
      }
    }
  }

  /// The verb with which an entry of each kind begins.
  private static let verbs = ["Added": "Add", "Changed": "Change", "Fixed": "Fix", "Removed": "Remove"]

  /// The faults of a list of changes: a heading, a verb, or the length of an entry.
  static func wrongChanges(_ lines: [String]) -> [Finding] {
    var found: [Finding] = []
    var (kind, kinds, versions): (String, Set<String>, [Substring]) = ("", [], [])
    for (number, line) in zip(1..., lines) {
      if let version = line.wholeMatch(of: /## (\d+\.\d+\.\d+)(?: \(unreleased\))?/) {
        if versions.contains(version.1) { found.append(.init(line: number, what: "twice")) }
        versions.append(version.1)
        kinds = []
      } else if line.hasPrefix("### ") {
        kind = String(line.dropFirst(4))
        let isKnown = verbs[kind] != nil || kind == "Upgrade notes"
        if versions.isEmpty || !isKnown || !kinds.insert(kind).inserted {
          found.append(.init(line: number, what: line))
        }
      } else if line.hasPrefix("- ") {
        // The words of code count one by one.
        let words = plain(line.dropFirst(2).filter { $0 != "`" }).split(separator: " ")
          .filter { $0.contains { $0.isLetter || $0.isNumber } }
        if words.count > wordsMax { found.append(.init(line: number, what: "\(words.count) words")) }
        if let verb = verbs[kind], words.first != verb[...] {
          found.append(.init(line: number, what: "\(words.first ?? "") in \(kind)"))
        }
      } else if line.hasPrefix("##") || line.hasPrefix(" ") {
        found.append(.init(line: number, what: line))
      }
    }
    return found
  }

  @Test func `changes are listed by version, one line each, with a verb`() throws {
    let lines = try Self.lines("CHANGELOG.md")
    let found = Self.wrongChanges(lines)
    #expect(found.isEmpty, "\(found)")
    #expect(lines.contains("## 0.1.0") && lines.contains("### Upgrade notes"))
  }

  @Test(arguments: [
    ("# Changes\n\n## 0.2.0 (unreleased)\n\n### Added\n- Add a thing.\n## 0.1.0\n### Added\n- Add it.", 0),
    ("## 0.1\n", 1), ("## 0.1.0\n### Security\n- Fix it.", 1), ("## 0.1.0\n### Fixed\n- Add it.", 1),
    ("## 0.1.0\n### Fixed\n- Fix it\n  again.", 1), ("## 0.1.0\n### Fixed\n### Fixed", 1),
    ("## 0.1.0\n### Fixed\n- Fix `" + String(repeating: "word ", count: 25) + "`.", 1), ("## 0.1.0\n## 0.1.0", 1),
  ])
  func `an entry that breaks a rule is found`(text: String, count: Int) {
    let found = Self.wrongChanges(text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
    #expect(found.count == count, "\(found)")
  }
}
