import Changes

extension PostgresConnection {
  /// The value of `restrict_nonsystem_relation_kind` in each session, because Cairn reads tables only.
  private static let barredKinds = "view, foreign-table"

  /// Makes the server refuse to read a view that the owner of a schema puts under the name of a table. A lock on the
  /// table does not prevent a rename of its schema.
  ///
  /// Sources: https://www.postgresql.org/docs/17/runtime-config-client.html, CVE-2024-7348.
  func barViews() throws {
    guard Self.knowsBar(serverVersion) else { return }
    do {
      try query("SELECT set_config('restrict_nonsystem_relation_kind', $1, false)", [Self.barredKinds])
    } catch let error as PostgresError where error.sqlState == "42704" {
      // Another product with PostgreSQL's version number.
    }
  }

  /// Lets code in this session read views, for triggers of trusted roles. A rollback of the transaction ends that.
  package func allowViews() throws { try bar("") }

  /// Lets the session read and write partitions that are foreign tables. A rollback of the transaction ends that.
  package func allowForeignTables() throws { if try !(barredKinds ?? "").isEmpty { try bar("view") } }

  private func bar(_ kinds: String) throws {
    guard try barredKinds != nil else { return }
    try query("SELECT set_config('restrict_nonsystem_relation_kind', $1, false)", [kinds])
  }

  private var barredKinds: String? {
    get throws { try first("SELECT current_setting('restrict_nonsystem_relation_kind', true)") }
  }

  /// Returns whether a server of this version has the setting.
  package static func knowsBar(_ version: Int) -> Bool {
    let least = [12: 20, 13: 16, 14: 13, 15: 8, 16: 4]
    let (major, minor) = (version / 10_000, version % 10_000)
    return major > 16 || least[major].map { minor >= $0 } ?? false
  }

  /// Returns the warning if the server cannot refuse views; nil otherwise.
  package func barNotice() throws -> String? {
    if try !(barredKinds ?? "").isEmpty { return nil }
    return """
      \(place) cannot keep Cairn from reading a view that an owner of schemas puts under the name of a table, whose functions \
      would run with the rights of Cairn (CVE-2024-7348); update the server to 17, 16.4, 15.8, 14.13 or later
      """
  }

  /// Prevents all changes of a table's shape until the open transaction ends, and checks that the name is that of a
  /// table.
  ///
  /// The owner of a table can give its name to a view at any time. Reading a view runs its functions with the rights of
  /// the reader. So the name is looked up under the lock, before the first read. ``barViews()`` protects against a
  /// later change of the name.
  ///
  ///     try connection.transaction {
  ///       try connection.hold("\"sales\".\"orders\"")
  ///       try connection.first("SELECT 1 FROM \"sales\".\"orders\" LIMIT 1")
  ///     }
  ///
  /// - Parameters:
  ///   - name: quoted, with its schema; `ONLY` may stand before it.
  ///   - takesTexts: values of its keys will be made of texts: see ``checkCasts(of:column:)``.
  ///   - shape: the table and the types that a statement was made for; nil: any table.
  /// - Returns: the name without `ONLY`.
  /// - Throws: `table-refused` for anything but a table; ``PostgresError``.
  @discardableResult
  package func hold(_ name: String, takesTexts: Bool = false, as shape: HeldShape? = nil) throws -> String {
    try execute("LOCK TABLE \(name) IN ACCESS SHARE MODE")
    let table = name.utf8.starts(with: "ONLY ".utf8) ? String(name.utf8.dropFirst(5)) ?? name : name
    // The function reads the present catalog; the snapshot of the transaction may be older.
    let row = try query(
      """
      SELECT (pg_identify_object('pg_class'::regclass, c.oid, 0)).type, EXISTS (SELECT FROM pg_partition_tree(c.oid) AS t
        JOIN pg_class AS p ON p.oid = t.relid WHERE p.relkind = 'f') FROM CAST(to_regclass($1) AS oid) AS c(oid)
      """, [table]
    ).first
    let kind = row?.first ?? nil
    guard kind == "table" else {
      throw CairnError(
        .tableRefused, "\(table) of \(place) is a \(kind ?? "missing table"), not a table, by now",
        hint: "its functions would run with the rights of Cairn: drop it, or leave the table out with 'tables'",
        context: ["table": table])
    }
    if row?.last == "t" { try allowForeignTables() }
    if let shape, try !shape.isOf(name, self) {
      throw CairnError(
        .tableRefused, "\(table) of \(place) was replaced or altered since its columns were read",
        hint: "compare again once the change is over", context: ["table": table])
    }
    if takesTexts { try checkCasts(of: table) }
    return table
  }

  /// Returns the greatest or least number in a column; nil if there is none, or the column is not made of numbers.
  ///
  /// The owner of the table can give the column another type at any time, or the table's name to another one. So the
  /// type is looked up under the lock, and nothing in the statement casts the value: `max(c)` would look for a cast that
  /// makes the type of `c` a number, and run its function.
  ///
  ///     try connection.extreme(of: "id", in: "\"sales\".\"orders\"", isLeast: false)  // 4711
  ///
  /// - Parameter table: The quoted name; `ONLY` may stand before it.
  /// - Throws: `table-refused` as of ``hold(_:takesTexts:as:)``; ``PostgresError``.
  package func extreme(of column: String, in table: String, isLeast: Bool) throws -> Int64? {
    func read() throws -> Int64? {
      let isNumber = try first(
        """
        WITH RECURSIVE base(oid) AS (
          SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 AND NOT attisdropped
          UNION SELECT t.typbasetype FROM base JOIN pg_type AS t ON t.oid = base.oid AND t.typtype = 'd')
        SELECT EXISTS (SELECT FROM base
          WHERE oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype))
        """, [try hold(table), column])
      guard isNumber == "t" else { return nil }
      let name = column.quotedName
      return try first(
        "SELECT \(name) FROM \(table) WHERE \(name) IS NOT NULL ORDER BY \(name) \(isLeast ? "ASC" : "DESC") LIMIT 1"
      ).flatMap { Int64($0) }
    }
    return try isInTransaction ? read() : transaction("BEGIN READ ONLY", read)
  }

  /// Throws `table-refused` if text that is cast to the type of a column would run code of a role that is not trusted: the
  /// function of a cast, or what such a role may put into a type of which the column's type is made.
  ///
  /// The text is cast to the column's type without its domains (``TableSchema/Column/undomainedType``). The elements of an
  /// array, the columns of a composite type and the bounds of a range keep theirs, and the server runs their CHECKs.
  ///
  /// - Parameters:
  ///   - table: the quoted name.
  ///   - column: nil: all columns of unique indexes.
  ///   - type: the type to which the text is cast; nil: that of the column.
  package func checkCasts(of table: String, column: String? = nil, type: String? = nil) throws {
    guard let found = try query(Self.foreignCode, [table, column, type]).first else { return }
    let (column, object, role) = (found[1] ?? "", found[2] ?? "", found[3] ?? "")
    let isFunction = found[0] == "function"
    throw CairnError(
      .tableRefused,
      isFunction
        ? "function \(object) casts values for column \(column) of table \(table) of \(place), belongs to role \(role), and would run with the rights of Cairn"
        : "type \(object) is part of column \(column) of table \(table) of \(place) and belongs to role \(role), whose checks would run with the rights of Cairn",
      hint: isFunction
        ? "if you trust role \(role), give the function to a superuser: ALTER FUNCTION … OWNER TO; else drop the cast"
        : "if you trust role \(role), give the type to a superuser: ALTER TYPE \(object) OWNER TO …; else leave the table out with 'tables'",
      context: ["table": table])
  }

  /// Returns the text that the server prints for a value of a column, given as text; nil for NULL.
  ///
  /// - Parameters:
  ///   - type: the type of the column without its domains.
  ///   - table: the quoted name; `ONLY` may stand before it.
  /// - Throws: `table-refused` as of ``hold(_:takesTexts:)`` and ``checkCasts(of:column:)``; ``PostgresError``.
  package func printed(_ text: String, as type: String, ofColumn column: String, in table: String) throws -> String? {
    func print() throws -> String? {
      // The statement names the type, whatever the type of the column has become.
      try checkCasts(of: try hold(table), column: column, type: type)
      return try first("SELECT $1::\(type)", [text])
    }
    return try isInTransaction ? print() : transaction("BEGIN READ ONLY", print)
  }

  /// The code of other roles that casts of text to columns of table `$1` run; `$2`: the column, NULL for those of unique
  /// indexes; `$3`: its type, NULL for the present one.
  ///
  /// An operator between the column and such a value may be one of another type, to which an implicit cast leads.
  ///
  /// A role can give its own domain or composite type a new CHECK or column at any time, so such a type counts as it is.
  private static let foreignCode = """
    WITH RECURSIVE trusted(oid) AS (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
    ), base(attname, oid) AS (
      SELECT a.attname, a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        AND CASE WHEN $2::text IS NOT NULL THEN a.attname::text = $2::text
          ELSE EXISTS (SELECT FROM pg_index AS i
            WHERE i.indrelid = a.attrelid AND i.indisunique AND a.attnum = ANY (i.indkey)) END
      UNION SELECT $2::text::name, to_regtype($3::text)::oid WHERE to_regtype($3::text)::oid >= 16384
      UNION SELECT base.attname, t.typbasetype FROM base JOIN pg_type AS t ON t.oid = base.oid AND t.typbasetype >= 16384
    ), part(attname, oid) AS (
      SELECT base.attname, base.oid FROM base JOIN pg_type AS t ON t.oid = base.oid AND t.typtype <> 'd'
      UNION SELECT part.attname, x.oid FROM part CROSS JOIN LATERAL (
        SELECT t.typelem AS oid FROM pg_type AS t WHERE t.oid = part.oid
        UNION ALL SELECT t.typbasetype FROM pg_type AS t WHERE t.oid = part.oid
        UNION ALL SELECT a.atttypid FROM pg_type AS t JOIN pg_attribute AS a ON a.attrelid = t.typrelid AND a.attnum > 0
          AND NOT a.attisdropped WHERE t.oid = part.oid AND t.typrelid <> 0
        -- Multiranges came with PostgreSQL 14.
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r
          WHERE part.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid)) AS x WHERE x.oid >= 16384)
    SELECT 'function', base.attname, p.oid::regprocedure::text, pg_get_userbyid(p.proowner) FROM base
      JOIN pg_cast AS c ON c.casttarget = base.oid AND c.castsource IN ('text'::regtype, 'varchar'::regtype)
      JOIN pg_proc AS p ON p.oid = c.castfunc
      WHERE p.proowner NOT IN (SELECT oid FROM trusted)
    UNION ALL SELECT 'function', part.attname, p.oid::regprocedure::text, pg_get_userbyid(p.proowner) FROM part
      JOIN pg_cast AS c ON c.castsource = part.oid AND c.castcontext = 'i' AND c.casttarget < 16384
      JOIN pg_proc AS p ON p.oid = c.castfunc
      WHERE p.proowner NOT IN (SELECT oid FROM trusted)
    UNION ALL SELECT 'type', part.attname, part.oid::regtype::text, pg_get_userbyid(t.typowner) FROM part
      JOIN pg_type AS t ON t.oid = part.oid AND t.typtype IN ('d', 'c')
      WHERE t.typowner NOT IN (SELECT oid FROM trusted)
    ORDER BY 1, 2 LIMIT 1
    """
}

/// A table and the types of its columns, as they were when a statement was made for them, as far as the types decide
/// whose code the statement runs.
///
///     let shape = HeldShape(table: 16_384, columns: ["id"], types: [20])
///     try connection.hold("ONLY \"sales\".\"orders\"", as: shape)
package struct HeldShape: Sendable {
  /// The oid of the table.
  private let table: UInt32
  @ByBytes private var columns: [String]
  /// The oid of the type of each column.
  private let types: [UInt32]

  package init(table: UInt32, columns: [String], types: [UInt32]) {
    (self.table, self.types) = (table, types)
    self.columns = columns
  }

  /// Returns whether the name means the table or a partition of it, with columns of these types, for a statement that
  /// the session runs now. The table must be locked.
  ///
  /// The snapshot of a transaction may be older than the lock, and show another type than the one with which the server
  /// reads a statement. So the server reads one: `pg_typeof` gives the type of an expression, and no row is read.
  ///
  /// - Parameter name: quoted, with its schema; `ONLY` may stand before it.
  package func isOf(_ name: String, _ connection: PostgresConnection) throws -> Bool {
    let plain = name.utf8.starts(with: "ONLY ".utf8) ? String(name.utf8.dropFirst(5)) ?? name : name
    let isSame = try connection.first(
      """
      SELECT c.oid = $2::oid OR EXISTS (SELECT FROM pg_partition_tree($2::oid::regclass) AS t WHERE t.relid = c.oid)
      FROM CAST(to_regclass($1) AS oid) AS c(oid)
      """, [plain, String(table)])
    guard isSame == "t" else { return false }
    guard !columns.isEmpty else { return true }
    let terms = columns.map { "pg_typeof(t.\($0.quotedName))::oid" }.joined(separator: ",")
    do {
      let row = try connection.query("SELECT \(terms) FROM (VALUES (1)) AS one(x) LEFT JOIN \(name) AS t ON false")
        .first
      return row.map { zip($0, types).allSatisfy { Self.isSame($0.flatMap { UInt32($0) }, $1) } } ?? false
    } catch let error as PostgresError where error.sqlState == "42703" { return false }
  }

  /// PostgreSQL's own types may take the place of each other: all that lies between them is of the server.
  private static func isSame(_ now: UInt32?, _ type: UInt32) -> Bool {
    now == type || (now.map { $0 < 16384 } ?? false) && type < 16384
  }
}
