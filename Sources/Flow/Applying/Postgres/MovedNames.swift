import Changes
import Mapping
import PostgresKit

/// The names of the indexes and sequences of a target's table that is renamed or moved to another schema.
///
/// If two schemas swap their names, two tables move past each other. Their indexes may have equal names, and no schema
/// holds one name twice. The index that is in the way has a temporary name until its own table moves.
///
///     ALTER INDEX a.t_pkey RENAME TO cairn_moving_t_pkey     -- of table a.moving_1_cairn
///     ALTER TABLE b.t SET SCHEMA a
struct MovedNames {
  private struct Relation {
    @ByBytes var name: String
    /// INDEX or SEQUENCE.
    var kind: String
  }

  let changes: PostgresSchemaChanges
  let from: PostgresApplyState.Table
  let to: PostgresApplyState.Table

  /// Returns the table at the target with the statements that rename indexes and sequences around the move. Its indexes
  /// and constraints have the names that they get by these statements.
  func noted(in table: PostgresAlteration.Target) throws -> PostgresAlteration.Target {
    let isMoved = !from.schema.hasSameBytes(as: to.schema)
    guard isMoved || !from.name.hasSameBytes(as: to.name) else { return table }
    var there = table
    let own = try relations(of: [from.name], in: from.schema)
    let wanted = own.map { IndexNames.former($0.name) ?? $0.name }
    let others = Set(
      changes.tables.values.filter {
        $0.schema.hasSameBytes(as: to.schema)
          && !($0.schema.hasSameBytes(as: from.schema) && $0.name.hasSameBytes(as: from.name))
      }.map(\.name.nameKey))
    let taken = try changes.namesInUse(among: wanted, in: to.schema)
    let theirs = isMoved && !taken.isEmpty ? try relations(of: others.map(\.text), in: to.schema) : []
    var free: Set<NameKey> = []
    for relation in theirs where taken.contains(relation.name) {
      there.makesRoom.append(rename(relation, in: to.schema, to: IndexNames.aside(relation.name)))
      free.insert(relation.name)
    }
    for (relation, name) in zip(own, wanted) where !relation.name.hasSameBytes(as: name) {
      guard !taken.contains(name) || free.contains(name) else { continue }
      there.restoresNames.append(rename(relation, in: to.schema, to: name))
      for index in there.indexes.indices where there.indexes[index].name.hasSameBytes(as: relation.name) {
        there.indexes[index] = .init(name: name, text: IndexNames.statement(there.indexes[index].text, name))
      }
      for index in there.constraints.indices where there.constraints[index].name.hasSameBytes(as: relation.name) {
        there.constraints[index].name = name
      }
    }
    return there
  }

  private func rename(_ relation: Relation, in schema: String, to name: String) -> String {
    let place = "\(schema.postgresIdentifier).\(relation.name.postgresIdentifier)"
    return "ALTER \(relation.kind) \(place) RENAME TO \(name.postgresIdentifier)"
  }

  /// Returns the indexes and sequences of tables, which move with their tables.
  private func relations(of tables: [String], in schema: String) throws -> [Relation] {
    guard !tables.isEmpty else { return [] }
    let list = tables.map(\.postgresLiteral).joined(separator: ", ")
    return try changes.connection.query(
      """
      WITH tables AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname IN (\(list)) AND c.relkind IN ('r', 'p'))
      SELECT r.relname, 'INDEX' FROM tables AS t JOIN pg_index AS i ON i.indrelid = t.oid
        JOIN pg_class AS r ON r.oid = i.indexrelid
      UNION ALL
      SELECT r.relname, 'SEQUENCE' FROM tables AS t
        JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
          AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
        JOIN pg_class AS r ON r.oid = d.objid AND r.relkind = 'S'
      ORDER BY 1
      """, [schema]
    ).map { Relation(name: $0[0] ?? "", kind: $0[1] ?? "") }
  }
}
