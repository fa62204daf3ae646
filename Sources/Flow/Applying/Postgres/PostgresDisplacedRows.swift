import Changes
import Conflicts
import PostgresKit
import SystemKit

/// The waiting rows of a PostgreSQL target. No other query may be in progress on the connection.
struct PostgresDisplacedRows: DisplacedRowStore {
  let connection: PostgresConnection
  private let attempt: (() throws -> Void) throws -> Void
  private let isTrusted: (PostgresTargetTable) throws -> Bool
  private let tables = Tables()

  init(
    _ connection: PostgresConnection, attempt: @escaping (() throws -> Void) throws -> Void = { try $0() },
    isTrusted: @escaping (PostgresTargetTable) throws -> Bool = { _ in true }
  ) {
    (self.connection, self.attempt, self.isTrusted) = (connection, attempt, isTrusted)
  }

  func install() throws {
    try connection.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn.candidate(schema_name text, table_name text, key text, content text, clock bigint,
        origin text, number bigint, earlier text, since bigint, PRIMARY KEY (schema_name, table_name, key))
      """)
    if try !hasSince() { try connection.execute("ALTER TABLE cairn.candidate ADD COLUMN IF NOT EXISTS since bigint") }
    try shortenEarlier()
  }

  /// Returns whether `cairn.candidate` has the column `since`, which old versions of Cairn did not create.
  private func hasSince() throws -> Bool {
    try connection.first(
      "SELECT 1 FROM pg_attribute WHERE attrelid = 'cairn.candidate'::regclass AND attname = 'since'") != nil
  }

  /// Replaces the keys in `earlier`, which old versions of Cairn stored whole, by their marks.
  private func shortenEarlier() throws {
    let whole = "SELECT schema_name, table_name, key, earlier FROM cairn.candidate WHERE left(earlier, 1) = '{'"
    let order = "ORDER BY schema_name, table_name, key LIMIT 1"
    var row = try connection.query("\(whole) \(order)").first
    while let found = row {
      let place = Array(found[0..<3])
      try connection.run(
        "UPDATE cairn.candidate SET earlier = $4 WHERE schema_name = $1 AND table_name = $2 AND key = $3",
        place + [DisplacedRow.shortened(earlier: found[3] ?? "")])
      row = try connection.query("\(whole) AND (schema_name, table_name, key) > ($1, $2, $3) \(order)", place).first
    }
  }

  /// Returns whether any table of the database has a unique index besides its primary key. Otherwise there cannot be
  /// waiting rows.
  func mayCome() throws -> Bool {
    try connection.first(
      """
      SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE i.indisunique AND NOT i.indisprimary AND n.nspname NOT IN ('cairn', 'cairn_ddl', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
      LIMIT 1
      """) != nil
  }

  func byteCounts() throws -> [String: Int64] {
    let rows = try connection.query(
      """
      SELECT origin, sum(octet_length(schema_name) + octet_length(table_name) + octet_length(key)
        + octet_length(content) + octet_length(origin) + coalesce(octet_length(earlier), 0))
      FROM cairn.candidate GROUP BY origin
      """)
    return Dictionary(rows.map { ($0[0] ?? "", $0[1].flatMap { Int64($0) } ?? 0) }, uniquingKeysWith: +)
  }

  func counts() throws -> [NameKey: Int] {
    let rows = try connection.query(
      "SELECT schema_name, table_name, count(*) FROM cairn.candidate GROUP BY schema_name, table_name")
    return Dictionary(
      rows.map { ("\($0[0] ?? "").\($0[1] ?? "")".nameKey, $0[2].flatMap { Int($0) } ?? 0) }, uniquingKeysWith: +)
  }

  func since(_ row: ContestedRow) throws -> Int64? {
    guard try hasSince() else { return nil }
    return try connection.first(
      "SELECT since FROM cairn.candidate WHERE schema_name = $1 AND table_name = $2 AND key = $3",
      [row.namespace, row.table, row.key.json]
    ).flatMap { Int64($0) }
  }

  func next(after place: [String?]?) throws -> (place: [String?], row: DisplacedRow?)? {
    let condition = place == nil ? "" : " WHERE (schema_name, table_name, key) > ($1, $2, $3)"
    return try connection.query(
      "SELECT \(DisplacedRow.columns) FROM cairn.candidate\(condition) ORDER BY schema_name, table_name, key LIMIT 1",
      place ?? []
    ).first.map { (Array($0[0...2]), DisplacedRow($0.map { $0 ?? "" })) }
  }

  func find(_ namespace: String, _ table: String, _ key: ConflictRow) throws -> DisplacedRow? {
    try candidates(" WHERE schema_name = $1 AND table_name = $2 AND key = $3", [namespace, table, key.json]).first
  }

  private func candidates(_ condition: String, _ values: [String?]) throws -> [DisplacedRow] {
    try connection.query("SELECT \(DisplacedRow.columns) FROM cairn.candidate\(condition)", values)
      .compactMap { DisplacedRow($0.map { $0 ?? "" }) }
  }

  func add(_ candidate: DisplacedRow) throws {
    try connection.run(
      """
      INSERT INTO cairn.candidate(\(DisplacedRow.columns), since) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
      ON CONFLICT (schema_name, table_name, key) DO UPDATE SET \(DisplacedRow.renewal)
      """, candidate.texts + [String(Clock.system.microseconds())])
  }

  func remove(_ row: ContestedRow) throws {
    try connection.run(
      "DELETE FROM cairn.candidate WHERE schema_name = $1 AND table_name = $2 AND key = $3",
      [row.namespace, row.table, row.key.json])
  }

  // MARK: Tables

  func hasTable(of row: ContestedRow) throws -> Bool { try table(of: row) != nil }

  func mayWrite(_ row: ContestedRow) throws -> Bool { try table(of: row).map(isTrusted) ?? true }

  func isThere(_ row: ContestedRow) throws -> Bool {
    guard let table = try table(of: row) else { return false }
    return try connection.first(
      "SELECT 1 FROM \(table.rowsName) WHERE \(keyed(row, table, from: 1))", Self.values(row.key)) != nil
  }

  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool {
    guard let table = try table(of: row) else { return false }
    for other in others {
      // If a session has changed the row meanwhile, its change comes first.
      let there = try rows(
        of: table, like: other, "\(keyed(other, table, from: 1)) FOR UPDATE", Self.values(other.key))
      guard there.first?.row == other.row else { throw LocalAhead() }
    }
    let given = row.row.columns.filter { column in table.column(column.name).map { !$0.isGenerated } ?? false }
    let names = given.map(\.name.quotedName).joined(separator: ",")
    let marks = given.indices.map { "$\($0 + 1)" }.joined(separator: ",")
    do {
      try attempt {
        for other in others {
          try connection.run(
            "DELETE FROM \(table.rowsName) WHERE \(keyed(other, table, from: 1))", Self.values(other.key))
        }
        try connection.run(
          "INSERT INTO \(table.qualifiedName)(\(names)) OVERRIDING SYSTEM VALUE VALUES (\(marks))",
          given.map(\.value.postgresInput))
      }
      return true
    } catch let error as PostgresError where error.isConstraint { return false }
  }

  func table(of row: ContestedRow) throws -> PostgresTargetTable? {
    let name = "\(row.namespace.quotedName).\(row.table.quotedName)"
    if let known = tables.known[name] { return known }
    let table = try PostgresTargetTable.read(row.namespace, row.table, connection)
    tables.known[name] = .some(table)
    return table
  }

  private final class Tables { var known: [NameKey: PostgresTargetTable?] = [:] }

  func rows(
    of table: PostgresTargetTable, like row: ContestedRow, given: String = "", _ condition: String, _ values: [String?]
  ) throws -> [ContestedRow] {
    let columns = table.columns.filter { !$0.isGenerated }
    let texts = columns.map { "\($0.name.quotedName)::text" }.joined(separator: ",")
    return try connection.query("\(given) SELECT \(texts) FROM \(table.rowsName) WHERE \(condition)", values).map {
      texts in
      let values = zip(columns, texts).map { column, text in
        text.map { PostgresForm.value(Array($0.utf8), column.type) } ?? .null
      }
      let found = ConflictRow(columns.map(\.name), values)
      let key = ConflictRow(row.key.columns.map { .init($0.name, found[$0.name] ?? .null) })
      return ContestedRow(namespace: row.namespace, table: row.table, key: key, row: found)
    }
  }

  static func values(_ row: ConflictRow) -> [String?] { row.columns.map(\.value.postgresInput) }

  func keyed(_ row: ContestedRow, _ table: PostgresTargetTable, from first: Int) -> String {
    row.key.columns.enumerated().map { Self.term($1.name, table, first + $0) }.joined(separator: " AND ")
  }

  private static func term(_ name: String, _ table: PostgresTargetTable, _ place: Int) -> String {
    let column = table.column(name)
    return "\(name.quotedName) \(column?.equality ?? "=") $\(place)" + (column.map { "::\($0.castType)" } ?? "")
  }
}
