import Changes
import PostgresKit

/// The statements of an undo in a PostgreSQL database.
final class PostgresUndo: UndoDatabase {
  private static let patience = "SET LOCAL lock_timeout = 5000"

  private let connection: PostgresConnection
  /// The types of the columns of each table, for casts of parameters.
  private var types: [NameKey: [String]] = [:]
  /// The name of each table in statements about rows.
  private var rowsNames: [NameKey: String] = [:]
  private var references: [NameKey: [UndoReference]] = [:]

  init(_ connection: PostgresConnection) { self.connection = connection }

  var place: String { connection.place }
  var rowLock: String { " FOR UPDATE" }
  var orAbort: String { "" }
  var overriding: String { " OVERRIDING SYSTEM VALUE" }

  /// Locks the table, and checks that no untrusted role can change the code that a write runs: it runs with the rights
  /// of this session.
  func hold(_ schema: TableSchema) throws {
    let table = name(of: schema)
    try connection.execute(Self.patience)
    try connection.execute("LOCK TABLE \(table) IN ROW EXCLUSIVE MODE")
    try OwnersCode.checkClosed(table, schema.fullName, connection)
    // The application's own triggers may read views. A rollback ends the permission.
    try connection.allowViews()
    // Policies apply as they do to an application; their code has just been looked at.
    try connection.execute("SET LOCAL row_security = on")
    let rows = try connection.query(
      """
      SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
      WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
      """, [table])
    let types = Dictionary(rows.map { (NameKey($0[0] ?? ""), $0[1] ?? "") }) { $1 }
    self.types[table.nameKey] = schema.columns.map { types[NameKey($0.name)] ?? "text" }
    rowsNames[table.nameKey] = try RowsName(table, connection).text
  }

  func rowsName(of schema: TableSchema) -> String {
    let name = name(of: schema)
    return rowsNames[name.nameKey] ?? name
  }

  func name(of schema: TableSchema) -> String { schema.postgresName }

  /// The foreign keys whose actions change other rows, also those of partitions and to partitions.
  func references(to parent: TableSchema) throws -> [UndoReference] {
    let table = name(of: parent)
    if let known = references[table.nameKey] { return known }
    let rows = try connection.query(Self.referencesText, [table])
    var found: [UndoReference] = []
    for group in Dictionary(grouping: rows, by: { $0[0] ?? "" }).sorted(by: { $0.key < $1.key }).map(\.value) {
      let texts = group[0].map { $0 ?? "" }
      found.append(
        UndoReference(
          child: texts[1].hasSameBytes(as: "public") ? texts[2] : "\(texts[1]).\(texts[2])",
          table: (texts[7] == "p" ? "" : "ONLY ") + "\(texts[1].quotedName).\(texts[2].quotedName)",
          conditions: group.map { $0[3] ?? "" },
          references: group.compactMap { row in
            parent.columns.firstIndex { $0.name.hasSameBytes(as: row[4] ?? "") }
          }, onDelete: texts[5], onUpdate: texts[6]))
    }
    references[table.nameKey] = found
    return found
  }

  private static let referencesText = """
    WITH RECURSIVE tree(oid) AS (
      SELECT to_regclass($1)::oid
      UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
    SELECT c.oid, n.nspname, t.relname,
      -- The operator and the collation by which the server's own actions find the rows.
      format('(parent.%I%s)%s OPERATOR(%I.%s) (child.%I)%s', p.attname,
        (SELECT format(' COLLATE %I.%I', m.nspname, l.collname) FROM pg_collation AS l
          JOIN pg_namespace AS m ON m.oid = l.collnamespace WHERE l.oid = p.attcollation),
        CASE WHEN lt.typtype <> 'p' THEN '::' || format_type(lt.oid, -1) END, s.nspname, o.oprname, a.attname,
        CASE WHEN rt.typtype <> 'p' THEN '::' || format_type(rt.oid, -1) END),
      p.attname,
      CASE c.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE '' END,
      CASE c.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE '' END, t.relkind
    FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid JOIN pg_namespace AS n ON n.oid = t.relnamespace
      CROSS JOIN LATERAL unnest(c.conkey, c.confkey, c.conpfeqop) WITH ORDINALITY AS k(child, parent, operator, place)
      JOIN pg_operator AS o ON o.oid = k.operator JOIN pg_namespace AS s ON s.oid = o.oprnamespace
      JOIN pg_type AS lt ON lt.oid = o.oprleft JOIN pg_type AS rt ON rt.oid = o.oprright
      JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = k.child
      JOIN pg_attribute AS p ON p.attrelid = c.confrelid AND p.attnum = k.parent
    WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confrelid IN (SELECT oid FROM tree)
      AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
    ORDER BY c.oid, k.place
    """

  func parameter(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    guard let types = types[name(of: schema).nameKey] else { return "$\(number)" }
    return "$\(number)::\(types[column])"
  }

  func equality(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    // Some types have no equality operator.
    "\(schema.columns[column].name.quotedName)::text IS NOT DISTINCT FROM (\(parameter(number, column, of: schema)))::text"
  }

  func rowPlace(in schema: TableSchema) -> String { "tableoid, ctid" }

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]] {
    try connection.query(sql, values.map(\.postgresInput)).map { row in
      row.map { $0.map { .exact(Array($0.utf8)) } ?? .null }
    }
  }

  /// Actions of foreign keys change rows that a policy hides, too.
  func queryAllRows(_ sql: String, _ values: [Value]) throws -> [[Value]] {
    try connection.execute("SET LOCAL row_security = off")
    do {
      let rows = try query(sql, values)
      try connection.execute("SET LOCAL row_security = on")
      return rows
    } catch let error as PostgresError where error.isPrivilege {
      throw CairnError(
        .privilegeMissing, "the rows that an undo would change by foreign keys cannot be seen: \(error.message)",
        hint: "run 'cairn undo' as the owner of the table, or as a role with BYPASSRLS that may read it",
        remedy: .badInput)
    }
  }

  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64 {
    try connection.run(sql, values.map(\.postgresInput))
  }

  func transaction<Result>(_ body: () throws -> Result) throws -> Result { try connection.transaction { try body() } }

  func refusal(_ error: any Error) -> String? {
    guard let error = error as? PostgresError, error.isOfStatement, !error.isPrivilege else { return nil }
    return error.message
  }
}

extension TableSchema {
  fileprivate var postgresName: String { "\((namespace.isEmpty ? "public" : namespace).quotedName).\(name.quotedName)" }
}

extension UndoRun {
  /// - Parameter schemas: All tables of the database as they are now.
  package init(_ connection: PostgresConnection, schemas: [TableSchema]) {
    self.init(PostgresUndo(connection), schemas: schemas)
  }
}
