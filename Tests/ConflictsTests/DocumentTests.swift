import Conflicts
import Foundation
import Testing

@Suite struct DocumentTests {
  @Test func `docs/explanation/conflicts.md says for every rule and every kind what the code does`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appending(path: "docs/explanation/conflicts.md"), encoding: .utf8)
    let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `") }
    func row(_ name: String) throws -> String {
      try String(#require(rows.first { $0.hasPrefix("| `\(name)") }, "\(name) is not in docs/explanation/conflicts.md"))
    }
    for rule in ConflictRules.Rule.samples {
      let name = String(rule.text.prefix { $0 != ":" })
      let text = try row(name)
      let promise =
        switch rule.promise {
        case .converges: "| converges |"
        case .convergesIfWaysAgree: "| converges if the ways agree |"
        case .decidedAtOneNode: "| decided at one node |"
        case .decidedByPerson: "| decided by a person |"
        case .stops: "| stops |"
        }
      #expect(text.hasSuffix(promise), "\(text)")
      #expect(text.contains("| rows") == rule.isForRows, "\(text)")
      #expect(text.split(separator: "|")[1].contains("columns") == rule.isForColumns, "\(text)")
      // The document explains a rule in the same words, unless the rule has parts of its own.
      switch rule {
      case .priority, .combine, .sql, .function: break
      default: #expect(text.contains(rule.explanation), "\(text)")
      }
    }
    for kind in Conflict.Kind.allCases { _ = try row(kind.rawValue) }
  }
}
