import Changes
import Mapping

/// The tables of a source, as the part of the trail that was read so far describes them.
///
///     var tables = SourceTables()
///     tables.begin()
///     tables["orders"]   // nil until the trail describes the table
package struct SourceTables {
  private var schemas: [NameKey: TableSchema] = [:]
  private var segment: UInt64 = 0
  private var lastSchema: UInt64 = 0

  package init() {}

  /// Adds the tables that the segment describes and that earlier calls have not added. If a rule changes a table
  /// (`isAsItIs` is false), the table is removed instead.
  /// - Parameter schema: A function that returns the table for a schema id of the segment; nil if there is none. The
  ///   ids count from 1 without gaps.
  package mutating func note(segment: UInt64, _ schema: (UInt64) -> (table: TableSchema, isAsItIs: Bool)?) {
    if segment != self.segment { (self.segment, lastSchema) = (segment, 0) }
    while let found = schema(lastSchema + 1) {
      lastSchema += 1
      schemas[found.table.name.asciiLowercased] = found.isAsItIs ? found.table : nil
    }
  }

  /// Forgets which tables of the segment were added, so that ``note(segment:_:)`` adds all of them again.
  package mutating func begin() { (segment, lastSchema) = (0, 0) }

  /// The table with this lower-case name; nil if there is none.
  package subscript(name: String) -> TableSchema? { schemas[name] }

  /// Returns the table at the source, with the PostgreSQL table that Cairn would create for it, as if it had
  /// `local_writes = "refuse"`. Nil if the trail has not described a table of this name.
  package func table(_ name: String) -> StatementTable? {
    guard let schema = schemas[name] else { return nil }
    guard let mapped = try? TableMapping(schema, to: .postgres).target else {
      return StatementTable(schema, isGuarded: true)
    }
    let full = "\(mapped.namespace.quotedName).\(mapped.name.quotedName)"
    return StatementTable(
      schema, isGuarded: true,
      postgres: .init(
        name: full, rowsName: "ONLY \(full)",
        columns: mapped.columns.map { (name: $0.name, type: PostgresType($0)) }))
  }
}
