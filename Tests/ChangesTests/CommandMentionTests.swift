import Foundation
import Testing

/// Commands that documents, examples and messages name: each exists, with the options it is shown with.
@Suite struct CommandMentionTests {
  /// The options of each command, by the reference page that the program prints.
  private static func options() throws -> [String: Set<String>] {
    let page = try ProseTests.lines("docs/reference/commands.md").joined(separator: "\n")
    var found: [String: Set<String>] = [:]
    for section in page.components(separatedBy: "\n## ").dropFirst() where section.hasPrefix("cairn") {
      let name = String(section.prefix { $0 != "\n" })
      found[name] = Set(section.matches(of: /--[a-z]+(?:-[a-z]+)*/).map { String($0.output) })
    }
    return found
  }

  /// Returns the commands in `text`, between code quotes or single quotes, or after the prompt of a console.
  private static func mentions(_ text: String) -> [Substring] {
    guard text.contains("cairn ") else { return [] }
    return text.matches(of: /`(cairn [^`\n]+)`|'(cairn [^'\n]+)'|\$ (?:sudo (?:-u [a-z]+ )?)?(cairn [^|>&;\n]+)/)
      .compactMap { $0.output.1 ?? $0.output.2 ?? $0.output.3 }
  }

  /// Returns what is wrong with a mention, or nil.
  private static func fault(_ mention: Substring, _ options: [String: Set<String>]) -> String? {
    let words = mention.split(separator: " ")
    guard words.count > 1 else { return nil }
    if words[1].hasPrefix("--") { return ["--help", "--version"].contains(words[1]) ? nil : "no option \(words[1])" }
    guard words[1].wholeMatch(of: /[a-z-]+/) != nil else { return nil }
    guard let known = options["cairn \(words[1])"] else { return "no command \(words[1])" }
    for word in words.dropFirst(2) {
      guard let option = word.prefixMatch(of: /--[a-z]+(?:-[a-z]+)*/)?.output, option != "--help" else { continue }
      if !known.contains(String(option)) { return "\(words[1]) has no option \(option)" }
    }
    return nil
  }

  private static func files(_ folder: String, _ suffixes: [String]) -> [String] {
    let all = FileManager.default.enumerator(atPath: ProseTests.root.path + "/" + folder)
    var found: [String] = []
    while let file = all?.nextObject() as? String {
      if suffixes.contains(where: file.hasSuffix) { found.append("\(folder)/\(file)") }
    }
    return found.sorted()
  }

  @Test func `a command that a page, an example or a message names is one that exists`() throws {
    let options = try Self.options()
    #expect(options.count > 15)
    let suffixes = [".md", ".toml", ".yml", ".example", ".service", ".sh", ".swift"]
    let folders = ["docs", "conf", "systemd", "Sources"]
    let files = folders.flatMap { Self.files($0, suffixes) } + ["README.md", "CHANGELOG.md"]
    var count = 0
    var faults: [String] = []
    for file in files {
      for (index, line) in try ProseTests.lines(file).enumerated() {
        // The name of Cairn's sessions at a server is no command.
        for mention in Self.mentions(line) where !mention.hasPrefix("cairn apply ") {
          count += 1
          if let fault = Self.fault(mention, options) { faults.append("\(file):\(index + 1): \(fault): \(mention)") }
        }
      }
    }
    #expect(faults.isEmpty, "\(faults.joined(separator: "\n"))")
    #expect(count > 300)
  }

  @Test(arguments: [
    ("Run `cairn stauts`.", "no command stauts"), ("hint: 'cairn copy --every NAME'", "copy has no option --every"),
    ("$ sudo -u cairn cairn trail show --nothing", "trail has no option --nothing"),
    ("`cairn --verbose`", "no option --verbose"),
  ])
  func `one that does not exist is found`(text: String, fault: String) throws {
    let options = try Self.options()
    #expect(Self.mentions(text).compactMap { Self.fault($0, options) } == [fault])
  }
}
