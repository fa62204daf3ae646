import Applying
import Changes
import Foundation
import Mapping
import Testing
import Transforming

@testable import Daemon

/// The meaning of a changed rule for a table, by the rules alone.
@Suite struct RuleChangeTests {
  private static func rule(_ from: String = "orders", _ body: (inout TableRule) -> Void = { _ in }) -> TableRule {
    var rule = TableRule(from: from)
    body(&rule)
    return rule
  }

  private static let positive = rule { $0.filter = "total > 0" }

  @Test func `rows that another rule changes come again, and rows that stay as they are do not`() {
    let kept = Self.rule { $0.delete = .keep }
    let marked = Self.rule { $0.delete = .mark(column: "gone") }
    let history = Self.rule { ($0.mode, $0.to) = (.history, "log") }
    let filtered = Self.rule { ($0.mode, $0.to, $0.filter) = (.history, "log", "total > 0") }
    let elsewhere = Self.rule { $0.to = "sales.orders" }
    let cases: [(old: TableRule?, new: TableRule?, change: RuleChange?)] = [
      (nil, nil, nil), (Self.positive, Self.positive, nil), (nil, Self.rule(), nil),
      (Self.positive, Self.rule("ORDERS") { $0.filter = "total > 0" }, nil),
      (nil, Self.positive, .copied), (Self.positive, nil, .copied),
      (Self.positive, Self.rule { $0.filter = "total > 1" }, .copied),
      (nil, Self.rule { $0.columns = [.init("*", "*")] }, .copied),
      (
        Self.rule { $0.columns = [.init("a", "x")] }, Self.rule { $0.columns = [.init("a", "x", type: "text")] },
        .copied
      ),
      (nil, kept, .noted), (kept, nil, .copied), (marked, kept, .copied), (nil, marked, .copied),
      (nil, Self.rule { ($0.delete, $0.filter) = (.keep, "total > 0") }, .copied),
      (nil, elsewhere, .moved(from: nil)), (elsewhere, nil, .moved(from: "sales.orders")),
      (elsewhere, Self.rule { $0.to = "Sales.Orders" }, .copied),
      (history, filtered, .noted), (nil, history, .moved(from: nil)),
      (nil, Self.rule { $0.mode = .history }, .refused), (Self.rule { $0.mode = .history }, nil, .refused),
    ]
    for (index, item) in cases.enumerated() {
      #expect(RuleChange(from: item.old, to: item.new) == item.change, "case \(index)")
    }
  }

  @Test func `tables of the target are found under their names at the source`() {
    let rules = [
      Self.rule("orders") { $0.to = "sales.orders" }, Self.rule("sales.visit"),
      Self.rule("till_*") { $0.delete = .keep },
    ]
    #expect(RuleChange.sources(of: ["sales.orders", "item", "till_1"], rules) == ["item", "orders", "till_1"])
    // As they are called in SQLite, and in PostgreSQL.
    #expect(RuleChange.sources(of: ["sales_orders"], rules) == ["orders", "sales_orders"])
    #expect(RuleChange.sources(of: ["sales_visit", "public.item"], rules) == ["item", "sales.visit", "sales_visit"])
  }

  @Test func `a pattern changes the tables that no rule names, and a table is not both mirror and history`() throws {
    let old = [Self.positive, Self.rule("*") { $0.delete = .keep }]
    let new = [Self.positive, Self.rule("t*") { $0.delete = .keep }]
    let changes = try RuleChange.all(
      of: ["item", "orders", "till", "sales.tax"], from: old, to: new, at: "x", apply: "a")
    #expect(changes.map(\.table) == ["item"] && changes.map(\.change) == [.copied])
    let history = [Self.rule { $0.mode = .history }]
    let error = #expect(throws: CairnError.self) {
      try RuleChange.all(of: ["orders"], from: old, to: history, at: "x", apply: "a")
    }
    #expect(error?.code == .ruleRefused && error?.hint.contains("another `to`") == true)
  }

  @Test func `changes that follow each other are kept until they are through`() {
    let one = RuleChange.merged([], [("orders", .noted)], from: [])
    #expect(one == [ChangedRule("orders", before: [nil], isCopied: false)])
    let two = RuleChange.merged(one, [("orders", .copied), ("item", .copied)], from: [Self.positive])
    #expect(
      two == [
        ChangedRule("item", before: [nil], isCopied: true),
        ChangedRule("orders", before: [nil, Self.positive], isCopied: true),
      ])
  }

  @Test func `the note is read as it was written, and one that is damaged is refused`() throws {
    let state = FileManager.default.temporaryDirectory.path + "/cairn-rules-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: state) }
    let note = RuleNote(state: state, apply: "copy")
    #expect(try note.read() == nil)
    let full = Self.rule("sales.*") {
      ($0.to, $0.filter, $0.mode, $0.delete) = ("a.b", "name <> '\"é\n'", .history, .mark(column: "gone: at"))
      $0.columns = [.init("*", "*"), .init("store", "'042'", type: "text", isShare: false)]
    }
    let content = RuleNote.Content(
      rules: [full, Self.rule { $0.delete = .keep }, Self.rule { $0.columns = [] }],
      changed: [ChangedRule("orders", before: [nil, full], isCopied: true)])
    try note.note(content)
    #expect(try note.read() == content)
    try "{\"rules\":[{}]}".write(toFile: "\(state)/applies/copy.rules", atomically: true, encoding: .utf8)
    #expect(throws: CairnError.self) { try note.read() }
    try note.note(content)
    #expect(try note.read() == content)
  }
}
