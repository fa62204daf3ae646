import Applying
import Changes
import Mapping

// The trails that bring rows into a table.
extension TargetEnd {
  /// Checks that the rows of a trail do not mix with rows of another trail in one table of the target.
  ///
  /// - Parameter given: Receives a target table and the trails that the target records for it. Returns the trails to
  ///   check against, so the caller can add or exclude some.
  /// - Throws: `name-collision` for the first table with such rows.
  package func checkFeeders(
    _ tables: [SourceEnd.Table], of trail: TrailName, _ names: NamePolicy,
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
    case .sqlite(let database): try database.map { try TargetState($0, of: trail).feeders(of: table.name) } ?? []
    case .postgres(let connection):
      try PostgresTargetState(connection, of: trail).feeders(of: table.namespace, table.name)
    }
  }
}

extension SourceEnd {
  /// Returns the trails that are applied to a table of this database. The query needs no right to write.
  func feeders(of table: TableSchema, besides trail: TrailName) throws -> [TableClaim.Feeder] {
    switch handle {
    case .sqlite(let database): try TargetState(database, of: trail).feeders(of: table.name)
    case .postgres(let connection):
      try PostgresTargetState(connection, of: trail).feeders(of: table.namespace, table.name)
    }
  }
}
