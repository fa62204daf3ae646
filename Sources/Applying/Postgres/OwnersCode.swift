import Changes
import PostgresKit

/// Code that PostgreSQL would run with the rights of apply when apply writes a table, and that another role owns.
///
/// PostgreSQL runs triggers, rules and expressions of a table as the role that writes. `SET ROLE` is no defence, as such
/// code can `RESET ROLE`. So apply looks at that code before it writes, and refuses the table if a role other than a
/// superuser or its own role owns any of it. Where that role could also change the table, apply looks again in each
/// transaction, under the lock that the transaction takes anyway.
///
/// ```
/// let code = try OwnersCode.read("\"sales\".\"orders\"", connection)
/// code.findings   // [trigger spy, function low.spy(), role low]
/// ```
struct OwnersCode: Equatable {
  struct Finding: Equatable {
    /// `trigger`, `rule`, `check constraint`, …
    @ByBytes var kind: String
    @ByBytes var object: String
    @ByBytes var owner: String
    @ByBytes var function: String
  }

  /// The values of `tgenabled` and `ev_enabled` that fire in the session of apply.
  static let firesInApply = "AR"

  var findings: [Finding]
  /// Whether a role that is not trusted may change the code at any time.
  var isOpen: Bool
  /// The catalog's entry for the code. Another text means that the code changed.
  @ByBytes var fingerprint: String

  /// - Parameter table: the quoted name.
  /// - Parameter fires: the values of `tgenabled` and `ev_enabled` that fire: `AR` in the session of apply, `AO` in one like
  ///   an application's.
  static func read(_ table: String, fires: String = firesInApply, _ connection: PostgresConnection) throws -> OwnersCode
  {
    let rows = try connection.query(findingsText, [table, fires])
    let state = try connection.query("SELECT (\(openText))::text, \(fingerprintText)", [table, fires]).first ?? []
    return OwnersCode(
      findings: rows.map { Finding(kind: $0[0] ?? "", object: $0[1] ?? "", owner: $0[2] ?? "", function: $0[3] ?? "") },
      isOpen: state.first != "false", fingerprint: state.count > 1 ? state[1] ?? "" : "")
  }

  /// Throws `owners-code` for the first finding that the conf does not allow.
  /// - Parameter allows: whether `fire_triggers` names a trigger.
  func check(_ table: String, place: String, allows: (String) -> Bool) throws(CairnError) {
    guard let found = findings.first(where: { $0.kind != "trigger" || !allows($0.object) }) else { return }
    let function = found.function.isEmpty ? "" : ", function \(found.function),"
    throw CairnError(
      .ownersCode,
      "\(found.kind) \(found.object) of table \(table) of \(place)\(function) belongs to role \(found.owner), and would run with the rights of apply",
      hint: found.kind == "trigger"
        ? "if you trust role \(found.owner), write fire_triggers = [\(found.object.confText)] in the apply's section; else run at the target: ALTER TABLE \(table) DISABLE TRIGGER \(found.object.quotedName)"
        : found.function.isEmpty
          ? "drop the \(found.kind) at the target, or leave the table out with 'tables'"
          : "if you trust role \(found.owner), run at the target: ALTER FUNCTION \(found.function) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop the \(found.kind)",
      context: ["table": table])
  }

  /// Fails with ``changed`` if the code of a table is not what `$3` says; `$2`: as `fires`.
  static let unchangedText = "SELECT 1 / (\(fingerprintText) = $3)::int"
  /// Division by zero.
  static let changed = "22012"

  // MARK: SQL

  /// The table `$1` with its partitions; roles that are trusted; the parts of the table that run when it is written; and
  /// all that these need, as the server's own list of dependencies has it: functions, operators, types with what they
  /// are made of, constraints of domains, and casts between such a type and one of PostgreSQL's own.
  private static let relations = """
    WITH RECURSIVE rel(oid) AS (
      SELECT to_regclass($1)::oid
      UNION ALL SELECT i.inhrelid FROM rel JOIN pg_inherits i ON i.inhparent = rel.oid
        JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
    ), trusted(oid) AS (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
    ), part(kind, object, class, oid) AS (
      SELECT CASE k.contype WHEN 'c' THEN 'check constraint' WHEN 'f' THEN 'foreign key' ELSE 'constraint' END,
          k.conname, 'pg_constraint'::regclass::oid, k.oid FROM rel JOIN pg_constraint k ON k.conrelid = rel.oid
      UNION ALL SELECT 'default of column', a.attname, 'pg_attrdef'::regclass, d.oid FROM rel
        JOIN pg_attrdef d ON d.adrelid = rel.oid JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
      UNION ALL SELECT 'index', n.relname, 'pg_class'::regclass, n.oid FROM rel
        JOIN pg_index i ON i.indrelid = rel.oid JOIN pg_class n ON n.oid = i.indexrelid
      UNION ALL SELECT 'trigger', t.tgname, 'pg_trigger'::regclass, t.oid FROM rel
        JOIN pg_trigger t ON t.tgrelid = rel.oid WHERE NOT t.tgisinternal AND strpos($2, t.tgenabled::text) > 0
      UNION ALL SELECT 'rule', r.rulename, 'pg_rewrite'::regclass, r.oid FROM rel
        JOIN pg_rewrite r ON r.ev_class = rel.oid WHERE strpos($2, r.ev_enabled::text) > 0
      UNION ALL SELECT 'policy', p.polname, 'pg_policy'::regclass, p.oid FROM rel
        JOIN pg_policy p ON p.polrelid = rel.oid WHERE $2 LIKE '%O%'
      -- The planner computes what is constant in an expression.
      UNION ALL SELECT 'statistics', s.stxname, 'pg_statistic_ext'::regclass, s.oid FROM rel
        JOIN pg_statistic_ext s ON s.stxrelid = rel.oid
      UNION ALL SELECT 'partition key', c.relname, 'pg_class'::regclass, c.oid FROM rel
        JOIN pg_class c ON c.oid = rel.oid AND c.relkind = 'p'
      UNION ALL SELECT 'type of column', a.attname, 'pg_type'::regclass, a.atttypid FROM rel
        JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    ), reach(kind, object, class, oid) AS (
      SELECT kind, object, class, oid FROM part
      UNION SELECT r.kind, r.object, x.class, x.oid FROM reach r CROSS JOIN LATERAL (
        SELECT d.refclassid AS class, d.refobjid AS oid FROM pg_depend d
          WHERE d.classid = r.class AND d.objid = r.oid AND d.refclassid IN ('pg_proc'::regclass, 'pg_type'::regclass,
            'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass)
        UNION ALL SELECT 'pg_proc'::regclass, p.amproc FROM pg_amproc p
          WHERE r.class = 'pg_opfamily'::regclass AND p.amprocfamily = r.oid
        UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
          WHERE r.class = 'pg_type'::regclass AND k.contypid = r.oid
        UNION ALL SELECT 'pg_class'::regclass, t.typrelid FROM pg_type t
          WHERE r.class = 'pg_type'::regclass AND t.oid = r.oid AND t.typrelid <> 0
        UNION ALL SELECT 'pg_type'::regclass, t.typelem FROM pg_type t
          WHERE r.class = 'pg_type'::regclass AND t.oid = r.oid AND t.typelem >= 16384
        UNION ALL SELECT 'pg_cast'::regclass, c.oid FROM pg_cast c
          WHERE r.class = 'pg_type'::regclass AND r.oid >= 16384 AND (
            (c.castsource = r.oid AND c.casttarget < 16384) OR (c.casttarget = r.oid AND c.castsource < 16384))) x)
    """

  /// Functions of PostgreSQL that run SQL or reach outside of the row, which no expression of another role may call with
  /// our rights.
  private static let powerful =
    "^((query|cursor|table|schema|database)_to_xml.*|ts_stat|ts_rewrite|set_config|setval|lo_.*|lo(import|export|get|put)|pg_(read|ls|stat_file|file|logical|terminate|cancel|create|drop|replication|switch|reload|rotate|promote|advisory|try_advisory|backup|start|stop|log|export|notify|sleep).*)$"

  private static let findingsText = """
    \(relations), own AS (SELECT rel.oid, c.relname, c.relowner FROM rel JOIN pg_class c ON c.oid = rel.oid
    ), expr(kind, object, owner, tree) AS (
      SELECT 'check constraint', k.conname, own.relowner, k.conbin::text
        FROM own JOIN pg_constraint k ON k.conrelid = own.oid WHERE k.contype = 'c'
      UNION ALL SELECT 'default of column', a.attname, own.relowner, d.adbin::text FROM own
        JOIN pg_attrdef d ON d.adrelid = own.oid JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
      UNION ALL SELECT 'index', n.relname, own.relowner, concat(i.indexprs::text, i.indpred::text) FROM own
        JOIN pg_index i ON i.indrelid = own.oid JOIN pg_class n ON n.oid = i.indexrelid
        WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
      UNION ALL SELECT DISTINCT 'constraint of domain', t.typname, t.typowner, k.conbin::text
        FROM reach JOIN pg_constraint k ON reach.class = 'pg_constraint'::regclass AND k.oid = reach.oid
        JOIN pg_type t ON t.oid = k.contypid
      UNION ALL SELECT 'partition key', own.relname, own.relowner, p.partexprs::text
        FROM own JOIN pg_partitioned_table p ON p.partrelid = own.oid WHERE p.partexprs IS NOT NULL
      UNION ALL SELECT 'policy', p.polname, own.relowner, concat(p.polqual::text, p.polwithcheck::text)
        FROM own JOIN pg_policy p ON p.polrelid = own.oid WHERE $2 LIKE '%O%'
      UNION ALL SELECT 'trigger', t.tgname, own.relowner, t.tgqual::text FROM own JOIN pg_trigger t ON t.tgrelid = own.oid
        WHERE NOT t.tgisinternal AND strpos($2, t.tgenabled::text) > 0 AND t.tgqual IS NOT NULL
      UNION ALL SELECT 'rule', r.rulename, own.relowner, concat(r.ev_qual::text, r.ev_action::text)
        FROM own JOIN pg_rewrite r ON r.ev_class = own.oid WHERE strpos($2, r.ev_enabled::text) > 0
    ), nested AS (
      SELECT kind, object, owner, tree FROM expr
      UNION ALL SELECT e.kind, e.object, t.typowner, k.conbin::text FROM expr e
        CROSS JOIN LATERAL regexp_matches(e.tree, ':resulttype ([0-9]+)', 'g') AS m
        JOIN pg_type t ON t.oid = m[1]::oid AND t.typtype = 'd' JOIN pg_constraint k ON k.contypid = t.oid
    ), called(kind, object, owner, oid) AS (
      SELECT kind, object, owner, m[1]::oid FROM nested
        CROSS JOIN LATERAL regexp_matches(tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid|hashfuncid) ([0-9]+)', 'g') AS m
      UNION ALL SELECT kind, object, owner, o.oprcode FROM nested
        CROSS JOIN LATERAL regexp_matches(tree, ':opno ([0-9]+)', 'g') AS m JOIN pg_operator o ON o.oid = m[1]::oid
      UNION ALL SELECT 'trigger', t.tgname, own.relowner, t.tgfoid FROM own JOIN pg_trigger t ON t.tgrelid = own.oid
        WHERE NOT t.tgisinternal AND strpos($2, t.tgenabled::text) > 0)
    SELECT DISTINCT f.kind, f.object, pg_get_userbyid(p.proowner), p.oid::regprocedure::text FROM called f
      JOIN pg_proc p ON p.oid = f.oid WHERE p.proowner NOT IN (SELECT oid FROM trusted)
    UNION SELECT f.kind, f.object, pg_get_userbyid(f.owner), '' FROM called f JOIN pg_proc p ON p.oid = f.oid
      WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '\(powerful)'
        AND f.owner NOT IN (SELECT oid FROM trusted)
    UNION SELECT kind, object, pg_get_userbyid(owner), '' FROM expr
      WHERE kind = 'rule' AND owner NOT IN (SELECT oid FROM trusted)
    UNION SELECT r.kind, r.object, pg_get_userbyid(p.proowner), p.oid::regprocedure::text FROM reach r
      JOIN pg_proc p ON r.class = 'pg_proc'::regclass AND p.oid = r.oid
      WHERE p.proowner NOT IN (SELECT oid FROM trusted)
        AND NOT EXISTS (SELECT FROM called f WHERE f.oid = p.oid)
    ORDER BY 1, 2
    """

  /// Whether a role that is not trusted owns the table, a partition, or a type that is needed to write it.
  private static let openText = """
    \(relations) SELECT EXISTS (SELECT 1 FROM rel JOIN pg_class c ON c.oid = rel.oid
        WHERE c.relowner NOT IN (SELECT oid FROM trusted))
      OR EXISTS (SELECT 1 FROM reach r JOIN pg_type t ON r.class = 'pg_type'::regclass AND t.oid = r.oid
        WHERE t.typowner NOT IN (SELECT oid FROM trusted))
    """

  /// Every row of the catalog that makes such code has a version of its own.
  private static let fingerprintText = """
    (\(relations) SELECT md5(coalesce(string_agg(x.part, ',' ORDER BY x.part), '')) FROM (
      SELECT 'p' || rel.oid AS part FROM rel
      UNION SELECT 'r' || reach.class || ' ' || reach.oid || ' ' || concat(k.xmin, d.xmin, t.xmin, r.xmin, p.xmin, i.xmin)
        FROM reach LEFT JOIN pg_constraint k ON reach.class = 'pg_constraint'::regclass AND k.oid = reach.oid
        LEFT JOIN pg_attrdef d ON reach.class = 'pg_attrdef'::regclass AND d.oid = reach.oid
        LEFT JOIN pg_trigger t ON reach.class = 'pg_trigger'::regclass AND t.oid = reach.oid
        LEFT JOIN pg_rewrite r ON reach.class = 'pg_rewrite'::regclass AND r.oid = reach.oid
        LEFT JOIN pg_policy p ON reach.class = 'pg_policy'::regclass AND p.oid = reach.oid
        LEFT JOIN pg_index i ON reach.class = 'pg_class'::regclass AND i.indexrelid = reach.oid) x)
    """
}

/// The look at a table's code in each transaction that writes it.
final class OwnersWatch {
  private let lock: PostgresStatement
  private let unchanged: PostgresStatement
  private let values: [String?]
  /// The group of transactions in which the table was looked at last.
  private var group: UInt64?

  /// - Parameter number: tells the statements of one session apart.
  init(_ table: PostgresTargetTable, _ code: OwnersCode, number: Int) {
    lock = PostgresStatement(
      name: "cairn_lock_\(number)", sql: "LOCK TABLE \(table.rowsName) IN ROW EXCLUSIVE MODE")
    unchanged = PostgresStatement(name: "cairn_code_\(number)", sql: OwnersCode.unchangedText)
    values = [table.qualifiedName, OwnersCode.firesInApply, code.fingerprint]
  }

  func isDue(in group: UInt64) -> Bool { self.group != group }

  /// Queues the lock and the look ahead of the first row: no answer is waited for.
  func look(in group: UInt64, _ sink: PostgresSink) throws {
    self.group = group
    try sink.queue(lock)
    try sink.queue(unchanged, values)
  }
}
