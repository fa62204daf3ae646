import Changes
import Endpoints
import Mapping
import Testing

/// Rules for the trail of another node, whose tables only that node knows.
@Suite struct UnmatchedRuleTests {
  private func errors(_ rules: [String], known: [String]) throws -> [CairnError] {
    RuledTables.unused(
      rules.map { TableRule(from: $0) }, known: known.map { TableSchema(named: $0) },
      of: try #require(TrailName("store-042.pos"))
    ).map(\.error)
  }

  @Test func `a rule whose table has not come is named, with the nearest name`() throws {
    let errors = try errors(["item", "SALE", "itme", "s*", "other"], known: ["item", "sale"])
    #expect(errors.map(\.context) == [["table": "itme"], ["table": "other"]])
    #expect(errors.first?.code == .tableMissing && errors.first?.hint == "did you mean from = \"item\"?")
    #expect(errors.last?.hint.contains("node store-042") == true)
  }

  @Test func `the nearest name has the schema that the rule needs`() throws {
    #expect(
      try errors(["sales.itme"], known: ["sales.item", "public.note"]).map(\.hint) == [
        "did you mean from = \"sales.item\"?"
      ])
  }

  @Test func `before a table has come, no rule is judged`() throws {
    #expect(try errors(["itme"], known: []).isEmpty)
  }
}
