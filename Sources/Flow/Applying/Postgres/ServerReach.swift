import Changes
import Mapping
import PostgresKit

/// Determines which objects of a PostgreSQL server the table definitions of a trail may use.
///
///     var reach = ServerReach(TargetScope(), connection)
///     let known = try reach.of([schema])
package struct ServerReach {
  private let scope: TargetScope
  private let connection: PostgresConnection
  private var lacking: Set<NameKey>?

  package init(_ scope: TargetScope, _ connection: PostgresConnection) {
    (self.scope, self.connection) = (scope, connection)
  }

  /// Returns the objects that the definitions of these tables may use.
  package mutating func of(_ schemas: [TableSchema]) throws -> TargetReach {
    let mayName = schemas.contains { schema in
      let texts = [schema.createText] + schema.columns.compactMap(\.defaultText)
      return schema.original != nil
        || texts.map({ $0.asciiLowercased }).contains { text in
          ["nextval", "sequence", "extension"].contains { text.contains($0) }
        }
    }
    let lacking = try self.lacking ?? lackingFunctions()
    self.lacking = lacking
    guard !scope.isOpen, mayName else { return TargetReach(scope, lackingFunctions: lacking) }
    let closed = try SequenceUpkeep.closed(to: scope, connection)
    let extensions = try connection.query("SELECT extname FROM pg_extension").compactMap { $0[0]?.nameKey }
    return TargetReach(scope, closedSequences: closed, lackingFunctions: lacking, extensions: Set(extensions))
  }

  /// Returns the functions that a trail's expressions may call but this server lacks, such as `uuidv7()`.
  private func lackingFunctions() throws -> Set<NameKey> {
    let names = TableSchema.functionsOfPostgres.sorted().map(\.text).joined(separator: ",")
    let rows = try connection.query(
      """
      SELECT known.name FROM unnest(string_to_array($1, ',')) AS known(name)
      WHERE NOT EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = known.name
        AND p.pronamespace = 'pg_catalog'::regnamespace)
      """, [names])
    return Set(rows.compactMap { $0[0]?.nameKey })
  }
}
