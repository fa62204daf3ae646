import Foundation
import Testing

/// docs/security.md names suites that prove its promises: each is there, and is the only one of its name. So are the
/// tests that it names of a suite: `SuiteTests`: `one test`, `another test`.
/// If several suites have one name, the page names the folder and the file: `DaemonTests/QuestionTests`.
@Suite struct SecurityPageTests {
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// The texts of the suites' files in the folder Tests, by the suites' names, and by those of folders and files.
  private static func suites() throws -> [String: [String]] {
    var found: [String: [String]] = [:]
    var parts: [String: String] = [:]
    let files = FileManager.default.enumerator(atPath: root.path + "/Tests")
    while let file = files?.nextObject() as? String {
      let part = file.firstMatch(of: /(\w+Tests)\+\w+\.swift$/)
      guard file.hasSuffix("Tests.swift") || part != nil else { continue }
      let text = try String(contentsOf: root.appendingPathComponent("Tests/" + file), encoding: .utf8)
      // A suite may go on in SUITE+PART.swift.
      if let part {
        parts[String(part.1), default: ""] += text
        continue
      }
      let names = text.matches(of: /(?:struct|enum) (\w+Tests)\b/).map { String($0.1) }
      for name in names { found[name, default: []].append(text) }
      if let folder = file.split(separator: "/").first, !names.isEmpty {
        let name = file.split(separator: "/").last?.dropLast(".swift".count) ?? ""
        found["\(folder)/\(name)", default: []].append(text)
      }
    }
    for (name, text) in parts where found[name]?.count == 1 { found[name]?[0] += text }
    return found
  }

  @Test func `every row of the threat model names suites that there are`() throws {
    let page = try String(contentsOf: Self.root.appendingPathComponent("docs/security.md"), encoding: .utf8)
    // The tables of actors, attacks and defences; each begins with its head and a line of dashes.
    let tables = page.split(separator: "\n\n").map { $0.split(separator: "\n").filter { $0.hasPrefix("|") } }
      .filter { $0.first?.hasSuffix("| attacked by |") ?? false }
    let rows = tables.flatMap { $0.dropFirst(2) }
    #expect(rows.count > 60)
    let suites = try Self.suites()
    var testCount = 0
    for row in rows {
      let cells = row.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast().map(String.init)
      guard cells.count == 4 else {
        Issue.record("the row has no proof, or a cell too many: \(row)")
        continue
      }
      let named = cells[3].matches(of: /`([\w\/]+)`/).map { String($0.1) }
      for name in named {
        #expect(suites[name]?.count == 1, "\(name): \(suites[name]?.count ?? 0) suites; name several as FOLDER/FILE")
      }
      for part in cells[3].split(separator: ";") {
        let words = part.matches(of: /`([^`]+)`/).map { String($0.1) }
        guard let suite = words.first, let text = suites[suite]?.first else { continue }
        for test in words where test.contains(" ") {
          let isThere = text.contains("func `\(test)`") || text.contains("\"\(test)\"")
          #expect(isThere, "\(suite) has no test \(test)")
          testCount += 1
        }
      }
      // A promise needs a proof; where there is none, the row says "none".
      #expect(!named.isEmpty || cells[2].contains("none"), "\(row)")
    }
    #expect(testCount > 60)
  }
}
