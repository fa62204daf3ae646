import Foundation
import Testing

/// The comments of sources, of configuration files and of examples keep the rules of the documents.
extension ProseTests {
  /// A comment: its first line in the file, and its lines without the marks of a comment.
  struct Comment {
    var line: Int
    var lines: [String]
  }

  private static let folders = ["Sources", "Tests", "conf", "systemd", "docs/demo", "docs/examples"]
  /// The endings of files that have comments, with the mark of a comment.
  private static let marks = [
    "swift": "//", "h": "//", "c": "//", "sql": "--", "toml": "#", "sh": "#", "yml": "#", "service": "#",
    "example": "#", "sysusers": "#", "tmpfiles": "#", "py": "#",
  ]

  private static func files(_ folders: [String]) -> [String] {
    folders.flatMap { folder in
      let all = FileManager.default.enumerator(atPath: root.path + "/" + folder)
      return (all?.compactMap { $0 as? String } ?? []).map { folder + "/" + $0 }
    }.filter { !$0.contains("/.build/") }.sorted()
  }

  // MARK: Comments

  /// Returns the comments of a file. Comment lines that follow each other are one comment.
  static func comments(_ lines: [String], mark: String) -> [Comment] {
    var found: [Comment] = []
    var isOpen = false
    var isBlock = false
    for (index, line) in lines.enumerated() {
      var text = line.drop { $0 == " " }
      if mark == "//", !isBlock, text.hasPrefix("/*") {
        (isBlock, isOpen) = (true, false)
        text = text.dropFirst(2)
      } else if mark == "//", !isBlock, let place = text.firstRange(of: " /* ") {
        (isBlock, isOpen) = (true, false)
        text = text[place.upperBound...]
      } else if isBlock {
        if text.hasPrefix("*"), !text.hasPrefix("*/") { text = text.dropFirst() }
      } else if text.hasPrefix(mark), mark != "#" || text.dropFirst().allSatisfy({ $0 == "#" }) || text.hasPrefix("# ")
      {
        text = text.drop { mark.contains($0) }
      } else {
        isOpen = false
        // A comment after code, but not "//" inside of a text.
        guard mark == "//", let place = text.firstRange(of: " // "),
          text[..<place.lowerBound].count(where: { $0 == "\"" }).isMultiple(of: 2)
        else { continue }
        found.append(Comment(line: index + 1, lines: [String(text[place.upperBound...])]))
        continue
      }
      if isBlock, let end = text.firstRange(of: "*/") {
        isBlock = false
        text = text[..<end.lowerBound]
      }
      if text.hasPrefix(" ") { text = text.dropFirst() }
      // The name of a section is a heading. In a configuration file, an indented line is an item of a list.
      let isItem = mark != "//" && text.hasPrefix("  ") && !text.hasPrefix("    ")
      let shown = text.hasPrefix("MARK: ") ? "# " + text : isItem ? "- " + text.drop { $0 == " " } : String(text)
      if isOpen {
        found[found.count - 1].lines.append(shown)
      } else {
        found.append(Comment(line: index + 1, lines: [shown]))
        isOpen = true
      }
      if mark == "//", line.hasSuffix("*/") { isOpen = false }
    }
    return found
  }

  /// Returns a comment without the code that its examples indent by four spaces.
  private static func withoutCode(_ comment: Comment) -> [String] {
    var isCode = true
    return comment.lines.map { line in
      if line.isEmpty || line.allSatisfy({ $0 == " " }) {
        isCode = true
        return ""
      }
      isCode = isCode && line.hasPrefix("    ")
      // The name of a parameter is code too.
      guard line.hasPrefix("- Parameter") else { return isCode ? "" : line }
      return isCode ? "" : line.replacing(/^(- Parameter) \w+:/) { "\($0.1):" }
    }
  }

  static func findings(_ lines: [String], mark: String) -> [Finding] {
    comments(lines, mark: mark).flatMap { comment in
      findings(withoutCode(comment)).map { Finding(line: $0.line + comment.line - 1, what: $0.what) }
    }
  }

  // MARK: Tests

  @Test func `comments are plain`() throws {
    var count = 0
    for file in Self.files(Self.folders) {
      guard let mark = Self.marks[URL(fileURLWithPath: file).pathExtension] else { continue }
      let found = Self.findings(try Self.lines(file), mark: mark)
      #expect(found.isEmpty, "\(file): \(found.count) findings: \(found.prefix(20))")
      count += 1
    }
    #expect(count > 1000)
  }

  @Test func `names of tests are plain`() throws {
    var count = 0
    for file in Self.files(["Tests"]) where file.hasSuffix("Tests.swift") || file.contains("Tests+") {
      for (index, line) in try Self.lines(file).enumerated() {
        guard let name = line.firstMatch(of: /^ *(?:@.*)?func `(.+)`\(/)?.1 else { continue }
        let found = Self.findings([String(name)])
        #expect(found.isEmpty, "\(file):\(index + 1): \(name): \(found)")
        count += 1
      }
    }
    #expect(count > 1000)
  }

  @Test func `what an operator reads in examples is plain`() throws {
    for file in Self.files(["conf", "systemd", "docs/demo", "docs/examples"])
    where Self.marks[URL(fileURLWithPath: file).pathExtension] != nil {
      let found = try Self.lines(file).enumerated().flatMap { index, line in
        Self.bannedWords(line).map { Finding(line: index + 1, what: $0) }
      }
      #expect(found.isEmpty, "\(file): \(found)")
    }
  }

  @Test func `the pages of the library are plain`() throws {
    let pages = Self.files(["Sources"]).filter { $0.hasSuffix(".md") }
    #expect(pages.count >= 2)
    for page in pages {
      let found = Self.findings(try Self.lines(page))
      #expect(found.isEmpty, "\(page): \(found.count) findings: \(found.prefix(20))")
    }
  }

  @Test(arguments: [
    ("/// Somebody writes.\nlet nobody = 1", "//", [1]), ("let a = 1\n// It stands.", "//", [2]),
    ("let a = 1  // Nobody knows.", "//", [1]), ("let a = \"a // nobody\"", "//", []),
    ("/* It tells all. */\nint nobody;", "//", [1]), ("/*\n * Fine.\n * Where it fails, look.\n */", "//", [2]),
    ("/// Fine.\n///\n///     tell(nobody)\n///\n/// It stands.", "//", [5]), ("# nobody\nstands = 1", "#", [1]),
    ("/// ```\n/// tell()\n/// ```", "//", []), ("-- whoever\nSELECT 1", "--", [1]), ("// MARK: What it is", "//", []),
    ("/// - Parameter tell: A function.", "//", []),
    ("#!/bin/sh nobody\n# nobody\n#nobody = 1", "#", [2]),
    (
      "/// one" + String(repeating: " word", count: 14) + "\n/// two" + String(repeating: " word", count: 14), "//", [1]
    ),
    (
      "/// one" + String(repeating: " word", count: 14) + "\nlet a\n/// two" + String(repeating: " word", count: 14),
      "//", []
    ),
    ("int a; /* One. */\nint b; /* " + String(repeating: "word ", count: 26) + "*/", "//", [2]),
  ])
  func `a comment that breaks a rule is found`(text: String, mark: String, lines: [Int]) {
    let found = Self.findings(
      text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init), mark: mark)
    #expect(found.map(\.line) == lines, "\(found)")
  }
}
