import Changes
import Foundation
@testable import Conflicts
import TestServers
import Testing

/// Nodes that write one row, and get each other's versions in any order. Only the order of each origin is kept.
private struct Nodes {
  struct Message {
    var stamp: VersionStamp
    var seen: [String: UInt64]
    /// Nil: the transaction wrote other rows.
    var version: RowVersion?
  }
  struct Node {
    var name: String
    var clock: UInt64 = 0
    var history = RowHistory()
    var row: RowVersion.Row?
    /// The transactions that have come, by origin; for its own, those that it made.
    var seen: [String: UInt64] = [:]
    /// The transactions that each origin had seen when it made its last one.
    var seenBy: [String: [String: UInt64]] = [:]
  }

  let rules: ConflictRules
  var nodes: [Node]
  /// By place of the node.
  var sent: [[Message]]
  var random: Seeded

  init(_ count: Int, _ rules: ConflictRules, seed: UInt64) {
    self.rules = rules
    nodes = (0..<count).map { Node(name: "n\($0).db", row: row("tea", 100)) }
    sent = Array(repeating: [], count: count)
    random = Seeded(seed)
  }

  mutating func write(_ index: Int) throws {
    var node = nodes[index]
    // Off by up to 20 from the others'.
    node.clock = max(node.clock + 1, UInt64(sent.map(\.count).reduce(0, +)) + UInt64.random(in: 0...20, using: &random))
    let stamp = VersionStamp(clock: node.clock, origin: node.name, number: UInt64(sent[index].count + 1))
    var message = Message(stamp: stamp, seen: node.seen, version: nil)
    if Int.random(in: 0..<4, using: &random) > 0 {
      let write: RowVersion.Write
      if let before = node.row {
        var after = before
        switch Int.random(in: 0..<6, using: &random) {
        case 0: after[1] = .text(lines(of: before[1], stamp.clock))
        case 1: after[3] = .text(Array("\(node.name) \(stamp.clock % 7)".utf8))
        default:
          if case .integer(let stock)? = before[2] {
            after[2] = .integer(stock + Int64.random(in: -9...9, using: &random))
          }
        }
        write =
          Int.random(in: 0..<8, using: &random) == 0 ? .delete(before: before) : .update(before: before, after: after)
      } else {
        write = .insert(row("anew \(stamp.clock)", Int64.random(in: 1...50, using: &random)))
      }
      message.version = RowVersion(stamp, seen: node.seen, write)
    }
    node.seen[node.name] = stamp.number
    nodes[index] = node
    try take(message, at: index)
    sent[index].append(message)
  }

  /// A line more, and one changed or taken out.
  private mutating func lines(of text: Value?, _ clock: UInt64) -> [UInt8] {
    var lines = (text?.string ?? "").split(separator: "\n", omittingEmptySubsequences: false).suffix(6).map(String.init)
    let place = Int.random(in: 0...lines.count, using: &random)
    lines.insert("line \(clock)", at: place)
    switch Int.random(in: 0..<3, using: &random) {
    case 0: lines.remove(at: Int.random(in: lines.indices, using: &random))
    case 1: lines[Int.random(in: lines.indices, using: &random)] = "changed \(clock % 5)"
    default: break
    }
    return Array(lines.joined(separator: "\n").utf8)
  }

  /// The result of `sql:` and `function:` rules. They differ by the order of their parts, and by the rows around them.
  static var code: RuleCode {
    RuleCode(
      expression: { text, rows in
        guard let column = rows.column else { return .integer(shown(rows.local) < shown(rows.incoming) ? 1 : 0) }
        let parts = [rows.local, rows.incoming, rows.before].map { row in
          text == "rows" ? row.map(shown) : row?[column]?.string
        }
        return joined(parts)
      },
      function: { _, rows in
        rows.local.indices.map { index in
          joined([rows.local, rows.incoming, rows.before].map { $0?[index]?.string })
        }
      })
  }

  private static func joined(_ parts: [String?]) -> Value {
    .text(Array(parts.map { $0 ?? "?" }.joined(separator: "+").utf8.suffix(60)))
  }

  private static func shown(_ row: RowVersion.Row) -> String { row.map { $0?.string ?? "?" }.joined(separator: ",") }

  /// Brings the next transaction of an origin to a node; false when there is none.
  mutating func deliver(from: Int, to: Int) throws -> Bool {
    let known = Int(nodes[to].seen[nodes[from].name, default: 0])
    guard from != to, known < sent[from].count else { return false }
    try take(sent[from][known], at: to)
    nodes[to].seen[nodes[from].name] = UInt64(known + 1)
    nodes[to].clock = max(nodes[to].clock, sent[from][known].stamp.clock)
    return true
  }

  private mutating func take(_ message: Message, at index: Int) throws {
    nodes[index].seenBy[message.stamp.origin] = message.seen
    guard let version = message.version else { return }
    let isFollowing = nodes[index].history.isFollowed(by: version)
    nodes[index].history.add(version)
    let settled = try ConflictResolution(nodes[index].history, rules, columnCount: columnCount, code: Self.code).row
    if isFollowing { #expect(settled == version.after, "what knew all of it is taken as it is") }
    nodes[index].row = settled
  }

  /// A node forgets what it knows that all have seen.
  mutating func forget(_ index: Int) {
    let node = nodes[index]
    let others = nodes.map(\.name).filter { $0 != node.name }
    nodes[index].history.forget { stamp in
      others.allSatisfy { other in
        other == stamp.origin || node.seenBy[other]?[stamp.origin] ?? 0 >= stamp.number
      }
    }
  }
}

@Suite struct ConvergenceTests {
  private static let rules: [ConflictRules] = [
    ConflictRules(), ConflictRules(rule: .oldest), ConflictRules(rule: .priority(["n2", "n0"])),
    ConflictRules(tracking: .column), ConflictRules(tracking: .column, deletes: .deleteWins),
    ConflictRules(columns: [2: .delta], deletes: .updateWins), ConflictRules(columns: [2: .max, 3: .min]),
    ConflictRules(tracking: .column, columns: [2: .average, 3: .combine(separator: "/")], deletes: .updateWins),
    ConflictRules(columns: [2: .delta], deletes: .deleteWins), ConflictRules(rule: .oldest, columns: [1: .newest]),
    ConflictRules(columns: [1: .mergeText, 3: .mergeText]), ConflictRules(tracking: .column, columns: [3: .sql("+")]),
    ConflictRules(rule: .source, columns: [3: .target]).between(source: "n1", target: "n2"), ConflictRules(rule: .ask),
    ConflictRules(rule: .sql("less")), ConflictRules(tracking: .column, rule: .sql("less"), columns: [3: .sql("rows")]),
    ConflictRules(columns: [2: .sql("rows")], deletes: .updateWins), ConflictRules(rule: .function("a.b")),
  ]

  @Test(arguments: rules)
  func `nodes that have seen the same hold the same row`(rules: ConflictRules) throws {
    for seed in Seeds.range(reduced: 5) {
      var nodes = Nodes(seed % 2 == 0 ? 3 : 5, rules, seed: seed)
      let places = nodes.nodes.indices
      for _ in 0..<250 {
        let (one, other) = (
          Int.random(in: nodes.nodes.indices, using: &nodes.random),
          Int.random(in: nodes.nodes.indices, using: &nodes.random)
        )
        switch Int.random(in: 0..<8, using: &nodes.random) {
        case 0...1: try nodes.write(one)
        case 2: nodes.forget(one)
        default: _ = try nodes.deliver(from: one, to: other)
        }
      }
      while try places.contains(where: { from in try places.contains { try nodes.deliver(from: from, to: $0) } }) {}
      // Versions that were forgotten on the way make no difference.
      let all = RowHistory(nodes.sent.joined().compactMap(\.version))
      let settled = [
        nodes.nodes.map(\.row), [try ConflictResolution(all, rules, columnCount: columnCount, code: Nodes.code).row],
      ].joined()
      let rows = settled.map { $0?.map { $0?.shown ?? "?" } ?? ["gone"] }
      #expect(Set(rows).count == 1, "seed \(seed): \(rows)")
    }
  }

  @Test(arguments: rules)
  func `condensed versions come to the same row, and to the same conflicts`(rules: ConflictRules) throws {
    var (count, condensedCount) = (0, 0)
    for seed in Seeds.range(reduced: 2) {
      var nodes = Nodes(3, rules, seed: seed)
      for _ in 0..<40 {
        let places = nodes.nodes.indices
        let (one, other) = (Int.random(in: places, using: &nodes.random), Int.random(in: places, using: &nodes.random))
        if Int.random(in: 0..<4, using: &nodes.random) > 0 {
          for _ in 0..<Int.random(in: 1...4, using: &nodes.random) { try nodes.write(one) }
        } else {
          while Bool.random(using: &nodes.random), try nodes.deliver(from: one, to: other) {}
        }
      }
      let all = RowHistory(nodes.sent.joined().compactMap(\.version)).versions
      var grown = CondensedVersions([], beside: all[0])
      for index in all.indices.dropFirst() {
        let (others, incoming) = (Array(all[..<index]), all[index])
        let made = CondensedVersions(others, beside: incoming)
        if !grown.add(all[index - 1]) || grown.areToldApart(by: incoming) { grown = made }
        let expected = try outcome(others, incoming, rules)
        #expect(try outcome(made.versions, incoming, rules) == expected, "seed \(seed), \(index)")
        #expect(try outcome(grown.versions, incoming, rules) == expected, "seed \(seed), \(index), grown")
        (count, condensedCount) = (count + others.count, condensedCount + grown.versions.count)
      }
    }
    #expect(condensedCount < count, "\(condensedCount) of \(count)")
  }

  private func outcome(_ others: [RowVersion], _ incoming: RowVersion, _ rules: ConflictRules) throws -> [String] {
    let history = RowHistory(others + [incoming])
    let settled = try ConflictResolution(history, rules, columnCount: columnCount, code: Nodes.code)
    let conflicts = Conflict.all(of: incoming, in: history, rules, columnCount: columnCount)
    return (settled.row?.map { $0?.shown ?? "?" } ?? ["gone"]) + ["\(settled.isKept)"] + conflicts.map { "\($0)" }
  }
}
