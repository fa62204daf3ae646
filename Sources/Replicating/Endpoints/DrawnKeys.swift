import Changes
import Conflicts
import PostgresKit
import SQLiteKit

/// The columns whose values a database generates, by rowid or sequence. Sequences can be changed so that no two nodes
/// generate the same value.
///
///     let keys = try DrawnKeys(try DatabaseURL("postgresql://db.example/shop"))
///     for key in try keys.all() where !key.isSeparated { print(key.fullName) }
package struct DrawnKeys {
  /// A selection of the columns with generated keys: all, or those whose sequence the table's owner may change (`own`)
  /// or may not change (`borrowed`).
  fileprivate enum Share: String { case all, own, borrowed }

  /// The limit of 5 s for waiting on another session's lock.
  private static let patience = "SET LOCAL lock_timeout = 5000"

  package let url: DatabaseURL
  private let handle: SourceDatabase.Handle

  package init(_ url: DatabaseURL) throws {
    self.url = url
    switch url {
    case .sqlite(let path): handle = .sqlite(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): handle = .postgres(try PostgresConnection(uri))
    }
  }

  package init(_ end: SourceDatabase) { (url, handle) = (end.url, end.handle) }

  /// Returns the columns whose values the database generates by rowid or sequence, in the tables that match the
  /// patterns.
  package func all(_ patterns: TablePatterns = TablePatterns()) throws -> [GeneratedKey] {
    switch handle {
    case .sqlite(let database):
      return try database.transaction("BEGIN") { try database.userTables() }
        .filter { $0.refusal == nil && patterns.includes($0.name) }.compactMap(\.generatedKey)
    case .postgres(let server):
      return try server.transaction("BEGIN READ ONLY") {
        try server.execute(Self.patience)
        return try server.generatedKeys().filter { patterns.includes($0.fullName) }
      }
    }
  }

  /// Returns the columns whose default uses a sequence that the table's owner may not change. Cairn never changes these
  /// sequences: the owner of a table could otherwise misuse this session's rights.
  package func borrowed(_ patterns: TablePatterns = TablePatterns()) throws -> [GeneratedKey] {
    guard case .postgres(let server) = handle else { return [] }
    return try server.generatedKeys(.borrowed).filter { patterns.includes($0.fullName) }
  }

  /// Changes this database's sequences, in a transaction of its own, so that they generate only values that no other
  /// node generates. Returns the SQL statements; an operator must run them in one transaction too.
  /// - Parameter isDry: Whether to return the statements without executing them.
  /// - Throws: `unsupported` for SQLite, whose rowids have no increment; `database-full` if a sequence has no number
  ///   left.
  @discardableResult package func separate(_ share: KeyShare, _ patterns: TablePatterns = TablePatterns(), isDry: Bool)
    throws -> [String]
  {
    let server = try server()
    return try server.transaction {
      try server.execute(Self.patience)
      return try server.generatedKeys(.own).filter { patterns.includes($0.fullName) }.map { key in
        guard case .sequence(let sequence) = key.source else { return "" }
        // ALTER SEQUENCE locks the sequence: from here on no other session draws a value.
        if !isDry { try server.execute("ALTER SEQUENCE \(sequence.name) INCREMENT BY \(sequence.increment)") }
        let extreme = try server.extreme(of: key, isLeast: share.isBelowZero)
        guard let own = share.separated(try server.state(of: sequence), extreme: extreme) else {
          throw CairnError(
            .databaseFull, "\(url.place): sequence \(sequence.name) of table \(key.fullName) has no numbers left",
            hint: "make the column bigint, and its sequence: ALTER SEQUENCE \(sequence.name) AS bigint")
        }
        let statement = """
          ALTER SEQUENCE \(sequence.name) INCREMENT BY \(own.increment) MINVALUE \(own.least) MAXVALUE \(own.greatest) \
          START WITH \(own.start) RESTART WITH \(own.start)
          """
        if !isDry { try server.execute(statement) }
        return statement
      }
    }
  }

  /// Advances each sequence beyond the keys that arrived from other nodes. Returns the changed sequences with their
  /// next value.
  package func catchUp(_ patterns: TablePatterns = TablePatterns()) throws -> [(key: GeneratedKey, next: Int64)] {
    guard case .postgres(let server) = handle else { return [] }
    return try server.transaction {
      try server.execute(Self.patience)
      return try server.generatedKeys(.own).filter { patterns.includes($0.fullName) }.compactMap { key in
        guard case .sequence(let sequence) = key.source,
          let extreme = try server.extreme(of: key, isLeast: sequence.increment < 0)
        else { return nil }
        // Move the sequence only if its next value is not beyond the keys in the table.
        let (upcoming, isOver) =
          sequence.last?.addingReportingOverflow(sequence.increment) ?? (sequence.start, false)
        let isBehind = sequence.increment > 0 ? upcoming <= extreme : upcoming >= extreme
        guard isBehind, !isOver, let next = sequence.next(behind: extreme) else { return nil }
        try server.query("SELECT setval($1::regclass, $2)", [sequence.name, String(next - sequence.increment)])
        return (key, next)
      }
    }
  }

  private func server() throws -> PostgresConnection {
    if case .postgres(let server) = handle { return server }
    throw CairnError(
      .unsupported,
      "\(url.place) is an SQLite file, which takes the greatest key in a table plus one: it cannot take a stride",
      hint: """
        if this is the only SQLite file, separate the PostgreSQL nodes with --below-zero; else let applications use \
        keys of their own, such as UUIDs, and write keys = "shared" into [database.NAME]
        """, remedy: .badInput)
  }
}

extension SQLiteTable {
  /// The column that is an alias of the rowid; nil if there is none.
  fileprivate var generatedKey: GeneratedKey? {
    guard let rowidColumn, schema.columns.indices.contains(rowidColumn) else { return nil }
    return GeneratedKey(
      table: name, column: schema.columns[rowidColumn].name,
      source: .rowid(isMonotonic: schema.flags.contains(.autoincrement)))
  }
}

extension PostgresConnection {
  /// Returns the columns of user tables that are part of a unique key and whose default uses a sequence. A sequence's
  /// last value is nil if this role may not read the value.
  fileprivate func generatedKeys(_ share: DrawnKeys.Share = .all) throws -> [GeneratedKey] {
    try query(
      """
      SELECT n.nspname, c.relname, a.attname, s.seqrelid::regclass::text, s.seqincrement, s.seqstart,
        CASE WHEN has_sequence_privilege(s.seqrelid, 'USAGE, SELECT') THEN pg_sequence_last_value(s.seqrelid) END,
        s.seqmin, s.seqmax
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN LATERAL (
        SELECT d.objid AS oid FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'i'
          AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
        UNION SELECT d.refobjid FROM pg_attrdef AS f JOIN pg_depend AS d
          ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
          WHERE f.adrelid = c.oid AND f.adnum = a.attnum) AS o ON true
      JOIN pg_sequence AS s ON s.seqrelid = o.oid
      WHERE \(PostgresTable.isUsers("c", "n")) AND EXISTS (SELECT 1 FROM pg_index AS i
        WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY (i.indkey))
        AND ($1 = 'all' OR has_sequence_privilege(c.relowner, s.seqrelid, 'UPDATE') = ($1 = 'own'))
      ORDER BY 1, 2, a.attnum
      """, [share.rawValue]
    ).map { row in
      func number(_ index: Int) -> Int64 { row[index].flatMap { Int64($0) } ?? 0 }
      let sequence = GeneratedKey.Sequence(
        name: row[3] ?? "", increment: number(4), start: number(5), last: row[6].flatMap { Int64($0) },
        least: number(7),
        greatest: number(8))
      return GeneratedKey(
        namespace: row[0] ?? "", table: row[1] ?? "", column: row[2] ?? "", source: .sequence(sequence))
    }
  }

  fileprivate func state(of sequence: GeneratedKey.Sequence) throws -> GeneratedKey.Sequence {
    var now = sequence
    now.last = try first("SELECT pg_sequence_last_value($1::regclass)", [sequence.name]).flatMap { Int64($0) }
    return now
  }

  /// Returns the greatest value of a column, or the least if `isLeast`; nil if there is no number.
  fileprivate func extreme(of key: GeneratedKey, isLeast: Bool) throws -> Int64? {
    try extreme(of: key.column, in: "\(key.namespace.quotedName).\(key.table.quotedName)", isLeast: isLeast)
  }
}
