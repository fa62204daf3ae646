import Changes
import Mapping

/// The tables of a source, as the trail describes them so far.
///
///     var tables = SourceTables()
///     tables.begin()
///     tables["orders"]   // nil until the trail describes the table
package struct SourceTables {
  private var schemas: [NameKey: TableSchema] = [:]
  private var segment: UInt64 = 0
  private var lastSchema: UInt64 = 0

  package init() {}

  /// Adds the tables of a segment that were not added before. A table is removed if a rule changes it (`isAsItIs` is
  /// false).
  /// - Parameter schema: Returns the table with an id. The ids count from 1 without gaps.
  package mutating func note(segment: UInt64, _ schema: (UInt64) -> (table: TableSchema, isAsItIs: Bool)?) {
    if segment != self.segment { (self.segment, lastSchema) = (segment, 0) }
    while let found = schema(lastSchema + 1) {
      lastSchema += 1
      schemas[found.table.name.asciiLowercased] = found.isAsItIs ? found.table : nil
    }
  }

  /// Makes ``note(segment:_:)`` start again with the first table of a segment.
  package mutating func begin() { (segment, lastSchema) = (0, 0) }

  /// The table with this lower-case name; nil if there is none.
  package subscript(name: String) -> TableSchema? { schemas[name] }

  /// Returns the table at the source, and as Cairn would create it in PostgreSQL; nil if there is no such table.
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
