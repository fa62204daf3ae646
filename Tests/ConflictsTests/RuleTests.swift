import Changes
import Conflicts
import Testing

@Suite struct RuleTests {
  private typealias Rule = ConflictRules.Rule

  @Test func `every rule is read as it is written`() throws {
    for rule in ConflictRules.Rule.samples { #expect(try ConflictRules.Rule(rule.text) == rule) }
    #expect(ConflictRules.Rule.samples.count == ConflictRules.Rule.names.count)
    #expect(try Rule("priority:hq, store-1") == .priority(["hq", "store-1"]))
    #expect(try Rule("combine:: ") == .combine(separator: ": "))
    #expect(try Rule("sql:a:b") == .sql("a:b"))
    #expect(try Rule("function:sales.settle_2") == .function("sales.settle_2"))
    for text in ["function:settle", "function:a.b.c", "function:a.B", "function:a.b(1)", "function:.b"] {
      #expect(throws: Rule.Fault.incomplete(example: "function:public.settle")) { try Rule(text) }
    }
  }

  @Test(arguments: [
    ("newset", ConflictRules.Rule.Fault.unknown(nearest: "newest")), ("", .unknown(nearest: "newest")),
    ("Delta", .unknown(nearest: "delta")), ("mergetext", .unknown(nearest: "merge-text")),
    ("priorty:a", .unknown(nearest: "priority:hq,store-1")), ("newest:", .tooMuch("newest")),
    ("max:3", .tooMuch("max")), ("priority", .incomplete(example: "priority:hq,store-1")),
    ("priority:", .incomplete(example: "priority:hq,store-1")),
    ("priority:a,,b", .incomplete(example: "priority:hq,store-1")),
    ("priority:a,a", .incomplete(example: "priority:hq,store-1")), ("combine:", .incomplete(example: "combine: / ")),
    ("sql: ", .incomplete(example: "sql:max(local, incoming)")),
  ])
  func `a text that is no rule is reported, with the probable meaning`(text: String, fault: ConflictRules.Rule.Fault) {
    #expect(throws: fault) { try ConflictRules.Rule(text) }
  }

  @Test func `the promise of a rule, and the places where it may be used`() {
    func names(_ isMeant: (ConflictRules.Rule) -> Bool) -> [String] {
      ConflictRules.Rule.samples.filter(isMeant).map { String($0.text.prefix { $0 != ":" }) }
    }
    #expect(
      names { $0.promise == .converges } == [
        "newest", "oldest", "max", "min", "delta", "average", "merge-text", "priority", "combine", "sql",
      ])
    #expect(names { $0.promise == .convergesIfWaysAgree } == ["source", "target"])
    #expect(names { $0.promise == .decidedAtOneNode } == ["insert-only", "function"])
    #expect(names { $0.promise == .decidedByPerson } == ["ask"])
    #expect(names { $0.promise == .stops } == ["stop"])
    #expect(
      names { $0.isForRows } == [
        "newest", "oldest", "source", "target", "insert-only", "stop", "ask", "priority", "sql", "function",
      ])
    #expect(names { !$0.isForColumns } == ["insert-only"])
    #expect(names { $0.needsBefore } == ["delta", "merge-text"])
    for rule in ConflictRules.Rule.samples {
      #expect(!rule.explanation.hasSuffix(".") && !rule.promise.explanation.hasSuffix("."))
    }
  }

  @Test func `the rules of a table are those of its name, then of a pattern, then of the whole`() {
    let columns = ["id", "Stock", "note"]
    let plan = ConflictPlan(
      .init(rule: .oldest, columns: ["note": .mergeText], tracking: .column),
      tables: [
        .init(from: "i*", .init(rule: .stop)),
        .init(from: "ITEM", .init(columns: ["STOCK": .delta, "gone": .max], deletes: .deleteWins)),
        .init(from: "sales.*", .init(tracking: .row)),
      ])
    func table(_ name: String, _ namespace: String = "") -> TableSchema {
      TableSchema(epoch: 1, engine: .postgres, namespace: namespace, name: name, columns: [])
    }
    #expect(
      plan.rules(for: table("item", "public"), columns: columns)
        == ConflictRules(tracking: .column, rule: .oldest, columns: [1: .delta, 2: .mergeText], deletes: .deleteWins))
    #expect(plan.rules(for: table("Invoice"), columns: ["id"]) == ConflictRules(tracking: .column, rule: .stop))
    #expect(plan.rules(for: table("item", "sales"), columns: ["id"]) == ConflictRules(rule: .oldest))
    #expect(plan.rules(for: table("item", "other"), columns: ["id"]) == ConflictRules(tracking: .column, rule: .oldest))
    #expect(plan.rules(forTarget: "item", columns: columns) == plan.rules(for: table("item"), columns: columns))
    #expect(plan.rules(forTarget: "sales_orders", columns: ["id"]) == ConflictRules(rule: .oldest))
    let full = ConflictPlan(tables: [.init(from: "public.s", .init(rule: .stop))])
    #expect(full.rules(forTarget: "s", columns: []).rule == .stop)
    #expect(full.rules(for: table("s", "public"), columns: []).rule == .stop)
    #expect(LocalWritesPlan(tables: [.init(from: "public.s", .refuse)]).writes(forTarget: "s") == .refuse)
    let renamed = ConflictPlan(tables: [.init(from: "a", to: "sales.b", .init(rule: .stop))])
    #expect(renamed.rules(forTarget: "sales.b", columns: []).rule == .stop)
    #expect(renamed.rules(forTarget: "a", columns: []).rule == .newest)
    #expect(ConflictPlan().rules(for: table("item"), columns: columns) == ConflictRules())
    #expect(plan.unknownColumns(of: table("item"), columns: columns) == ["gone"])
    #expect(plan.unknownColumns(of: table("other"), columns: columns) == [])
  }

  @Test func `both ways agree where they name the same winner`() {
    func agree(_ there: ConflictRules, _ back: ConflictRules) -> Bool {
      let one = there.agrees(with: back, source: "a.db", target: "b.db")
      #expect(back.agrees(with: there, source: "b.db", target: "a.db") == one)
      return one
    }
    #expect(agree(ConflictRules(), ConflictRules()) && agree(ConflictRules(rule: .max), ConflictRules(rule: .max)))
    #expect(agree(ConflictRules(rule: .source), ConflictRules(rule: .target)))
    #expect(agree(ConflictRules(rule: .source), ConflictRules(rule: .priority(["a.db"]))))
    #expect(!agree(ConflictRules(rule: .source), ConflictRules(rule: .source)))
    #expect(!agree(ConflictRules(rule: .target), ConflictRules(rule: .target)))
    #expect(agree(ConflictRules(columns: [1: .target]), ConflictRules(columns: [1: .source])))
    #expect(!agree(ConflictRules(columns: [1: .delta]), ConflictRules()))
    #expect(!agree(ConflictRules(tracking: .column), ConflictRules()))
    #expect(!agree(ConflictRules(deletes: .deleteWins), ConflictRules()))
    #expect(agree(ConflictRules(rule: .insertOnly), ConflictRules(rule: .source)))
  }

  @Test func `the other node takes the newest until the node decides by its own rules`() {
    let rules = ConflictRules(rule: .target, columns: [1: .sql("local"), 2: .delta, 3: .ask], decider: "hq")
    let until = ConflictRules(columns: [1: .newest, 2: .delta, 3: .newest], decider: "hq")
    #expect(rules.between(source: "hq.stock", target: "shop.stock") == until)
    #expect(rules.deciding(source: "hq.stock", target: "shop.stock") == nil)
    let deciding = rules.deciding(source: "shop.stock", target: "hq.stock")
    #expect(deciding?.rule == .priority(["hq.stock"]) && deciding?.columns[1] == .sql("local"))
    #expect(rules.between(source: "shop.stock", target: "hq.stock").columns[3] == .ask)
    #expect(ConflictRules(decider: "hq").deciding(source: "shop.stock", target: "hq.stock") == nil)
    func agree(_ there: ConflictRules, _ back: ConflictRules) -> Bool {
      there.agrees(with: back, source: "a.db", target: "b.db")
    }
    #expect(agree(ConflictRules(rule: .source, decider: "a"), ConflictRules(rule: .source, decider: "a")))
    #expect(agree(ConflictRules(rule: .source, decider: "a"), ConflictRules()))
    #expect(!agree(ConflictRules(rule: .source, decider: "a"), ConflictRules(rule: .source, decider: "b")))
    #expect(!agree(ConflictRules(rule: .source, decider: "a"), ConflictRules(rule: .target)))
  }

  @Test func `the promise depends on who writes`() {
    func verdict(_ rule: ConflictRules.Rule, _ decider: String? = nil, _ peers: String...) -> TopologyPromise.Verdict {
      TopologyPromise(rule, decider: decider, own: "hq.stock", peers: peers).verdict
    }
    #expect(verdict(.newest, nil, "a.stock", "b.stock") == .converges)
    #expect(verdict(.mergeText, "hq", "a.stock", "b.stock") == .converges)
    #expect(verdict(.sql("local"), nil, "a.stock", "b.stock") == .converges)
    #expect(verdict(.source, nil, "a.stock") == .convergesIfWaysAgree)
    #expect(verdict(.source, nil, "a.stock", "b.stock") == .severalDecide)
    #expect(verdict(.source, "a", "a.stock", "b.stock") == .decided(at: "a"))
    #expect(verdict(.target, "hq.stock", "hq.copy") == .decided(at: "hq.stock"))
    #expect(verdict(.target, "hq", "hq.copy") == .deciderUnclear("hq", trails: ["hq.stock", "hq.copy"]))
    #expect(verdict(.insertOnly, "c", "a.stock") == .deciderMissing("c"))
    #expect(verdict(.insertOnly, nil, "a.stock") == .keptAtOneNode)
    #expect(verdict(.ask, "hq", "a.stock") == .asks(at: "hq"))
    #expect(verdict(.stop, "hq", "a.stock") == .stops)
    let plan = ConflictPlan(
      .init(rule: .target, decider: "hq"), tables: [.init(from: "t", .init(columns: ["n": .delta]))])
    let promises = TopologyPromise.all(plan, own: "hq.stock", peers: ["a.stock"])
    #expect(promises.map(\.rule) == [.target, .delta])
    for promise in promises { #expect(!promise.text.hasSuffix(".")) }
  }

  @Test func `rules that a person decides are known by the columns in conflict`() {
    let rules = ConflictRules(tracking: .column, columns: [1: .stop, 2: .ask, 3: .delta])
    func conflict(_ columns: [Int]) -> Conflict {
      let stamp = VersionStamp(clock: 1, origin: "a.db", number: 1)
      return Conflict(kind: .updateOriginDiffers, incoming: stamp, other: stamp, columns: columns)
    }
    #expect(rules.stops(at: conflict([1, 3])) && !rules.asks(of: conflict([1, 3])))
    #expect(rules.asks(of: conflict([2])) && !rules.stops(at: conflict([2])))
    #expect(!rules.asks(of: conflict([0, 3])) && rules.text(for: conflict([0, 3])) == "newest, delta")
    #expect(ConflictRules(rule: .stop).stops(at: conflict([])))
  }
}
