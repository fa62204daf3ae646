import Changes
import Endpoints
import Mapping
import Transforming

/// The tables that are replicated in one direction of a two-way replication.
///
///     let forth = TwoWayRoute(source, tables, rules, .fold)
///     let pairs = try forth.tables(thatComeBackBy: back)
package struct TwoWayRoute {
  package let source: SourceDatabase
  package let tables: [SourceDatabase.Table]
  private let rules: [TableRule]
  private let names: NamePolicy

  package init(_ source: SourceDatabase, _ tables: [SourceDatabase.Table], _ rules: [TableRule], _ names: NamePolicy) {
    (self.source, self.rules, self.names) = (source, rules, names)
    self.tables = tables.filter { $0.refusal == nil }
  }

  /// Returns the tables that the opposite direction also replicates, each with its counterpart in the other database.
  package func tables(thatComeBackBy back: TwoWayRoute) throws -> [(
    here: SourceDatabase.Table, there: SourceDatabase.Table
  )] {
    let (forth, again) = (try targets(in: back.source.url.engine), try back.targets(in: source.url.engine))
    return zip(tables, forth).compactMap { table, name in
      let found = zip(back.tables, again).first {
        $0.schema.plainName.hasSameBytes(as: name) && $1.hasSameBytes(as: table.schema.plainName)
      }
      return found.map { (table, $0.0) }
    }
  }

  /// Returns the name of each table at the target: in lower case, and without the schema `public`.
  private func targets(in engine: Engine) throws -> [String] {
    try RuledTables(tables, rules, source, to: engine).tables.map {
      try TableMapping($0.schema, to: engine, names: names).target.plainName
    }
  }
}
