import Changes
import TestServers
import Testing

@testable import Mapping

@Suite struct PostgresUserTypeTests {
  private static let name = #""public"."c""#

  private func table(_ attributes: String, _ guarding: Bool = true) -> TableSchema {
    let create = "CREATE TYPE \(Self.name) AS (\(attributes))"
    return TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "v", declaredType: "public.c", baseType: "record")],
      createText: (guarding
        ? "DO $cairn$ BEGIN \(create); EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $cairn$"
        : create)
        + ";\nCREATE TABLE IF NOT EXISTS \"public\".\"t\" (\n  \"v\" public.c\n);")
  }

  @Test(arguments: [
    ("street text, no integer", "no integer", ["DROP ATTRIBUTE street"]),
    ("street text, no integer", "street text", ["DROP ATTRIBUTE no"]),
    ("street text, no integer", "street text, number integer", ["RENAME ATTRIBUTE no TO number"]),
    ("street text, no integer", "street text, no integer, town text", ["ADD ATTRIBUTE town text"]),
    ("street text, no integer", "no integer, town text", ["DROP ATTRIBUTE street", "ADD ATTRIBUTE town text"]),
    ("street text, no integer", "no integer, street text", ["DROP ATTRIBUTE street", "ADD ATTRIBUTE street text"]),
    // At the end it was dropped and added: a column that has the type forbids all else.
    ("street text, no integer", "street text, no bigint", ["DROP ATTRIBUTE no", "ADD ATTRIBUTE no bigint"]),
    (
      "street text, no integer", "street character varying(9), no integer",
      ["ALTER ATTRIBUTE street TYPE character varying(9)"]
    ),
    ("a integer, b integer, c text", "x integer, c text", ["DROP ATTRIBUTE b", "RENAME ATTRIBUTE a TO x"]),
    ("a text, b integer, c text", "x integer, c text", ["DROP ATTRIBUTE a", "RENAME ATTRIBUTE b TO x"]),
    (
      "a numeric(10,2), \"b c\" text[]", "a numeric(10,2), \"say \"\"x\"\"\" text[]",
      ["RENAME ATTRIBUTE \"b c\" TO \"say \"\"x\"\"\""]
    ),
    ("a integer", "", ["DROP ATTRIBUTE a"]), ("", "a integer", ["ADD ATTRIBUTE a integer"]),
  ])
  func `attributes become what they are to be`(old: String, new: String, actions: [String]) {
    let wanted = actions.map { "ALTER TYPE \(Self.name) \($0)" }
    #expect(PostgresAlteration(table(old), table(new)).statements == wanted)
    #expect(PostgresAlteration(table(old, false), table(new, false)).statements == wanted)
    #expect(PostgresAlteration(table(new), table(new)).statements.isEmpty)
  }

  /// Attributes as an ALTER TYPE leaves them.
  private func run(_ statements: [String], on attributes: [PostgresUserType.Attribute]) -> [PostgresUserType.Attribute]
  {
    var attributes = attributes
    for statement in statements {
      let words = statement.split(separator: " ").map(String.init)
      let index = attributes.firstIndex { $0.name == words[5] }
      switch (words[3], index) {
      case ("DROP", let index?): attributes.remove(at: index)
      case ("RENAME", let index?):
        guard !attributes.contains(where: { $0.name == words[7] }) else { return [] }
        attributes[index].name = words[7]
      case ("ALTER", let index?): attributes[index].type = words[7]
      case ("ADD", nil): attributes.append(.init(name: words[5], type: words[6]))
      default: return []
      }
    }
    return attributes
  }

  @Test func `any attributes become any others`() {
    var random = Seeded(77)
    func some() -> [PostgresUserType.Attribute] {
      ["a", "b", "c", "d", "e"].shuffled(using: &random).prefix(Int.random(in: 1...5, using: &random)).map {
        .init(name: $0, type: ["int", "text"].randomElement(using: &random) ?? "int")
      }
    }
    for _ in 0..<2000 {
      let (old, new) = (some(), some())
      let statements = PostgresUserType(name: "x", kind: .composite(old)).statements(
        to: .init(name: "x", kind: .composite(new)))
      #expect(run(statements, on: old) == new, "\(old) \(new) \(statements)")
    }
  }

  private func domain(_ text: String) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "v", declaredType: "public.c", baseType: "integer")],
      createText:
        "DO $cairn$ BEGIN CREATE DOMAIN \(Self.name) AS \(text); EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; "
        + "END $cairn$;\nCREATE TABLE IF NOT EXISTS \"public\".\"t\" (\n  \"v\" public.c\n);")
  }

  @Test(arguments: [
    ("integer CONSTRAINT c_check CHECK ((VALUE >= 0))", "integer", ["DROP CONSTRAINT c_check"]),
    ("integer", "integer DEFAULT 9", ["SET DEFAULT 9"]),
    (
      "numeric(10,2) DEFAULT (1 + 2) NOT NULL", "numeric(10,2) CONSTRAINT k CHECK ((VALUE <> ALL (ARRAY[1, 2])))",
      ["DROP DEFAULT", "DROP NOT NULL", "ADD CONSTRAINT k CHECK ((VALUE <> ALL (ARRAY[1, 2])))"]
    ),
    (
      "text DEFAULT 'not null'::text CONSTRAINT k CHECK ((VALUE <> ''::text)) CONSTRAINT l CHECK ((length(VALUE) < 9))",
      "text DEFAULT 'not null'::text CONSTRAINT l CHECK ((length(VALUE) < 9)) CONSTRAINT k CHECK ((VALUE <> 'x'::text))",
      ["DROP CONSTRAINT k", "ADD CONSTRAINT k CHECK ((VALUE <> 'x'::text))"]
    ),
  ])
  func `a domain becomes what it is to be`(old: String, new: String, actions: [String]) {
    let made = PostgresAlteration(domain(old), domain(new))
    #expect(made.statements == actions.map { "ALTER DOMAIN \(Self.name) \($0)" })
    #expect(made.alteredTypes == [Self.name])
  }

  @Test func `a type that a person has changed is not made again`() {
    let (before, after) = (table("a integer"), table("b integer"))
    var there = PostgresAlteration.Target(
      namespace: "public", name: "t", columns: [.init(name: "v", type: "public.c", isNotNull: false)], constraints: [],
      indexes: [])
    there.types = PostgresUserType.all(of: after)
    let made = PostgresAlteration(before, after, target: there)
    #expect(made.statements.isEmpty)
    #expect(made.alteredTypes.isEmpty)
  }

  @Test func `attributes that repeat a name end in a bounded number of statements`() {
    let (old, new) = (table("p integer, q text, r bytea"), table("q integer, r text, q bytea"))
    #expect(PostgresAlteration(old, new).statements.count <= 6)
  }
}
