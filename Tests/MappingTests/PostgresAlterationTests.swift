import Changes
import Mapping
import Testing

@Suite struct PostgresAlterationTests {
  private func table(_ first: (String, String), _ second: (String, String)) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: first.0, declaredType: first.1), .init(name: second.0, declaredType: second.1)])
  }

  private func target(_ table: TableSchema) -> PostgresAlteration.Target {
    .init(
      namespace: table.namespace, name: table.name,
      columns: table.columns.map { .init(name: $0.name, type: $0.declaredType, isNotNull: false) }, constraints: [],
      indexes: [])
  }

  private static let swap = [
    "ALTER TABLE public.t RENAME COLUMN a TO cairn_moving_2", "ALTER TABLE public.t RENAME COLUMN c TO a",
    "ALTER TABLE public.t RENAME COLUMN cairn_moving_2 TO c",
  ]

  @Test(arguments: ["text", "double precision"])
  func `names that were swapped are swapped in a target that has both of them`(type: String) {
    let before = table(("a", "text"), ("c", type))
    let after = table(("c", "text"), ("a", type))
    let made = PostgresAlteration(before, after, origins: [0, 1], target: target(before))
    #expect(made.statements == Self.swap)
  }

  @Test(arguments: [("caf\u{e9}", "cafe\u{301}"), ("K", "\u{212a}")])
  func `names that look alike are swapped as others are`(_ one: String, _ other: String) {
    let before = table((one, "text"), (other, "text"))
    let after = table((other, "text"), (one, "text"))
    let made = PostgresAlteration(before, after, origins: [0, 1], target: target(before))
    let (a, b) = (one.postgresIdentifier, other.postgresIdentifier)
    #expect(
      made.statements.hasSameBytes(as: [
        "ALTER TABLE public.t RENAME COLUMN \(a) TO cairn_moving_2", "ALTER TABLE public.t RENAME COLUMN \(b) TO \(a)",
        "ALTER TABLE public.t RENAME COLUMN cairn_moving_2 TO \(b)",
      ]), "\(made.statements)")
  }

  @Test func `names that a person has swapped are not swapped back`() {
    let before = table(("a", "text"), ("c", "double precision"))
    let after = table(("c", "text"), ("a", "double precision"))
    #expect(PostgresAlteration(before, after, origins: [0, 1], target: target(after)).statements.isEmpty)
  }

  @Test func `a table that is renamed on the way to another shape keeps what only scripts say`() {
    var before = table(("a", "integer"), ("b", "text"))
    before.createText = "CREATE TABLE IF NOT EXISTS public.t (a integer, b text, CONSTRAINT k CHECK ((a > 0)))"
    var middle = table(("a", "integer"), ("b", "text"))
    middle.name = "u"
    var there = target(before)
    there.constraints = [.init(name: "k", kind: .check, columns: ["a"], text: "CHECK ((a > 0))")]
    let made = PostgresAlteration(before, middle, origins: [0, 1], target: there)
    #expect(made.statements == ["ALTER TABLE public.t RENAME TO u"])
  }
}
