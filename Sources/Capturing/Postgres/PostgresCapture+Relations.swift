import Changes
import PostgresKit
import SystemKit
import Trails

/// A table in the form in which the stream now sends it.
final class Captured {
  let relation: UInt32
  let epoch: UInt64
  let schema: TableSchema
  /// For each column, whether an old row that has only its key gives it.
  let isKey: [Bool]
  let isKeyed: Bool
  /// Whether its changes go into the trail. They do not if the table is not captured, or if its coming copy has their
  /// result.
  let isWanted: Bool
  /// The columns that an old row must give, because they are NOT NULL; nil for a table without partitions.
  let givenAlways: [Bool]?
  /// Whether each UPDATE must come with the old row.
  let isFull: Bool

  init(
    relation: UInt32, epoch: UInt64, schema: TableSchema, isKey: [Bool], isKeyed: Bool, isWanted: Bool, isFull: Bool
  ) {
    (self.relation, self.epoch, self.schema, self.isFull) = (relation, epoch, schema, isFull)
    (self.isKey, self.isKeyed, self.isWanted) = (isKey, isKeyed, isWanted)
    givenAlways =
      schema.flags.contains(.partitioned)
      ? schema.columns.indices.map { schema.columns[$0].isNotNull && (isFull || isKey[$0]) } : nil
  }
}

// The tables that the stream describes.
extension PostgresCapture {
  /// Returns the table that a relation message describes. A shape that the trail does not know is written to the trail
  /// first.
  func capture(_ relation: PgOutput.Relation) throws -> Captured {
    guard let known = try registry.tables[relation.id] ?? introduced(relation) else { return ignored(relation) }
    if !Self.describes(relation, known) {
      let table = try source.connection.catalog { try source.connection.table(relation.id) }
      var shape = try table.map(shape) ?? Self.shape(of: relation, source.connection)
      if !Self.describes(relation, shape) { shape = try Self.shape(of: relation, source.connection) }
      if let table, let refusal = table.refusal, !refusal.isHarmless { throw refused(table, refusal) }
      look.told()
      look.isWanted = true
      try update(known, to: shape, [], .found)
    }
    guard let table = registry.tables[relation.id] else { return ignored(relation) }
    let key = Set(table.schema.key)
    return Captured(
      relation: relation.id, epoch: table.epoch, schema: table.schema,
      isKey: table.schema.columns.indices.map { key.isEmpty || key.contains($0) }, isKeyed: table.isKeyed,
      isWanted: table.refresh == nil || table.passesChanges || position.refresh?.relation == relation.id,
      isFull: relation.identity == UInt8(ascii: "f"))
  }

  /// Introduces an apply's table that no event trigger has reported, because the role is no superuser. Returns nil for
  /// any other table.
  private func introduced(_ relation: PgOutput.Relation) throws -> PostgresRegistry.Table? {
    let table = try source.connection.catalog { try source.connection.table(relation.id) }
    guard let table, options.tables.includes(table), table.refusal == nil,
      try source.isPublishedByApply(relation.id)
    else { return nil }
    try introduce(table, nil)
    return registry.tables[relation.id]
  }

  private func ignored(_ relation: PgOutput.Relation) -> Captured {
    Captured(
      relation: relation.id, epoch: 0, schema: TableSchema(epoch: 0, engine: .postgres, name: "", columns: []),
      isKey: [], isKeyed: false, isWanted: false, isFull: false)
  }

  /// Returns whether a relation message describes the known shape.
  private static func describes(_ relation: PgOutput.Relation, _ table: PostgresRegistry.Table) -> Bool {
    let schema = table.schema
    guard relation.namespace.hasSameBytes(as: schema.namespace),
      relation.name.hasSameBytes(as: schema.name), relation.columns.count == schema.columns.count
    else { return false }
    for (index, column) in relation.columns.enumerated() {
      guard column.name.hasSameBytes(as: schema.columns[index].name), column.type == table.types[index].oid,
        column.modifier == table.types[index].modifier
      else { return false }
    }
    // With FULL, every column is marked as part of the key.
    if relation.identity == UInt8(ascii: "f") { return true }
    let marked = relation.columns.indices.filter { relation.columns[$0].isKey }
    return Set(marked) == Set(schema.key)
  }

  /// Returns the shape that a relation message alone gives. The catalog has changed since then.
  private static func shape(
    of relation: PgOutput.Relation, _ connection: PostgresConnection
  ) throws -> PostgresRegistry.Table {
    var schema = TableSchema(
      epoch: 0, engine: .postgres, namespace: relation.namespace, name: relation.name, columns: [])
    var ordinal = 0
    for column in relation.columns {
      let type = try connection.first(
        "SELECT format_type($1::oid, $2::int)", [String(column.type), String(column.modifier)])
      let isKey = column.isKey && relation.identity != UInt8(ascii: "f")
      if isKey { ordinal += 1 }
      schema.columns.append(
        .init(name: column.name, declaredType: type ?? "text", isNotNull: isKey, keyOrdinal: isKey ? ordinal : 0))
    }
    if ordinal == 0 { schema.flags.insert(.wholeRow) }
    let lines = schema.columns.map { "\($0.name.quotedName) \($0.declaredType)" }
    let key = schema.key.map { schema.columns[$0].name.quotedName }.joined(separator: ", ")
    let parts = lines + (key.isEmpty ? [] : ["PRIMARY KEY (\(key))"])
    schema.createText = "CREATE TABLE IF NOT EXISTS \(schema.qualifiedName) (\(parts.joined(separator: ", ")));"
    return PostgresRegistry.Table(
      relation: relation.id, epoch: 0, schema: schema,
      types: relation.columns.map { .init(oid: $0.type, modifier: $0.modifier) })
  }
}
