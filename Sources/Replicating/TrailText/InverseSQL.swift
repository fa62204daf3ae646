import Changes
import SQLiteKit

/// Converts the changes of a trail to SQL statements that undo them, without I/O. A change that cannot be undone for
/// certain becomes a comment.
///
///     var sql = InverseSQL(.sqlite)
///     let undo = try sql.undo(record, at: position, schema: schemas) { table in newest[table] }
package struct InverseSQL {
  /// The undo of one record.
  package enum Undo: Sendable {
    case statements([String])
    /// A comment that says why the record cannot be undone.
    case comment(String)
  }

  private let dialect: TrailSQL.Dialect
  /// The table of each schema id. An id is valid only within its segment.
  private var tables: [UInt64: TableSQL] = [:]
  private var segment: UInt64 = 0

  package init(_ dialect: TrailSQL.Dialect) { self.dialect = dialect }

  /// Returns the line with which the undo of a transaction begins.
  package func begin(_ header: TransactionHeader, at position: Position) -> String {
    "undo of transaction \(header.number) at \(position), \(UTCTime(header.commitTime))".sqlComment + "\nBEGIN;"
  }

  /// The lines to print before all transactions.
  package var prologue: [String] { TrailSQL(dialect).prologue }

  /// Returns what undoes one record; nil if there is nothing to undo. The undo of a later record comes before it.
  ///
  /// - Parameter schema: A function that returns the schema for an id in the record's segment.
  /// - Parameter newest: A function that returns the newest schema of a table in the trail.
  package mutating func undo(
    _ record: Record, at position: Position, schema: (UInt64) -> TableSchema?,
    newest: (TableSchema) throws -> TableSchema?
  ) throws -> Undo? {
    if position.segment != segment {
      segment = position.segment
      tables.removeAll()
    }
    func name(_ id: UInt64) -> String { schema(id)?.fullName ?? "schema \(id)" }
    switch record {
    case .change(let change):
      guard let given = schema(change.schemaID) else {
        return refused("schema \(change.schemaID) is not in the segment", position)
      }
      guard try given.hasShape(of: newest(given)) else {
        return refused("the columns of table \(given.fullName) have changed since", position)
      }
      let table = try tables[change.schemaID] ?? TableSQL(schema: given, dialect: dialect)
      tables[change.schemaID] = table
      do {
        let lines = try undo(
          change.operation, table, before: try change.before?.values(), after: try change.after?.values()
        ).printable()
        return lines.isEmpty ? nil : .statements(lines)
      } catch let error as Unrepresentable {
        return refused("table \(given.fullName), \(error.reason)", position)
      }
    case .refresh(let refresh):
      guard case .start = refresh.event else { return nil }
      return refused("a copy of table \(name(refresh.schemaID))", position)
    case .ddl(let ddl):
      return refused("a schema change of table \(name(ddl.after > 0 ? ddl.after : ddl.before))", position)
    default: return nil
    }
  }

  /// Returns the comment for a change that is older than a schema change or a copy of its table.
  package func barred(_ tables: [TableSchema], at position: Position) -> Undo {
    let names = tables.map(\.fullName).joined(separator: ", ")
    return refused("a later schema change or copy of table \(names) is not undone", position)
  }

  private func undo(
    _ operation: Changes.Operation, _ table: TableSQL, before: [Value?]?, after: [Value?]?
  ) throws -> [String] {
    let columns = table.schema.columns
    for row in [before, after].compactMap(\.self) where row.count != columns.count {
      throw Unrepresentable(reason: "a row has \(row.count.counted("column")), not \(columns.count)")
    }
    switch operation {
    case .truncate: throw Unrepresentable(reason: "a truncation: the trail does not give the rows")
    case .insert: return [try table.delete(try Self.whole(after, columns))]
    case .delete: return [try table.insert(try Self.whole(before, columns), isTolerant: false)]
    case .update:
      let after = after ?? []
      let before = before ?? Array(repeating: nil, count: after.count)
      if let column = after.indices.first(where: { after[$0] != nil && before[$0] == nil }) {
        throw Unrepresentable(reason: "column \(columns[column].name): the trail does not give the value before")
      }
      let now = zip(before, after).map { $1 ?? $0 }
      let isWhole = table.schema.key.isEmpty || table.schema.key.contains { now[$0] == .null }
      if isWhole { _ = try Self.whole(now, columns) }
      let old = zip(before, after).map { old, new in new == nil || old == new ? nil : old }
      return try table.update(now, old, isTolerant: false)
    }
  }

  /// Returns a row if all its values are given.
  private static func whole(_ row: [Value?]?, _ columns: [TableSchema.Column]) throws -> [Value?] {
    guard let row else { throw Unrepresentable(reason: "the trail does not give the row") }
    if let column = row.firstIndex(of: nil) {
      throw Unrepresentable(reason: "column \(columns[column].name): the trail does not give the value")
    }
    return row
  }

  private func refused(_ reason: String, _ position: Position) -> Undo {
    .comment("cannot be undone: \(position), \(reason)".sqlComment)
  }
}
