import Changes

extension PostgresConnection {
  private static let barredKinds = "view, foreign-table"

  /// Makes the server refuse this session's access to views and foreign tables, if the server's version can.
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

  /// Lets this session read and write views and foreign tables. A rollback of the open transaction ends this access.
  package func allowViews() throws { try bar("") }

  /// Lets this session read and write foreign tables. Access to views does not change. A rollback of the open
  /// transaction ends the access to foreign tables.
  package func allowForeignTables() throws { if try !(barredKinds ?? "").isEmpty { try bar("view") } }

  private func bar(_ kinds: String) throws {
    guard try barredKinds != nil else { return }
    try query("SELECT set_config('restrict_nonsystem_relation_kind', $1, false)", [kinds])
  }

  private var barredKinds: String? {
    get throws { try first("SELECT current_setting('restrict_nonsystem_relation_kind', true)") }
  }

  /// Returns whether a server of this version has the setting `restrict_nonsystem_relation_kind`.
  package static func knowsBar(_ version: Int) -> Bool {
    let least = [12: 20, 13: 16, 14: 13, 15: 8, 16: 4]
    let (major, minor) = (version / 10_000, version % 10_000)
    return major > 16 || least[major].map { minor >= $0 } ?? false
  }

  /// Returns a warning for the operator if the server cannot refuse this session's reads of views; otherwise nil.
  package func barNotice() throws -> String? {
    if try !(barredKinds ?? "").isEmpty { return nil }
    return """
      \(place) cannot keep Cairn from reading a view that an owner of schemas puts under the name of a table, whose functions \
      would run with the rights of Cairn (CVE-2024-7348); update the server to 17, 16.4, 15.8, 14.13 or later
      """
  }

  /// Locks a table until the transaction ends, so that its columns cannot change. Throws if the name belongs to a view.
  ///
  ///     try connection.transaction {
  ///       try connection.hold("\"sales\".\"orders\"")
  ///       try connection.first("SELECT 1 FROM \"sales\".\"orders\" LIMIT 1")
  ///     }
  ///
  /// - Parameters:
  ///   - name: The quoted name of the table, with its schema; `ONLY` may precede it.
  ///   - takesTexts: Whether to check also the casts of text to columns of unique indexes.
  ///   - shape: The table and column types for which a statement was made. Throws if the table or a type has changed;
  ///     nil: no check.
  /// - Returns: The quoted name without `ONLY`.
  /// - Throws: `table-refused` for anything but a table; the errors of ``checkPlanning(of:_:onlySuperuser:)``;
  ///   ``PostgresError``.
  @discardableResult
  package func hold(_ name: String, takesTexts: Bool = false, as shape: HeldShape? = nil) throws -> String {
    do { try execute("LOCK TABLE \(name) IN ACCESS SHARE MODE") } catch let error as PostgresError
      where error.sqlState == "42809"
    {
      // An example is a foreign table.
      throw Self.notTable(name, place, "object that cannot be locked")
    }
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
      throw Self.notTable(table, place, kind ?? "missing table")
    }
    if row?.last == "t" {
      try checkForeignPartitions(of: table)
      try allowForeignTables()
    }
    // Before the first statement that the server plans for the table.
    try checkPlanning(of: table, .tableRefused, onlySuperuser: true)
    if let shape, try !shape.isOf(name, self) {
      throw CairnError(
        .tableRefused, "\(table) of \(place) was replaced or altered since its columns were read",
        hint: "compare again after the change", context: ["table": table])
    }
    if takesTexts { try checkCasts(of: table) }
    return table
  }

  private static func notTable(_ table: String, _ place: String, _ kind: String) -> CairnError {
    CairnError(
      .tableRefused, "\(table) of \(place) is now a \(kind), not a table",
      hint: "its functions would run with the rights of Cairn: drop it, or leave the table out with 'tables'",
      context: ["table": table])
  }

  /// Returns the name of a partition of the table that is a foreign table; nil if there is none.
  package func foreignPartition(of table: UInt32) throws -> String? {
    try first(
      """
      SELECT t.relid::regclass FROM pg_partition_tree($1::oid::regclass) AS t JOIN pg_class AS c ON c.oid = t.relid
      WHERE c.relkind = 'f' ORDER BY 1 LIMIT 1
      """, [String(table)])
  }

  // The owner of a foreign table, or of its server, decides to which host a read with Cairn's rights connects.
  private func checkForeignPartitions(of table: String) throws {
    let found = try query(
      """
      SELECT t.relid::regclass, r.rolname FROM pg_partition_tree(to_regclass($1)) AS t
        JOIN pg_class AS c ON c.oid = t.relid JOIN pg_foreign_table AS f ON f.ftrelid = c.oid
        JOIN pg_foreign_server AS s ON s.oid = f.ftserver JOIN pg_roles AS r ON r.oid IN (c.relowner, s.srvowner)
      WHERE NOT \(OwnSchema.isTrusted("r")) ORDER BY 1, 2 LIMIT 1
      """, [table]
    ).first
    guard let found else { return }
    let (partition, role) = (found[0] ?? "", found[1] ?? "")
    throw CairnError(
      .tableRefused,
      "partition \(partition) of table \(table) of \(place) is a foreign table of role \(role), who chooses the server that a read asks with the rights of Cairn",
      hint:
        "if you trust role \(role), give partition and foreign server to a superuser: ALTER FOREIGN TABLE … OWNER TO …, ALTER SERVER … OWNER TO …; else leave the table out with 'tables'",
      context: ["table": table])
  }

  /// Returns the greatest number in a column, or the least one if `isLeast`. Nil if the column has no number, is not
  /// of an integer or `numeric` type, or if the number is not a 64-bit integer.
  ///
  ///     try connection.extreme(of: "id", in: "\"sales\".\"orders\"", isLeast: false)  // 4711
  ///
  /// - Parameter table: The quoted name; `ONLY` may precede it.
  /// - Throws: `table-refused` for anything but a table; `owners-code` if planning would run code of an untrusted role;
  ///   ``PostgresError``.
  package func extreme(of column: String, in table: String, isLeast: Bool) throws -> Int64? {
    func read() throws -> Int64? {
      let plain = try hold(table)
      try lockPlanning(of: plain)
      try checkPlanning(of: plain, .ownersCode)
      let isNumber = try first(
        """
        WITH RECURSIVE base(oid) AS (
          SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 AND NOT attisdropped
          UNION SELECT t.typbasetype FROM base JOIN pg_type AS t ON t.oid = base.oid AND t.typtype = 'd')
        SELECT EXISTS (SELECT FROM base
          WHERE oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype))
        """, [plain, column])
      guard isNumber == "t" else { return nil }
      let name = column.quotedName
      return try first(
        "SELECT \(name) FROM \(table) WHERE \(name) IS NOT NULL ORDER BY \(name) \(isLeast ? "ASC" : "DESC") LIMIT 1"
      ).flatMap { Int64($0) }
    }
    return try isInTransaction ? read() : transaction("BEGIN READ ONLY", read)
  }

  /// Throws `table-refused` if a cast of text to the type of a column could run code of an untrusted role.
  ///
  /// - Parameters:
  ///   - table: The quoted name.
  ///   - column: The column; nil: all columns of unique indexes.
  ///   - type: The type to which the text is cast; nil: the type of the column.
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

  /// Casts a text to the type of a column. Returns the result as the server prints it; nil for NULL.
  ///
  /// - Parameters:
  ///   - type: The base type of the column, which is no domain.
  ///   - table: The quoted name of the table; `ONLY` may precede it.
  /// - Throws: `table-refused` for a view, or a cast that could run code of an untrusted role; ``PostgresError``.
  package func printed(_ text: String, as type: String, ofColumn column: String, in table: String) throws -> String? {
    func print() throws -> String? {
      // The statement names the type, so check that type also if the column has another one now.
      try checkCasts(of: try hold(table), column: column, type: type)
      return try first("SELECT $1::\(type)", [text])
    }
    return try isInTransaction ? print() : transaction("BEGIN READ ONLY", print)
  }

  // Finds the code of untrusted roles that a cast of text to a column of table `$1` would run. Column `$2` and type
  // `$3` may be NULL. A domain or composite type of an untrusted role counts, because the role can add a CHECK at any
  // time.
  private static let foreignCode = """
    WITH RECURSIVE trusted(oid) AS (\(OwnSchema.trustedRoles)
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

extension PostgresConnection {
  /// Throws if the server would run code of an untrusted role while it plans a read of the table. A function in an
  /// index expression is an example.
  ///
  ///     try connection.checkPlanning(of: "\"sales\".\"orders\"", .ownersCode)
  ///
  /// - Parameters:
  ///   - table: The quoted name of a table that is locked already.
  ///   - code: The code of the error that is thrown.
  ///   - onlySuperuser: If true, does nothing unless the session's role is a superuser.
  package func checkPlanning(of table: String, _ code: ErrorCode, onlySuperuser: Bool = false) throws {
    guard let found = try query(Self.plannedCode, [table, onlySuperuser ? "t" : "f"]).first else { return }
    let (kind, object) = (found[0] ?? "", found[1] ?? "")
    let (called, role) = (found[2] ?? "", found[3] ?? "")
    throw CairnError(
      code,
      "\(kind) \(object) of table \(table) of \(place) calls \(called) of role \(role), which the server would run with the rights of Cairn when it plans a read",
      hint:
        "if you trust role \(role), give that to a superuser: ALTER … OWNER TO …; else drop the \(kind), or leave the table out with 'tables'",
      context: ["table": table])
  }

  /// Locks a table until the caller's transaction ends, if an untrusted role owns it or one of its partitions. Until
  /// then, other sessions cannot add indexes, statistics or partitions. Does nothing for any other table, or if the
  /// session's role may not lock the table.
  ///
  /// Waits for another session's lock for at most a second, then throws ``PostgresError``.
  ///
  /// - Parameter table: The quoted name.
  package func lockPlanning(of table: String) throws {
    let isOpen = try first(
      """
      WITH RECURSIVE tree(oid) AS (
        SELECT to_regclass($1)::oid
        UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
      SELECT EXISTS (SELECT FROM tree JOIN pg_class AS c ON c.oid = tree.oid
          WHERE c.relowner NOT IN (\(OwnSchema.trustedRoles)))
        AND has_table_privilege(to_regclass($1), 'UPDATE, DELETE, TRUNCATE')
      """, [table])
    guard isOpen == "t" else { return }
    try execute("SET LOCAL lock_timeout = 1000")
    try execute("LOCK TABLE \(table) IN SHARE UPDATE EXCLUSIVE MODE")
  }

  // Finds functions of untrusted roles in expressions that the planner computes for table `$1`. If `$2` is true, only
  // in a superuser's session.
  private static let plannedCode = """
    WITH RECURSIVE tree(oid) AS (
      SELECT to_regclass($1)::oid
      UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid
    ), part(kind, object, class, oid) AS (
      -- A partition has the keys of all tables above it as its own constraint.
      SELECT 'partition key', k.oid::regclass::text, d.refclassid, d.refobjid FROM (
          SELECT oid FROM tree
          UNION SELECT a.relid FROM tree CROSS JOIN LATERAL pg_partition_ancestors(tree.oid) AS a(relid)) AS k
        JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = k.oid AND d.objsubid = 0
      UNION ALL SELECT 'index', x.indexrelid::regclass::text, 'pg_class'::regclass, x.indexrelid
        FROM tree JOIN pg_index AS x ON x.indrelid = tree.oid
      UNION ALL SELECT 'check constraint', k.conname::text, 'pg_constraint'::regclass, k.oid
        FROM tree JOIN pg_constraint AS k ON k.conrelid = tree.oid AND k.contype = 'c'
      UNION ALL SELECT 'statistics', s.stxname::text, 'pg_statistic_ext'::regclass, s.oid
        FROM tree JOIN pg_statistic_ext AS s ON s.stxrelid = tree.oid
    ), \(ReachedCode.text), code(kind, object, name, owner) AS (
      SELECT r.kind, r.object, 'function ' || p.oid::regprocedure::text, p.proowner FROM reach AS r
        LEFT JOIN pg_operator AS o ON r.class = 'pg_operator'::regclass AND o.oid = r.oid
        JOIN pg_proc AS p ON p.oid = CASE r.class WHEN 'pg_proc'::regclass THEN r.oid ELSE o.oprcode::oid END
      UNION ALL SELECT r.kind, r.object, 'a CHECK of type ' || t.oid::regtype::text, t.typowner FROM reach AS r
        JOIN pg_constraint AS k ON r.class = 'pg_constraint'::regclass AND k.oid = r.oid
        JOIN pg_type AS t ON t.oid = k.contypid)
    SELECT kind, object, name, pg_get_userbyid(owner) FROM code
    WHERE ($2 = 'f' OR current_setting('is_superuser') = 'on')
      AND owner NOT IN (\(OwnSchema.trustedRoles))
    ORDER BY 1, 2 LIMIT 1
    """
}

/// A table and the types of its columns at the time when a statement for the table was prepared.
///
///     let shape = HeldShape(table: 16_384, columns: ["id"], types: [20])
///     try connection.hold("ONLY \"sales\".\"orders\"", as: shape)
package struct HeldShape: Sendable {
  private let table: UInt32
  @ByBytes private var columns: [String]
  private let types: [UInt32]

  package init(table: UInt32, columns: [String], types: [UInt32]) {
    (self.table, self.types) = (table, types)
    self.columns = columns
  }

  /// Returns whether a name still means this table or a partition of it, with the same column types. The caller has
  /// locked the table.
  ///
  /// - Parameter name: The quoted name, with its schema; `ONLY` may precede it.
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

  // No code of other roles converts or compares values of a built-in type.
  private static func isSame(_ now: UInt32?, _ type: UInt32) -> Bool {
    now == type || (now.map { $0 < 16384 } ?? false) && type < 16384
  }
}
