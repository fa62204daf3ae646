import Changes

@testable import Capturing
@testable import PostgresKit

/// Tables for tests of decisions: no server has them.
enum Shapes {
  static func table(
    _ relation: UInt32, _ name: String, columns: [String] = ["id", "v"], isKeyed: Bool = true, epoch: UInt64 = 0,
    refresh: Refresh.Reason? = nil
  ) -> PostgresRegistry.Table {
    var schema = TableSchema(
      epoch: epoch, engine: .postgres, namespace: "public", name: name,
      columns: columns.enumerated().map { index, column in
        .init(
          name: column, declaredType: "integer", isNotNull: index == 0, keyOrdinal: isKeyed && index == 0 ? 1 : 0)
      })
    if !isKeyed { schema.flags.insert(.wholeRow) }
    return PostgresRegistry.Table(
      relation: relation, epoch: epoch, schema: schema, types: columns.map { _ in .init(oid: 23, modifier: -1) },
      numbers: Array(1...columns.count), refresh: refresh)
  }

  static func relation(_ table: PostgresRegistry.Table, identity: Character = "d") -> PgOutput.Relation {
    PgOutput.Relation(
      id: table.relation, namespace: table.schema.namespace, name: table.schema.name,
      identity: identity.asciiValue ?? 0,
      columns: table.schema.columns.enumerated().map { index, column in
        .init(
          isKey: identity == "f" || table.schema.key.contains(index), name: column.name, type: table.types[index].oid,
          modifier: table.types[index].modifier)
      })
  }

  /// Tables that the trail knows.
  static func known(_ tables: [PostgresRegistry.Table]) -> KnownTables {
    var known = KnownTables(PostgresRegistry())
    for table in tables { known.set(table) }
    known.settle()
    known.noteSaved()
    return known
  }
}
