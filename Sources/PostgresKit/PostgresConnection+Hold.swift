import Changes

extension PostgresConnection {
  /// Keeps everybody from altering a table until the open transaction ends, and proves that it is one.
  ///
  /// The owner of a table can give its name to a view at any time. To read a view is to run its functions with the rights
  /// of whoever reads, so the name is looked up under the lock, before the first read.
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
    let kind = try first("SELECT (pg_identify_object('pg_class'::regclass, to_regclass($1)::oid, 0)).type", [table])
    guard kind == "table" else {
      throw CairnError(
        .tableRefused, "\(table) of \(place) is a \(kind ?? "missing table"), not a table, by now",
        hint: "its functions would run with the rights of Cairn: drop it, or leave the table out with 'tables'",
        context: ["table": table])
    }
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
