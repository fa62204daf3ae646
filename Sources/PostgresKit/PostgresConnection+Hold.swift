import Changes

extension PostgresConnection {
  /// The value of `restrict_nonsystem_relation_kind` in each session. Cairn reads tables only.
  private static let barredKinds = "view, foreign-table"

  /// Has the server refuse to read a view that an owner of schemas puts under the name of a table: a lock of the table does
  /// not keep its schema from being renamed.
  ///
  /// Sources: https://www.postgresql.org/docs/17/runtime-config-client.html, CVE-2024-7348.
  func barViews() throws {
    guard Self.knowsBar(serverVersion) else { return }
    do {
      try query("SELECT set_config('restrict_nonsystem_relation_kind', $1, false)", [Self.barredKinds])
    } catch let error as PostgresError where error.sqlState == "42704" {
      // Another product with the version number of PostgreSQL.
    }
  }

  /// Lets code that runs in this session read views: triggers of roles that are trusted. So until the transaction is rolled
  /// back.
  package func allowViews() throws { try bar("") }

  /// Lets the session read and write partitions that are foreign tables. So until the transaction is rolled back.
  package func allowForeignTables() throws { if try !(barredKinds ?? "").isEmpty { try bar("view") } }

  private func bar(_ kinds: String) throws {
    guard try barredKinds != nil else { return }
    try query("SELECT set_config('restrict_nonsystem_relation_kind', $1, false)", [kinds])
  }

  private var barredKinds: String? {
    get throws { try first("SELECT current_setting('restrict_nonsystem_relation_kind', true)") }
  }

  /// Whether a server of this version has the setting.
  package static func knowsBar(_ version: Int) -> Bool {
    let least = [12: 20, 13: 16, 14: 13, 15: 8, 16: 4]
    let (major, minor) = (version / 10_000, version % 10_000)
    return major > 16 || least[major].map { minor >= $0 } ?? false
  }

  /// The warning if the server cannot refuse views; nil otherwise.
  package func barNotice() throws -> String? {
    if try !(barredKinds ?? "").isEmpty { return nil }
    return """
      \(place) cannot keep Cairn from reading a view that an owner of schemas puts under the name of a table, whose functions \
      would run with the rights of Cairn (CVE-2024-7348); update the server to 17, 16.4, 15.8, 14.13 or later
      """
  }

  /// Keeps everybody from altering a table until the open transaction ends, and proves that it is one.
  ///
  /// The owner of a table can give its name to a view at any time. To read a view is to run its functions with the rights
  /// of whoever reads, so the name is looked up under the lock, before the first read. That the name still means the table
  /// when it is read is up to ``barViews()``.
  ///
  ///     try connection.transaction {
  ///       try connection.hold("\"sales\".\"orders\"")
  ///       try connection.first("SELECT 1 FROM \"sales\".\"orders\" LIMIT 1")
  ///     }
  ///
  /// - Parameters:
  ///   - name: quoted, with its schema; `ONLY` may stand before it.
  ///   - takesTexts: values of its keys will be made of texts: see ``checkKeyCasts(of:)``.
  /// - Throws: `table-refused` for anything but a table; ``PostgresError``.
  package func hold(_ name: String, takesTexts: Bool = false) throws {
    try execute("LOCK TABLE \(name) IN ACCESS SHARE MODE")
    let table = name.utf8.starts(with: "ONLY ".utf8) ? String(name.utf8.dropFirst(5)) ?? name : name
    // The function looks at the catalog as it is now; the snapshot of the transaction may be older.
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
    if takesTexts { try checkKeyCasts(of: table) }
  }

  /// Throws `table-refused` if a cast from text to a type of a key runs a function of a role that is not trusted.
  package func checkKeyCasts(of table: String) throws {
    guard let found = try query(Self.foreignCastText, [table]).first else { return }
    throw CairnError(
      .tableRefused,
      "function \(found[1] ?? "") makes texts to values of column \(found[0] ?? "") of table \(table) of \(place), belongs to role \(found[2] ?? ""), and would run with the rights of Cairn",
      hint:
        "if you trust role \(found[2] ?? ""), give the function to a superuser: ALTER FUNCTION … OWNER TO; else drop the cast",
      context: ["table": table])
  }

  /// Casts from text to a type of a key's column, or to what a domain is made of, whose function another role owns.
  private static let foreignCastText = """
    WITH RECURSIVE typ(attname, oid) AS (
      SELECT a.attname, a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        AND EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND a.attnum = ANY (i.indkey))
      UNION SELECT typ.attname, t.typbasetype FROM typ JOIN pg_type AS t ON t.oid = typ.oid AND t.typbasetype >= 16384)
    SELECT typ.attname, p.oid::regprocedure::text, pg_get_userbyid(p.proowner) FROM typ
      JOIN pg_cast AS c ON c.casttarget = typ.oid AND c.castsource IN ('text'::regtype, 'varchar'::regtype)
      JOIN pg_proc AS p ON p.oid = c.castfunc
      WHERE p.proowner NOT IN (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user)
    ORDER BY 1 LIMIT 1
    """
}
