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
  /// - Returns: the name without `ONLY`.
  /// - Throws: `table-refused` for anything but a table; ``PostgresError``.
  @discardableResult
  package func hold(_ name: String, takesTexts: Bool = false) throws -> String {
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
    if takesTexts { try checkCasts(of: table) }
    return table
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
  package func checkCasts(of table: String, column: String? = nil) throws {
    guard let found = try query(Self.foreignCode, [table, column]).first else { return }
    let (column, object, role) = (found[1] ?? "", found[2] ?? "", found[3] ?? "")
    let isFunction = found[0] == "function"
    throw CairnError(
      .tableRefused,
      isFunction
        ? "function \(object) casts text to column \(column) of table \(table) of \(place), belongs to role \(role), and would run with the rights of Cairn"
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
      try checkCasts(of: try hold(table), column: column)
      return try first("SELECT $1::\(type)", [text])
    }
    return try isInTransaction ? print() : transaction("BEGIN READ ONLY", print)
  }

  /// The code of other roles that casts of text to columns of table `$1` run; `$2`: the column, NULL for those of unique
  /// indexes.
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
    UNION ALL SELECT 'type', part.attname, part.oid::regtype::text, pg_get_userbyid(t.typowner) FROM part
      JOIN pg_type AS t ON t.oid = part.oid AND t.typtype IN ('d', 'c')
      WHERE t.typowner NOT IN (SELECT oid FROM trusted)
    ORDER BY 1, 2 LIMIT 1
    """
}
