import Changes
import PostgresKit
import SystemKit
import Trails

/// The error for a requested key that the server cannot convert to the type of its column.
struct UnfitKey: Error {
  let key: [String]
  let cause: PostgresError
}

extension PostgresCopier {
  private static let askedMillisecondsMax: Int64 = 200

  /// Appends a chunk record for each requested key, and the row if it exists. Stops after 200 ms, and returns the
  /// number of keys that were done.
  func append(
    _ keys: [[String]], of chunk: inout PostgresChunk, schemaID id: UInt64, to trail: TrailWriter,
    paused: () throws -> Void
  ) throws -> Int {
    let begun = Clock.monotonicMilliseconds
    let schema = chunk.table.schema
    let key = schema.key.map { schema.columns[$0] }
    let signs = try key.map(equality)
    try connection.checkCasts(of: schema.qualifiedName)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let terms = key.indices.map {
      "\(key[$0].name.quotedName) \(signs[$0]) \(PostgresConnection.bound("asked", $0))::\(key[$0].undomainedType)"
    }
    var count = 0
    for (index, values) in keys.enumerated() {
      if index > 0, Clock.monotonicMilliseconds - begun > Self.askedMillisecondsMax { break }
      try Self.append(Refresh(schemaID: id, event: .chunk(.row(image(values, schema)))), trail)
      do {
        try connection.bind(values, as: "asked")
        chunk.rows += try copyRows(
          "COPY (SELECT \(columns) FROM \(chunk.table.sqlName) WHERE \(terms.joined(separator: " AND "))) TO STDOUT",
          of: chunk.table, id, trail, paused)
      } catch let error as PostgresError where ["22", "23"].contains(error.sqlState.prefix(2)) {
        throw UnfitKey(key: values, cause: error)
      }
      count += 1
    }
    if chunk.rows < count { try appendWaiting(schema, id, after: nil, through: nil, to: trail) }
    return count
  }

  /// Appends the waiting rows of a table that belong to a chunk.
  ///
  /// - Parameter after: The value of the first key column after which the chunk begins; nil for the start of the table.
  /// - Parameter through: The value of the first key column with which the chunk ends; nil for the end of the table.
  func appendWaiting(
    _ schema: TableSchema, _ id: UInt64, after: String?, through: String?, to trail: TrailWriter
  ) throws {
    guard let first = schema.key.first else { return }
    let records = WaitingRecords(schema, id)
    func bound(_ text: String?) -> Value? { text.map { records.ordered(.text(Array($0.utf8)), schema.columns[first]) } }
    try records.append(within: .init(from: bound(after), through: bound(through)), from: connection, to: trail)
  }

  /// Returns the equality operator for values of a key column, with the operator's schema.
  private func equality(_ column: TableSchema.Column) throws -> String {
    let found = try connection.first(
      """
      WITH RECURSIVE base(id, type) AS (SELECT $1::regtype::oid, $1::regtype::oid
        UNION ALL SELECT base.id, t.typbasetype FROM base JOIN pg_type AS t ON t.oid = base.type WHERE t.typtype = 'd')
      SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname) FROM base
      JOIN pg_opclass AS c ON c.opcintype = base.type AND c.opcdefault
      JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
      JOIN pg_amop AS a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 3
        AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
      JOIN pg_operator AS o ON o.oid = a.amopopr JOIN pg_namespace AS n ON n.oid = o.oprnamespace LIMIT 1
      """, [column.declaredType])
    return found ?? "="
  }
}
