import Changes
import PostgresKit

/// A type, collation, sequence or function that a target's table needs, and that an untrusted role owns.
///
/// Its owner could change what the table holds, or drop its columns. So Cairn gives no such object to a table that it
/// creates or alters. Superusers, the role of apply and the owner of the table itself are trusted.
///
/// The objects are read after the change, in its transaction. So no role can exchange one between the check and its use.
///
/// ```
/// let before = try UntrustedObject.read(of: table, connection)
/// // … ALTER TABLE …
/// let found = try UntrustedObject.read(of: table, connection).first { !before.contains($0) }
/// ```
struct UntrustedObject: Equatable {
  /// The kind, as in `ALTER … OWNER TO`: `type`, `collation`, `sequence`.
  @ByBytes var kind: String
  @ByBytes var name: String
  @ByBytes var owner: String

  var refusal: String {
    "the \(kind) \(name) there belongs to role \(owner), which could change it or drop it with what depends on it"
  }

  var hint: String {
    "if you trust role \(owner), run at the target: ALTER \(kind.asciiUppercased) \(name) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop or rename the \(kind), or leave the table out with 'tables'"
  }

  /// Returns the objects of untrusted roles that a table needs; none if there is no such table.
  static func read(of table: PostgresApplyState.Table, _ connection: PostgresConnection) throws -> [Self] {
    try connection.query(text, ["\(table.schema.quotedName).\(table.name.quotedName)"]).map {
      Self(kind: $0[0] ?? "", name: $0[1] ?? "", owner: $0[2] ?? "")
    }
  }

  // Foreign keys lead to tables of other roles, which may be listed in 'tables'.
  private static let text = """
    WITH RECURSIVE trusted(oid) AS (
      \(OwnSchema.trustedRoles)
      UNION SELECT relowner FROM pg_class WHERE oid = to_regclass($1)
    ), need(class, oid) AS (
      SELECT 'pg_class'::regclass::oid, to_regclass($1)::oid
      UNION SELECT 'pg_attrdef'::regclass, oid FROM pg_attrdef WHERE adrelid = to_regclass($1)
      UNION SELECT 'pg_constraint'::regclass, oid FROM pg_constraint WHERE conrelid = to_regclass($1) AND contype <> 'f'
      UNION SELECT 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = to_regclass($1)
      UNION SELECT x.class, x.oid FROM need CROSS JOIN LATERAL (
        SELECT d.refclassid AS class, d.refobjid AS oid FROM pg_depend AS d
          WHERE d.classid = need.class AND d.objid = need.oid AND (d.refclassid <> 'pg_class'::regclass
            OR need.class <> 'pg_class'::regclass) AND d.refclassid IN ('pg_class'::regclass,
            'pg_type'::regclass, 'pg_collation'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass,
            'pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass)
        -- The attributes of a composite type, and the checks of a domain, depend on the type.
        UNION ALL SELECT 'pg_class'::regclass, t.typrelid FROM pg_type AS t
          WHERE need.class = 'pg_type'::regclass AND t.oid = need.oid AND t.typrelid <> 0
        UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint AS k
          WHERE need.class = 'pg_type'::regclass AND k.contypid = need.oid) AS x
    ), owned(class, oid, owner) AS (
      SELECT need.class, need.oid, coalesce(t.typowner, l.collowner, s.relowner, p.proowner, o.oprowner, c.opcowner,
        f.opfowner, g.cfgowner, d.dictowner)
      FROM need LEFT JOIN pg_type AS t ON need.class = 'pg_type'::regclass AND t.oid = need.oid
          -- Arrays and multiranges have the owner of what they are made of.
          AND t.typtype <> 'm' AND NOT (t.typcategory = 'A' AND t.typelem <> 0)
        LEFT JOIN pg_collation AS l ON need.class = 'pg_collation'::regclass AND l.oid = need.oid
        LEFT JOIN pg_class AS s ON need.class = 'pg_class'::regclass AND s.oid = need.oid AND s.relkind = 'S'
        LEFT JOIN pg_proc AS p ON need.class = 'pg_proc'::regclass AND p.oid = need.oid
        LEFT JOIN pg_operator AS o ON need.class = 'pg_operator'::regclass AND o.oid = need.oid
        LEFT JOIN pg_opclass AS c ON need.class = 'pg_opclass'::regclass AND c.oid = need.oid
        LEFT JOIN pg_opfamily AS f ON need.class = 'pg_opfamily'::regclass AND f.oid = need.oid
        LEFT JOIN pg_ts_config AS g ON need.class = 'pg_ts_config'::regclass AND g.oid = need.oid
        LEFT JOIN pg_ts_dict AS d ON need.class = 'pg_ts_dict'::regclass AND d.oid = need.oid)
    SELECT i.type, i.identity, pg_get_userbyid(owned.owner) FROM owned
      CROSS JOIN LATERAL pg_identify_object(owned.class, owned.oid, 0) AS i
    WHERE owned.owner NOT IN (SELECT oid FROM trusted) ORDER BY 1, 2 LIMIT 1000
    """
}
