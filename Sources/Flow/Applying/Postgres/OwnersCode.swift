import Changes
import Mapping
import PostgresKit

/// Code of other roles that PostgreSQL would run with the rights of apply when apply writes a table.
///
/// PostgreSQL runs triggers, rules and expressions of a table as the role that writes. So apply refuses a table if an
/// untrusted role owns such code. Roles other than superusers and apply's own role are untrusted.
///
/// An untrusted expression is accepted if it calls only functions that ``isPlainText`` accepts.
///
/// ```
/// let code = try OwnersCode.read("\"sales\".\"orders\"", connection)
/// code.findings   // [trigger spy, function low.spy(), role low]
/// ```
struct OwnersCode: Equatable {
  struct Finding: Equatable {
    @ByBytes var kind: String
    @ByBytes var object: String
    @ByBytes var owner: String
    @ByBytes var function: String
    /// Whether the code is an expression that is refused because it calls `function`.
    var isCall = false
    var trigger: Trigger?
  }

  /// A trigger of the written table, of a partition, or of a table that a foreign key action changes.
  struct Trigger: Equatable {
    @ByBytes var namespace: String
    @ByBytes var table: String
    @ByBytes var name: String

    /// The pattern of the setting `fire_triggers` that matches this trigger, such as `sales.orders.spy`.
    var pattern: String {
      ((namespace.hasSameBytes(as: "public") ? [] : [namespace]) + [table, name]).map { part in
        String(String.UnicodeScalarView(part.unicodeScalars.map { ".*!".unicodeScalars.contains($0) ? "?" : $0 }))
      }.joined(separator: ".")
    }
  }

  /// Whether an untrusted role can change the code of a table, or replace the table.
  enum Openness: Equatable {
    case closed
    /// An untrusted role owns the table's schema (namespace), so this role can replace the table by another table.
    case name
    case code
  }

  /// The values of `tgenabled` or `ev_enabled` of the triggers and rules that run in apply's session.
  static let firesInApply = "AR"

  var findings: [Finding]
  var openness: Openness
  /// Whether an untrusted role owns the table or a partition of it. An owner can add indexes, statistics and partitions
  /// while other sessions write the table.
  var hasOtherOwner: Bool
  /// The table's oid, and the version of its schema's row in `pg_namespace`. If the text changes, the name may mean
  /// another table.
  @ByBytes var bearer: String
  /// Whether a write to the table runs functions in another language than C. Such functions may read views.
  var runsFunctions = false
  var hasForeignParts = false
  /// A hash over the versions of the catalog rows that define the code which runs when the table is written.
  @ByBytes var fingerprint: String

  /// Finds the code of untrusted roles that runs when a table is written.
  ///
  /// - Parameter table: The table's quoted name.
  /// - Parameter fires: The states of triggers (`tgenabled`) that fire: `AR` in apply's session, `AO` in an
  ///   application's.
  static func read(_ table: String, fires: String = firesInApply, _ connection: PostgresConnection) throws -> OwnersCode
  {
    let rows = try connection.query(findingsText, [table, fires])
    let state = try connection.query(stateText, [table, fires]).first ?? []
    func part(_ index: Int) -> String? { index < state.count ? state[index] : nil }
    return OwnersCode(
      findings: rows.map {
        let trigger = $0[0] == "trigger" ? Self.trigger($0[1] ?? "") : nil
        return Finding(
          kind: $0[0] ?? "", object: trigger?.name ?? $0[1] ?? "", owner: $0[2] ?? "", function: $0[3] ?? "",
          isCall: $0[4] == "t", trigger: trigger)
      },
      openness: part(0) == "closed" ? .closed : part(0) == "name" ? .name : .code,
      hasOtherOwner: part(1) == "true", bearer: part(2) ?? "",
      runsFunctions: part(4) == "true", hasForeignParts: part(5) == "true", fingerprint: part(3) ?? "")
  }

  private static func trigger(_ json: String) -> Trigger? {
    guard case .list(let parts)? = try? JSONReader.read(Array(json.utf8)) else { return nil }
    let names = parts.compactMap { if case .text(let name) = $0 { name } else { nil } }
    return names.count == 3 ? Trigger(namespace: names[0], table: names[1], name: names[2]) : nil
  }

  /// Locks the tables that foreign key actions change when `table` is written, if untrusted roles may add triggers to
  /// these tables.
  ///
  /// The lock lasts until the caller's transaction ends.
  ///
  /// - Throws: `owners-code` for a table that the role of the session may not lock.
  static func lockReferencing(_ table: String, _ connection: PostgresConnection) throws {
    var locked: [[ByBytes<String?>]] = []
    while true {
      let found = try connection.query(referencingText, [table, "O"])
      let now = found.map { $0.map { ByBytes(wrappedValue: $0) } }
      // No table that references a locked one can be created.
      if now == locked { return }
      locked = now
      for row in found {
        let name = row[0] ?? ""
        do { try connection.execute("LOCK TABLE ONLY \(name) IN SHARE UPDATE EXCLUSIVE MODE") } catch let error
          as PostgresError
          where error.isPrivilege
        {
          let role = (row[2] ?? "").quotedName
          throw CairnError(
            .ownersCode,
            "table \(name) of \(connection.place), which a foreign key to \(table) changes, belongs to role \(row[1] ?? ""), and its triggers would run with the rights of Cairn",
            hint: "run at the target: GRANT UPDATE ON \(name) TO \(role), as its owner; or change the row there",
            context: ["table": table])
        }
      }
    }
  }

  /// Returns the LOCK statement that keeps other roles from changing the table's code until the transaction that runs
  /// the statement ends.
  ///
  /// Transactions that lock the same table of an untrusted role run one after the other. A weaker lock does not prevent
  /// CREATE INDEX CONCURRENTLY, CREATE STATISTICS and ATTACH PARTITION. Their expressions would run at the next plan.
  ///
  /// - Parameter table: The quoted name, with `ONLY` unless partitions are locked, too.
  func lock(_ table: String) -> String {
    "LOCK TABLE \(table) IN \(hasOtherOwner ? "SHARE UPDATE EXCLUSIVE" : "ROW EXCLUSIVE") MODE"
  }

  struct TriggerOwner: Equatable {
    @ByBytes var name: String
    var owner: UInt32
  }

  /// Returns the names of all triggers in the database that are not internal, with the owners of their tables. Empty if
  /// no trigger of an untrusted role was found.
  func triggerOwners(_ connection: PostgresConnection) throws -> [TriggerOwner] {
    guard findings.contains(where: { $0.trigger != nil }) else { return [] }
    return try connection.query(
      """
      SELECT DISTINCT t.tgname, c.relowner FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
      WHERE NOT t.tgisinternal
      """
    ).compactMap { row in row[1].flatMap { UInt32($0) }.map { TriggerOwner(name: row[0] ?? "", owner: $0) } }
  }

  /// Throws `owners-code` for the first code of an untrusted role that the conf does not allow. Only triggers can be
  /// allowed.
  ///
  /// - Parameter allows: Returns whether `fire_triggers` names a trigger.
  func check(_ table: String, place: String, allows: (Trigger) -> Bool) throws(CairnError) {
    guard let found = findings.first(where: { !($0.trigger.map(allows) ?? false) }) else { return }
    let function =
      found.function.isEmpty ? "" : found.isCall ? ", which calls \(found.function)," : ", function \(found.function),"
    throw CairnError(
      .ownersCode,
      "\(found.kind) \(found.object) of table \(table) of \(place)\(function) belongs to role \(found.owner), and would run with the rights of apply",
      hint: found.trigger.map {
        "if you trust role \(found.owner), write fire_triggers = [\($0.pattern.confText)] in the apply's section; else run at the target: ALTER TABLE \($0.namespace.quotedName).\($0.table.quotedName) DISABLE TRIGGER \($0.name.quotedName)"
      }
        ?? (found.function.isEmpty || found.isCall
          ? "drop the \(found.kind) at the target, or leave the table out with 'tables'"
          : "if you trust role \(found.owner), run at the target: ALTER FUNCTION \(found.function) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop the \(found.kind)"),
      context: ["table": table])
  }

  /// The query that fails with a division by zero if the hash of the code of table `$1` is not `$3`. `$2` has the
  /// states of triggers (`tgenabled`) to include.
  static let unchangedText = "SELECT 1 / (\(fingerprintText) = $3)::int"
  /// The query that fails with a division by zero if the name `$1` no longer means the table with the catalog ids `$2`.
  static let sameTableText = "SELECT 1 / (coalesce(\(bearerText), '') = $2)::int"
  static let changed = "22012"

  /// Returns the error for a table that was replaced, or whose schema was renamed, while apply wrote to the table.
  static func exchanged(_ place: String) -> CairnError {
    CairnError(
      .ownersCode, "a table of \(place) was replaced, or its schema renamed, while apply wrote to it",
      hint: "let only the role of apply or a superuser own the schemas of the tables: ALTER SCHEMA … OWNER TO",
      remedy: .retry)
  }

  // MARK: SQL

  /// The WITH clause that finds the tables that a write to table `$1` reaches, their code, and the trusted roles.
  static let relations = """
    WITH RECURSIVE rel(oid) AS (
      SELECT to_regclass($1)::oid
      UNION SELECT x.oid FROM rel CROSS JOIN LATERAL (
        SELECT i.inhrelid AS oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
          WHERE i.inhparent = rel.oid
        UNION ALL SELECT k.conrelid FROM pg_constraint k WHERE $2 LIKE '%O%' AND k.confrelid = rel.oid
          AND k.contype = 'f' AND (k.confupdtype IN ('c', 'n', 'd') OR k.confdeltype IN ('c', 'n', 'd'))) x
    -- A row of a partition is checked against the keys of all tables above it.
    ), above(oid) AS (SELECT DISTINCT a.relid::oid FROM rel CROSS JOIN LATERAL pg_partition_ancestors(rel.oid) AS a(relid)
    ), trusted(oid) AS (\(OwnSchema.trustedRoles)
    ), part(kind, object, class, oid) AS (
      SELECT CASE k.contype WHEN 'c' THEN 'check constraint' WHEN 'f' THEN 'foreign key' ELSE 'constraint' END,
          k.conname, 'pg_constraint'::regclass::oid, k.oid FROM rel JOIN pg_constraint k ON k.conrelid = rel.oid
      UNION ALL SELECT 'default of column', a.attname, 'pg_attrdef'::regclass, d.oid FROM rel
        JOIN pg_attrdef d ON d.adrelid = rel.oid JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
      UNION ALL SELECT 'index', n.relname, 'pg_class'::regclass, n.oid FROM rel
        JOIN pg_index i ON i.indrelid = rel.oid JOIN pg_class n ON n.oid = i.indexrelid
      UNION ALL SELECT 'trigger', \(triggerText), 'pg_trigger'::regclass, t.oid FROM rel
        JOIN pg_trigger t ON t.tgrelid = rel.oid WHERE NOT t.tgisinternal AND strpos($2, t.tgenabled::text) > 0
      UNION ALL SELECT 'rule', r.rulename, 'pg_rewrite'::regclass, r.oid FROM rel
        JOIN pg_rewrite r ON r.ev_class = rel.oid WHERE strpos($2, r.ev_enabled::text) > 0
      UNION ALL SELECT 'policy', p.polname, 'pg_policy'::regclass, p.oid FROM rel
        JOIN pg_policy p ON p.polrelid = rel.oid WHERE $2 LIKE '%O%'
      -- The planner computes what is constant in an expression.
      UNION ALL SELECT 'statistics', s.stxname, 'pg_statistic_ext'::regclass, s.oid FROM rel
        JOIN pg_statistic_ext s ON s.stxrelid = rel.oid
      UNION ALL SELECT 'partition key', c.relname, 'pg_class'::regclass, c.oid FROM pg_class c
        WHERE c.relkind = 'p' AND (c.oid IN (SELECT oid FROM rel) OR c.oid IN (SELECT oid FROM above))
      UNION ALL SELECT 'type of column', a.attname, 'pg_type'::regclass, a.atttypid FROM rel
        JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    ), \(ReachedCode.text)
    """

  private static let triggerText = """
    (SELECT json_build_array(n.nspname, c.relname, t.tgname)::text COLLATE "C" FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = (
        WITH RECURSIVE up(tgrelid, parent) AS (
          SELECT t.tgrelid, (to_jsonb(t) ->> 'tgparentid')::oid
          UNION ALL SELECT o.tgrelid, (to_jsonb(o) ->> 'tgparentid')::oid FROM up JOIN pg_trigger o ON o.oid = up.parent)
        SELECT tgrelid FROM up WHERE coalesce(parent, 0) = 0))
    """

  /// The functions of `pg_catalog` that look up a cast to `json` when they run, and so may run another role's function.
  private static let casting = """
    array_to_json json_build_array json_build_object jsonb_build_array jsonb_build_object row_to_json to_json to_jsonb
    """

  /// The functions of `pg_catalog` that are not immutable, but cannot run code of other roles.
  private static let harmless = """
    array_to_string convert convert_from convert_to current_database current_schema current_schemas current_setting
    current_user enum_first enum_last enum_range format get_current_ts_config inet_client_addr inet_client_port
    json_to_tsvector jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_array_tz jsonb_path_query_first_tz
    jsonb_to_tsvector overlaps pg_backend_pid pg_column_size pg_current_xact_id random_normal row_to_json session_user
    suppress_redundant_updates_trigger ts_headline tsvector_update_trigger tsvector_update_trigger_column txid_current
    version xml_is_well_formed
    """

  /// The functions of extensions that an untrusted expression may call.
  private static let drawing =
    "uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 gen_random_uuid gen_random_bytes gen_salt unaccent"

  /// The SQL condition under which an untrusted expression may call the function `p` with apply's rights.
  ///
  /// Some functions run other code that an argument names: `domain_in('x', 16410, -1)` runs the checks of a domain.
  /// Such functions are refused.
  private static let isPlainText = """
    (p.oid >= 16384 AND pg_get_userbyid(p.proowner) = current_user OR p.prokind = 'f' AND NOT p.proretset
      AND p.prorettype NOT IN ('cstring'::regtype, 'internal'::regtype)
      AND (NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a(type) JOIN pg_type AS t ON t.oid = a.type
          WHERE t.typtype = 'p')
        OR p.prolang IN (SELECT oid FROM pg_language WHERE lanname IN ('internal', 'c'))
          AND (p.oid >= 16384 OR p.proname <> ALL ('{\(words(casting))}'))
        OR NOT EXISTS (SELECT FROM reach JOIN pg_type AS t ON reach.class = 'pg_type'::regclass AND t.oid = reach.oid
          WHERE t.oid >= 16384 AND t.typowner NOT IN (SELECT oid FROM trusted)))
      AND (
        NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a(type) JOIN pg_type AS t ON t.oid = a.type
          WHERE t.typname ~ '^_?(cstring|internal|oid|oidvector|reg.*)$' AND t.typname <> 'regconfig')
        AND (p.provolatile = 'i'
          OR p.oid < 16384 AND p.proname = ANY ('{\(names)}')
          OR p.oid >= 16384 AND p.proname = ANY ('{\(words(drawing))}') AND EXISTS (SELECT FROM pg_depend AS d
            JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
              AND e.extname IN ('uuid-ossp', 'pgcrypto', 'unaccent'))
          OR p.oid < 16384 AND p.prorettype::regtype::text NOT LIKE 'reg%'
            AND p.oid IN (SELECT castfunc FROM pg_cast WHERE oid < 16384))
        OR p.oid IN (SELECT oprcode FROM pg_operator WHERE oprowner IN (SELECT oid FROM pg_roles WHERE rolsuper))
        -- Its sequences are looked at by themselves.
        OR p.oid = \(nextval)))
    """
  private static let names =
    words(harmless) + "," + TableSchema.functionsOfPostgres.map(\.text).sorted(by: <).joined(separator: ",")

  private static func words(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: ",")
  }

  private static let nextval = 1574

  /// The pattern of a call of `nextval` with a constant sequence. The four numbers are the bytes of the sequence's oid,
  /// the least significant one first.
  private static let drawnText =
    #":funcid 1574 [^{}()]*:args \(\{CONST :consttype 2205 [^]{}()[]*:constvalue 4 \[ (-?\d+) (-?\d+) (-?\d+) (-?\d+) [-0 ]*\]\}\)"#

  /// The node types that an untrusted expression may have, as `pg_node_tree` prints them.
  ///
  /// `JSON_VALUE(… RETURNING type)` is excluded: its cast is not in `pg_depend`.
  private static let nodes = """
    ARRAY ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASE CASEEXPR CASETESTEXPR CASEWHEN COALESCE COALESCEEXPR
    COERCETODOMAIN COERCETODOMAINVALUE COERCEVIAIO COLLATEEXPR CONST CONVERTROWTYPEEXPR DISTINCTEXPR FIELDSELECT
    FUNCEXPR JSONISPREDICATE MINMAX MINMAXEXPR NAMEDARGEXPR NEXTVALUEEXPR NULLIFEXPR NULLTEST OPEXPR PARAM RELABELTYPE
    ROW ROWCOMPARE ROWCOMPAREEXPR ROWEXPR SCALARARRAYOPEXPR SQLVALUEFUNCTION SUBSCRIPTINGREF VAR WHEN XMLEXPR
    """

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
      UNION ALL SELECT 'statistics', s.stxname, s.stxowner, to_jsonb(s) ->> 'stxexprs' FROM own
        JOIN pg_statistic_ext s ON s.stxrelid = own.oid
      UNION ALL SELECT 'partition key', c.relname, c.relowner, p.partexprs::text
        FROM pg_class c JOIN pg_partitioned_table p ON p.partrelid = c.oid WHERE p.partexprs IS NOT NULL
          AND (c.oid IN (SELECT oid FROM rel) OR c.oid IN (SELECT oid FROM above))
      UNION ALL SELECT 'policy', p.polname, own.relowner, concat(p.polqual::text, p.polwithcheck::text)
        FROM own JOIN pg_policy p ON p.polrelid = own.oid WHERE $2 LIKE '%O%'
      UNION ALL SELECT 'trigger', \(triggerText), own.relowner, t.tgqual::text
        FROM own JOIN pg_trigger t ON t.tgrelid = own.oid
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
      UNION ALL SELECT kind, object, owner, o.oprcode FROM nested
        CROSS JOIN LATERAL regexp_matches(tree, ':opnos \\(o ([0-9 ]+)\\)', 'g') AS m
        JOIN pg_operator o ON o.oid::text = ANY (string_to_array(m[1], ' '))
      UNION ALL SELECT 'trigger', \(triggerText), own.relowner, t.tgfoid
        FROM own JOIN pg_trigger t ON t.tgrelid = own.oid
        WHERE NOT t.tgisinternal AND strpos($2, t.tgenabled::text) > 0)
    SELECT DISTINCT f.kind, f.object, pg_get_userbyid(p.proowner), p.oid::regprocedure::text, false FROM called f
      JOIN pg_proc p ON p.oid = f.oid WHERE p.proowner NOT IN (SELECT oid FROM trusted)
    UNION SELECT f.kind, f.object, pg_get_userbyid(f.owner), p.oid::regprocedure::text, true FROM called f
      JOIN pg_proc p ON p.oid = f.oid WHERE f.owner NOT IN (SELECT oid FROM trusted)
        AND p.proowner IN (SELECT oid FROM trusted) AND NOT \(isPlainText)
    UNION SELECT n.kind, n.object, pg_get_userbyid(n.owner), 'nextval(regclass)', true FROM nested n
      WHERE n.owner NOT IN (SELECT oid FROM trusted) AND strpos(n.tree, ':funcid \(nextval) ') > 0
        AND (SELECT count(*) FROM regexp_matches(n.tree, ':funcid \(nextval) ', 'g')) <> (
          SELECT count(*) FROM regexp_matches(n.tree, '\(drawnText)', 'g') AS m
            JOIN pg_class s ON s.oid = ((m[1]::bigint & 255) + (m[2]::bigint & 255) * 256
              + (m[3]::bigint & 255) * 65536 + (m[4]::bigint & 255) * 16777216)::oid
            WHERE CASE s.relkind WHEN 'S' THEN has_sequence_privilege(n.owner, s.oid, 'USAGE, UPDATE') END)
    UNION SELECT kind, object, pg_get_userbyid(owner), '', false FROM expr
      WHERE owner NOT IN (SELECT oid FROM trusted) AND (kind = 'rule' OR EXISTS (
        SELECT FROM regexp_matches(tree, '\\{([A-Z]+)', 'g') AS m WHERE m[1] <> ALL ('{\(words(nodes))}')))
    UNION SELECT r.kind, r.object, pg_get_userbyid(p.proowner), p.oid::regprocedure::text, false FROM reach r
      JOIN pg_proc p ON r.class = 'pg_proc'::regclass AND p.oid = r.oid
      WHERE p.proowner NOT IN (SELECT oid FROM trusted)
        AND NOT EXISTS (SELECT FROM called f WHERE f.oid = p.oid)
    ORDER BY 1, 2
    """

  /// The query about table `$1`: whether untrusted roles can change its code, which tables to lock, and more.
  private static let stateText = """
    \(relations), own AS (SELECT c.oid, c.relkind, c.relowner, c.relnamespace FROM rel JOIN pg_class c ON c.oid = rel.oid)
    SELECT CASE
        WHEN EXISTS (SELECT FROM own WHERE relowner NOT IN (SELECT oid FROM trusted))
          OR EXISTS (SELECT FROM above JOIN pg_class c ON c.oid = above.oid
            WHERE c.relowner NOT IN (SELECT oid FROM trusted))
          OR EXISTS (SELECT FROM reach r JOIN pg_type t ON r.class = 'pg_type'::regclass AND t.oid = r.oid
            WHERE t.typowner NOT IN (SELECT oid FROM trusted)) THEN 'code'
        WHEN EXISTS (SELECT FROM own JOIN pg_namespace n ON n.oid = own.relnamespace
          \(OwnSchema.databaseOwner)
          WHERE coalesce(d.datdba, n.nspowner) NOT IN (SELECT oid FROM trusted)) THEN 'name' ELSE 'closed' END,
      EXISTS (SELECT FROM own WHERE relowner NOT IN (SELECT oid FROM trusted))::text,
      \(bearerText), \(fingerprintText),
      EXISTS (SELECT FROM reach r JOIN pg_proc p ON r.class = 'pg_proc'::regclass AND p.oid = r.oid
        JOIN pg_language l ON l.oid = p.prolang WHERE l.lanname NOT IN ('internal', 'c'))::text,
      EXISTS (SELECT FROM own WHERE relkind = 'f')::text
    """

  private static let referencingText = """
    \(relations) SELECT c.oid::regclass::text, pg_get_userbyid(c.relowner), current_user::text
      FROM rel JOIN pg_class c
      ON c.oid = rel.oid WHERE c.oid <> to_regclass($1) AND (c.relowner NOT IN (SELECT oid FROM trusted)
        OR EXISTS (SELECT FROM aclexplode(c.relacl) AS a
          WHERE a.privilege_type = 'TRIGGER' AND a.grantee NOT IN (SELECT oid FROM trusted)))
      ORDER BY c.oid
    """

  private static let bearerText = """
    (SELECT concat_ws(' ', c.oid, n.oid, n.xmin) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.oid = to_regclass($1))
    """

  private static let fingerprintText = """
    (\(relations) SELECT md5(coalesce(string_agg(x.part, ',' ORDER BY x.part), '')) FROM (
      SELECT 'p' || rel.oid AS part FROM rel
      UNION SELECT 'a' || above.oid FROM above
      UNION SELECT 'r' || reach.class || ' ' || reach.oid || ' ' || concat(k.xmin, d.xmin, t.xmin, r.xmin, p.xmin, i.xmin)
        FROM reach LEFT JOIN pg_constraint k ON reach.class = 'pg_constraint'::regclass AND k.oid = reach.oid
        LEFT JOIN pg_attrdef d ON reach.class = 'pg_attrdef'::regclass AND d.oid = reach.oid
        LEFT JOIN pg_trigger t ON reach.class = 'pg_trigger'::regclass AND t.oid = reach.oid
        LEFT JOIN pg_rewrite r ON reach.class = 'pg_rewrite'::regclass AND r.oid = reach.oid
        LEFT JOIN pg_policy p ON reach.class = 'pg_policy'::regclass AND p.oid = reach.oid
        LEFT JOIN pg_index i ON reach.class = 'pg_class'::regclass AND i.indexrelid = reach.oid) x)
    """
}

/// Checks, in each transaction that writes a table, that the table's code is still the code that apply has accepted.
final class OwnersWatch {
  private let lock: PostgresStatement
  private let sameTable: PostgresStatement
  private let bearer: [String?]
  /// The check that the table's code is unchanged; nil if no untrusted role can change the code.
  private let unchanged: PostgresStatement?
  private let values: [String?]
  private var group: UInt64?

  /// Prepares the check of a table's code.
  ///
  /// - Parameter number: A number that makes the names of the prepared statements unique.
  init(_ table: PostgresTargetTable, _ code: OwnersCode, number: Int) {
    lock = PostgresStatement(name: "cairn_lock_\(number)", sql: code.lock(table.rowsName))
    sameTable = PostgresStatement(name: "cairn_same_\(number)", sql: OwnersCode.sameTableText)
    bearer = [table.qualifiedName, code.bearer]
    unchanged =
      code.openness == .code ? PostgresStatement(name: "cairn_code_\(number)", sql: OwnersCode.unchangedText) : nil
    values = [table.qualifiedName, OwnersCode.firesInApply, code.fingerprint]
  }

  func isDue(in group: UInt64) -> Bool { self.group != group }

  /// Queues the statements that lock the table and check its code, without waiting for the server's answer. Called
  /// before a group writes its first row to the table.
  func look(in group: UInt64, _ sink: PostgresSink) throws {
    self.group = group
    try sink.queue(lock)
    try sink.queue(sameTable, bearer)
    if let unchanged { try sink.queue(unchanged, values) }
  }

  /// Queues the check that the table's name still means the checked table. Called before the commit of a group.
  func prove(_ sink: PostgresSink) throws { try sink.queue(sameTable, bearer) }
}
