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

  @Test func `names that a person has swapped are not swapped back`() {
    let before = table(("a", "text"), ("c", "double precision"))
    let after = table(("c", "text"), ("a", "double precision"))
    #expect(PostgresAlteration(before, after, origins: [0, 1], target: target(after)).statements.isEmpty)
  }
}
