import Changes
import SystemKit
import TestServers
import Testing

@testable import SQLiteKit

/// The properties of tables that Cairn derives from many triggers, indexes and foreign keys. Compared in pairs, each
/// list would take minutes.
@Suite struct TriggerWritesTests {
  private func table(_ name: String, keys: [TableSchema.ForeignKey] = [], columns: [TableSchema.Column] = [])
    -> SQLiteTable
  {
    SQLiteTable(
      schema: TableSchema(epoch: 0, engine: .sqlite, name: name, columns: columns, foreignKeys: keys), generated: [],
      uniqueKeys: [])
  }

  private func key(_ parent: String, _ references: [String] = []) -> TableSchema.ForeignKey {
    .init(columns: [0], table: parent, references: references, onUpdate: "", onDelete: "")
  }

  private func trigger(_ event: String, _ table: String, _ written: [String]) -> TriggerShape {
    let body = written.map { "DELETE FROM \($0);" }.joined()
    return TriggerShape(table: table, text: "CREATE TRIGGER a \(event) ON \(table) BEGIN \(body) END")
  }

  private func returning(_ triggers: [TriggerShape], _ tables: [SQLiteTable]) -> [String] {
    let writes = TriggerWrites(triggers, tables)
    return tables.map(\.schema.name).filter { writes.mayReturn(to: $0.sqliteKey) }
  }

  @Test func `the time at which a trigger runs and the tables that it writes are read from its text`() {
    let first = TriggerShape(
      table: "T",
      text: "CREATE TRIGGER a BEFORE INSERT ON T BEGIN UPDATE OR IGNORE b SET x = 1; INSERT INTO \"C\" VALUES (1); END")
    #expect(first.table == "t".sqliteKey && first.isBefore && first.isEarly)
    #expect(first.written == ["b".sqliteKey, "c".sqliteKey])
    let second = trigger("AFTER DELETE", "t", ["t"])
    #expect(!second.isBefore && second.isEarly)
    #expect(!trigger("AFTER INSERT", "t", []).isEarly)
  }

  @Test func `a write returns to its table by triggers and by foreign keys`() {
    #expect(returning([trigger("BEFORE INSERT", "a", ["A"])], [table("a")]) == ["a"])
    #expect(returning([trigger("AFTER INSERT", "a", ["a"])], [table("a")]) == [])
    let circle = [trigger("BEFORE INSERT", "a", ["b"]), trigger("AFTER DELETE", "b", ["c"])]
    let three = ["a", "b", "c"].map { table($0) }
    #expect(returning(circle + [trigger("AFTER INSERT", "c", ["a"])], three) == ["a", "b"])
    #expect(returning(circle, three) == [])
    // The delete of a row of a reaches b, whose trigger writes a.
    let child = [table("a"), table("b", keys: [key("a")])]
    #expect(returning([trigger("AFTER INSERT", "b", ["a"])], child) == ["a"])
    // Foreign keys alone, in a circle, are no write by a trigger.
    let round = [table("a", keys: [key("b")]), table("b", keys: [key("a")]), table("c")]
    #expect(returning([trigger("BEFORE INSERT", "c", ["a"])], round) == [])
  }

  @Test func `the answer for all tables is that of a search from each table`() {
    var random = Seeded(7)
    for round in 0..<400 {
      let names = (0..<6).map { "t\($0)" }
      var written: [String: Set<String>] = [:]
      var early: [String: Set<String>] = [:]
      var children: [String: Set<String>] = [:]
      var triggers: [TriggerShape] = []
      for _ in 0...random.below(6) {
        let (from, to, isEarly) = (names[random.below(6)], names[random.below(6)], random.below(2) == 0)
        triggers.append(trigger(isEarly ? "BEFORE INSERT" : "AFTER INSERT", from, [to]))
        written[from, default: []].insert(to)
        if isEarly { early[from, default: []].insert(to) }
      }
      let tables = names.map { name in
        let parents = (0..<random.below(3)).map { _ in names[random.below(6)] }
        for parent in parents { children[parent, default: []].insert(name) }
        return table(name, keys: parents.map { key($0) })
      }
      func searched(_ table: String) -> Bool {
        var next = (early[table] ?? []).map { ($0, true) } + (children[table] ?? []).map { ($0, false) }
        var seen = Set(next.map { "\($0)" })
        while let (name, isByTrigger) = next.popLast() {
          if isByTrigger, name == table { return true }
          let steps = (written[name] ?? []).map { ($0, true) } + (children[name] ?? []).map { ($0, isByTrigger) }
          for step in steps where seen.insert("\(step)").inserted { next.append(step) }
        }
        return false
      }
      #expect(returning(triggers, tables) == names.filter(searched), "round \(round)")
    }
  }

  @Test func `many tables share one search through many triggers, which shows life`() {
    let core = (0..<300).map { "c\($0)" }
    let edge = (0..<30_000).map { "s\($0)" }
    let triggers = core.map { trigger("AFTER INSERT", $0, core) } + edge.map { trigger("BEFORE INSERT", $0, ["c0"]) }
    let pulse = Pulse()
    pulse.attached { #expect(returning(triggers, (core + edge).map { table($0) }) == []) }
    #expect(pulse.value > 30_000)
  }

  @Test func `the tables that one trigger writes are not compared in pairs`() {
    let names = (0..<50_000).map { "x\($0)" }
    let body = (names + names.map { "X" + $0.dropFirst() }).map { "DELETE FROM \($0);" }.joined()
    let trigger = StoredTrigger(name: "q", table: "X7", text: "CREATE TRIGGER q AFTER INSERT ON X7 BEGIN \(body) END")
    #expect(trigger.written == names.filter { $0 != "x7" })
  }

  @Test func `indexes with unknown collations are not compared in pairs`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    var tables = [table("t", columns: [.init(name: "x")])]
    tables[0].schema.objects = (0..<20_000).map { number in
      .init(name: "j\(number)", text: "CREATE INDEX j\(number) ON t(x COLLATE \(number == 5 ? "nocase" : "zz"))")
    }
    database.refuseUnknownCollations(&tables)
    #expect(tables[0].schema.objects.map(\.name) == ["j5"] && tables[0].refusal == nil)
  }

  @Test func `foreign keys do not search the columns of their table one by one`() {
    let columns = (0..<1_900).map { TableSchema.Column(name: "c\($0)", declaredType: "INTEGER") }
    let keys = (0..<100_000).map { _ in key("p", ["C1899"]) }
    var tables = [
      table("p", columns: columns), table("t", keys: keys, columns: [.init(name: "a", declaredType: "INTEGER")]),
    ]
    Database.markWrongOld(&tables)
    #expect(!tables[0].givesWrongOld)
    tables[0].schema.columns[1899].declaredType = "TEXT"
    Database.markWrongOld(&tables)
    #expect(tables[0].givesWrongOld)
  }
}
