import Changes
import Mapping
import PostgresKit

// Records of one table: copied rows whose unique values other rows have, and records for which the table is suspended.
extension PostgresReplay {
  /// Writes a row that a refresh brought. If another row has the same unique value, one of the two becomes a waiting
  /// row.
  ///
  /// - Parameter isInPlace: Whether the row replaces the target's row with its key.
  func takeCopied(_ table: PostgresApplyTable, isInPlace: Bool) throws {
    do { try isInPlace ? insertInPlace(table) : insert(table, isLenient: true) } catch let error as CairnError
      where error.code == .rowExists
    {
      // Only a careful replay shows which of many rows it was.
      guard isCareful else { throw error }
      try resolver?.takeCopied(form(of: table).row(after.strings), of: table, isInPlace: isInPlace)
    }
  }

  /// Sends the refresh rows that were collected before the present record, then runs `body`, which applies this record.
  ///
  /// - Parameter id: The id of the schema of the record's table.
  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws {
    try statements?.checkIdle()
    try endChunk()
    try onTable(id, body)
  }

  /// Runs a body that applies a record of a table. Throws ``SchemaStop`` if the table must be suspended at this record.
  func onTable(_ id: UInt64, _ body: () throws -> Void) throws {
    if refusals[reader.position] != nil || overtaken[reader.position] != nil {
      try endChunk()
      try leaveRefused(try schema(id))
    }
    do { try body() } catch let error as CairnError where error.suspendsTable {
      let schema = try schema(id)
      let names = [schema.fullName, TableMapping.targetName(of: schema, in: .postgres, names: options.names)]
      guard let table = error.context["table"], names.contains(table), let key = scope.key(schema.sourceKey) else {
        throw error
      }
      throw SchemaStop(key: key, position: reader.position, error: error)
    } catch {
      // Only a careful replay gets the answer to each statement at once.
      let refused = error as? PostgresError ?? (isCareful ? (error as? PostgresSink.Fault)?.error : nil)
      guard let refused, refused.isPrivilege else { throw error }
      let schema = try schema(id)
      guard let key = scope.key(schema.sourceKey) else { throw error }
      let name = TableMapping.targetName(of: schema, in: .postgres, names: options.names)
      throw SchemaStop(key: key, position: reader.position, error: refused.unentitled(schema, at: name))
    }
  }
}

extension PostgresError {
  /// Returns the error for a table that the role of apply may not read or write.
  func unentitled(_ source: TableSchema, at name: String) -> CairnError {
    TableRights.unentitled(message, source.fullName, at: name, place)
  }
}
