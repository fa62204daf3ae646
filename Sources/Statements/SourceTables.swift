import Changes
import Mapping

/// The tables of a source as its trail has told of them, followed along the trail.
package struct SourceTables {
  private var schemas: [NameKey: TableSchema] = [:]
  private var segment: UInt64 = 0
  private var lastSchema: UInt64 = 0

  package init() {}

  /// Looks at the schemas of a segment that have come since: they count from 1, without gaps. A table that is not as it is
  /// at the source is not known any more.
  package mutating func note(segment: UInt64, _ schema: (UInt64) -> (table: TableSchema, isAsItIs: Bool)?) {
    if segment != self.segment { (self.segment, lastSchema) = (segment, 0) }
    while let found = schema(lastSchema + 1) {
      lastSchema += 1
      schemas[found.table.name.asciiLowercased] = found.isAsItIs ? found.table : nil
    }
  }

  /// A replay begins anew: the schemas of its segment are looked at again.
  package mutating func begin() { (segment, lastSchema) = (0, 0) }

  /// By a name in lower case.
  package subscript(name: String) -> TableSchema? { schemas[name] }

  /// The table as Cairn would create it in the other engine.
  package func table(_ name: String) -> StatementTable? {
    guard let schema = schemas[name] else { return nil }
    guard let mapped = try? TableMapping(schema, to: .postgres).target else { return StatementTable(schema) }
    let full = "\(mapped.namespace.quotedName).\(mapped.name.quotedName)"
    return StatementTable(
      schema,
      postgres: .init(
        name: full, rowsName: "ONLY \(full)",
        columns: mapped.columns.map { (name: $0.name, type: PostgresType($0)) }))
  }
}
