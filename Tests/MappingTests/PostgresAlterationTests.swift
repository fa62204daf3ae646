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

  /// A table with CHECK constraints, as its script says.
  private func checked(_ checks: [(String, String)], _ columns: [String] = ["a", "b"]) -> TableSchema {
    var table = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: columns.map { .init(name: $0, declaredType: "integer") })
    let parts = columns.map { "\($0) integer" } + checks.map { "CONSTRAINT \($0.0) CHECK (\($0.1))" }
    table.createText = "CREATE TABLE IF NOT EXISTS public.t (\(parts.joined(separator: ", ")))"
    return table
  }

  private func target(_ table: TableSchema, _ checks: [(String, String)]) -> PostgresAlteration.Target {
    var there = target(table)
    there.constraints = checks.map { .init(name: $0.0, kind: .check, columns: [], text: "CHECK (\($0.1))") }
    return there
  }

  @Test func `constraints that say the same keep their names`() {
    let checks = [("old_a_check", "(a > 0)"), ("t_a_check", "(a > 0)")]
    let made = PostgresAlteration(
      checked(checks), checked(checks, ["a"]), origins: [0], target: target(checked(checks), checks))
    #expect(made.statements == ["ALTER TABLE public.t DROP COLUMN b"])
  }

  @Test func `of two constraints that say the same, the dropped one is dropped`() {
    let checks = [("k", "(a > 0)"), ("l", "(a > 0)")]
    for index in 0...1 {
      let made = PostgresAlteration(
        checked(checks), checked([checks[1 - index]]), origins: [0, 1], target: target(checked(checks), checks))
      #expect(made.statements == ["ALTER TABLE public.t DROP CONSTRAINT \(checks[index].0)"])
    }
    // The target has only one of the two, under a third name: the one that stays needs it.
    let there = target(checked(checks), [("mine", "(a > 0)")])
    let made = PostgresAlteration(checked(checks), checked([checks[1]]), origins: [0, 1], target: there)
    #expect(made.statements.isEmpty)
  }

  @Test func `a second constraint that says the same is added and renamed`() {
    let (k, l) = (("k", "(a > 0)"), ("l", "(a > 0)"))
    let there = target(checked([k]), [k])
    let added = PostgresAlteration(checked([k]), checked([k, l]), origins: [0, 1], target: there)
    #expect(added.statements == ["ALTER TABLE public.t ADD CONSTRAINT l CHECK ((a > 0))"])
    let both = target(checked([k]), [k, l])
    #expect(PostgresAlteration(checked([k]), checked([k, l]), origins: [0, 1], target: both).statements.isEmpty)
    let renamed = PostgresAlteration(checked([k, l]), checked([k, ("m", l.1)]), origins: [0, 1], target: both)
    #expect(renamed.statements == ["ALTER TABLE public.t RENAME CONSTRAINT l TO m"])
  }

  @Test func `indexes and constraints of a generated column that is made again are made again`() {
    func table(_ expression: String) -> TableSchema {
      var table = TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "t",
        columns: [.init(name: "a", declaredType: "integer")])
      table.objects = [
        .init(name: "i", text: "CREATE INDEX i ON public.t USING btree (d, a)"),
        .init(name: "j", text: "CREATE INDEX j ON public.t USING btree (a)"),
      ]
      table.createText =
        "CREATE TABLE IF NOT EXISTS public.t (a integer, d integer GENERATED ALWAYS AS (\(expression)) STORED, "
        + "CONSTRAINT k CHECK ((d > 0)), CONSTRAINT l CHECK ((a > 0)))"
      return table
    }
    let before = table("(a * 2)")
    var there = target(before)
    there.columns.append(.init(name: "d", type: "integer", isNotNull: false, isGenerated: true))
    there.constraints = [("k", "(d > 0)"), ("l", "(a > 0)")].map {
      .init(name: $0.0, kind: .check, columns: [], text: "CHECK (\($0.1))")
    }
    there.indexes = before.objects
    let made = PostgresAlteration(before, table("(a * 3)"), origins: [0], target: there)
    #expect(
      made.statements == [
        "ALTER TABLE public.t DROP CONSTRAINT k", "DROP INDEX public.i", "ALTER TABLE public.t DROP COLUMN d",
        "ALTER TABLE public.t ADD COLUMN d integer GENERATED ALWAYS AS ((a * 3)) STORED",
        "ALTER TABLE public.t ADD CONSTRAINT k CHECK ((d > 0))",
      ])
    #expect(made.newIndexes.map(\.name) == ["i"] && made.dropped.indexes == ["i"])
    #expect(PostgresAlteration(before, before, origins: [0], target: there).all.isEmpty)
  }

  /// The columns have different numbers in the catalog of the source, and its rows are not copied again.
  @Test func `a plain column takes the place of a generated one, and a generated one that of a plain one`() {
    func table(isGenerated: Bool) -> TableSchema {
      var table = TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "t",
        columns: [.init(name: "a", declaredType: "integer")])
      if !isGenerated { table.columns.append(.init(name: "d", declaredType: "integer")) }
      table.createText =
        "CREATE TABLE IF NOT EXISTS public.t (a integer, d integer"
        + "\(isGenerated ? " GENERATED ALWAYS AS ((a * 2)) STORED" : ""))"
      return table
    }
    let (plain, generated) = (table(isGenerated: false), table(isGenerated: true))
    let thereIsPlain = target(plain)
    var thereIsGenerated = target(generated)
    thereIsGenerated.columns.append(.init(name: "d", type: "integer", isNotNull: false, isGenerated: true))
    func made(
      _ before: TableSchema, _ after: TableSchema, _ origins: [Int?], _ there: PostgresAlteration.Target?,
      isRefreshed: Bool = false
    ) -> [String] {
      PostgresAlteration(before, after, origins: origins, target: there, isRefreshed: isRefreshed).statements
    }
    let drop = "ALTER TABLE public.t DROP COLUMN d"
    let add = "ALTER TABLE public.t ADD COLUMN d integer"
    for there in [thereIsGenerated, nil] { #expect(made(generated, plain, [0, nil], there) == [drop, add]) }
    #expect(made(generated, plain, [0, nil], thereIsPlain) == [])
    let keeps = made(generated, plain, [0, nil], thereIsGenerated, isRefreshed: true)
    #expect(keeps == ["ALTER TABLE public.t ALTER COLUMN d DROP EXPRESSION"])
    for there in [thereIsPlain, nil] {
      #expect(made(plain, generated, [0], there) == [drop, "\(add) GENERATED ALWAYS AS ((a * 2)) STORED"])
    }
    #expect(made(plain, generated, [0], thereIsGenerated) == [])
  }

  /// A table with a generated column c, and the same one after a -> b, b -> c.
  private func chain() -> (before: TableSchema, after: TableSchema) {
    var before = table(("a", "integer"), ("b", "integer"))
    before.createText =
      "CREATE TABLE IF NOT EXISTS public.t (a integer, b integer, c integer GENERATED ALWAYS AS ((a + 1)) STORED)"
    var after = table(("b", "integer"), ("c", "integer"))
    after.createText = "CREATE TABLE IF NOT EXISTS public.t (b integer, c integer)"
    return (before, after)
  }

  @Test(arguments: [false, true])
  func `a renamed column takes the name of a generated one`(isRefreshed: Bool) {
    let (before, after) = chain()
    let made = PostgresAlteration(before, after, origins: [0, 1], isRefreshed: isRefreshed)
    #expect(
      made.statements == [
        "ALTER TABLE public.t DROP COLUMN c", "ALTER TABLE public.t RENAME COLUMN b TO c",
        "ALTER TABLE public.t RENAME COLUMN a TO b",
      ])
  }

  @Test func `a column that the operator added under a new name ends no apply`() {
    let (before, after) = chain()
    var there = target(before)
    there.columns.append(.init(name: "c", type: "integer", isNotNull: false))
    for isRefreshed in [false, true] {
      let made = PostgresAlteration(before, after, origins: [0, 1], target: there, isRefreshed: isRefreshed)
      // The server refuses the first statement, with the name that is taken.
      #expect(
        made.statements == [
          "ALTER TABLE public.t RENAME COLUMN b TO c", "ALTER TABLE public.t RENAME COLUMN a TO b",
        ])
    }
  }
}
