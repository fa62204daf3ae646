import Applying
import Changes
import Mapping

// The trails that bring rows into a table.
extension TargetDatabase {
  /// Checks that the claims of this trail and other trails do not overlap.
  /// - Parameter given: A function that gets a target table and the trails that are applied to the table. It returns
  ///   the trails to check.
  /// - Throws: `name-collision` for the first table with claims that can overlap.
  package func checkFeeders(
    _ tables: [SourceDatabase.Table], of trail: TrailName, _ names: NamePolicy,
    given: (TableSchema, [TableClaim.Feeder]) -> [TableClaim.Feeder] = { $1 }
  ) throws {
    for table in tables where table.refusal == nil {
      let target = try TableMapping(table.schema, to: url.engine, names: names).target
      let feeders = given(target, try feeders(of: target, besides: trail))
      let error = TableClaim(table.schema).collision(
        of: trail, with: feeders, table: target.name, source: table.schema, at: url.place)
      if let error { throw error }
    }
  }

  private func feeders(of table: TableSchema, besides trail: TrailName) throws -> [TableClaim.Feeder] {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).feeders(of: table.name) } ?? []
    case .postgres(let connection):
      try PostgresApplyState(connection, of: trail).feeders(of: table.namespace, table.name)
    }
  }
}

extension SourceDatabase {
  /// Returns the trails, except `trail`, that are applied to a table of this database.
  func feeders(of table: TableSchema, besides trail: TrailName) throws -> [TableClaim.Feeder] {
    switch handle {
    case .sqlite(let database): try SQLiteApplyState(database, of: trail).feeders(of: table.name)
    case .postgres(let connection):
      try PostgresApplyState(connection, of: trail).feeders(of: table.namespace, table.name)
    }
  }
}
