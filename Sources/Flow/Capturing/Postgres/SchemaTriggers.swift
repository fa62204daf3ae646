import Changes
import PostgresKit

/// The event triggers that write a message into the stream for each schema change of a table, with the table's new
/// shape. The triggers never make a command of the application fail or wait. A superuser owns them. Source:
/// https://www.postgresql.org/docs/15/event-triggers.html
struct SchemaTriggers {
  static let prefix = "cairn.schema"
  /// The prefix of unsigned messages from event triggers of older versions of Cairn.
  static let earlierPrefix = "cairn.ddl"
  static let schema = MessageKey.Place.triggers.rawValue
  private static let names = ["ddl_command_end", "sql_drop", "table_rewrite"]
  private static let version = 7

  let connection: PostgresConnection

  /// Returns whether all triggers exist, belong to a trusted role, and also fire with `session_replication_role =
  /// replica`.
  func isComplete() throws -> Bool {
    let there = try connection.first(
      """
      SELECT count(*) FROM pg_event_trigger AS e JOIN pg_proc AS p ON p.oid = e.evtfoid
      WHERE e.evtname = ANY ($1::text[]) AND e.evtenabled = 'A'
        AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = '\(Self.schema)')
        AND coalesce(substring(obj_description(p.oid, 'pg_proc') FROM 'version ([0-9]+)')::int, 0) >= \(Self.version)
      """, ["{" + Self.names.map { "cairn_" + $0 }.joined(separator: ",") + "}"])
    return try there == String(Self.names.count) && OwnSchema.foreign(Self.schema, connection) == nil
  }

  /// Creates missing triggers.
  ///
  /// - Throws: ``PostgresError`` with `isPrivilege` if the role is no superuser; `privilege-missing` if an untrusted
  ///   role owns schema `cairn_ddl` or an object in it.
  func install() throws {
    // Two captures may begin at the same time.
    try connection.makingOnce { if try !isComplete() { try connection.transaction { try make() } } }
  }

  private func make() throws {
    if try connection.first("SELECT 1 FROM pg_namespace WHERE nspname = $1", [Self.schema]) == nil {
      try connection.execute("CREATE SCHEMA \(Self.schema)")
    }
    try OwnSchema.check(Self.schema, connection)
    try MessageKey.install(.triggers, connection)
    try connection.executeScript(Self.script)
    try removeEarlier()
  }

  private func removeEarlier() throws {
    let functions = try connection.query(
      """
      SELECT p.oid::regprocedure FROM pg_proc AS p
      WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'cairn') AND p.proname = ANY ($1::text[])
      """, ["{" + (Self.names + Self.earlierNames).joined(separator: ",") + "}"])
    for row in functions { try connection.execute("DROP FUNCTION IF EXISTS \(row[0] ?? "")") }
  }

  private static let earlierNames = ["ddl_document", "ddl_write", "ddl_users", "ddl_shape"]

  func remove() throws -> Bool {
    let there = try connection.query("SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^cairn_'")
    let hasSchema = try connection.first("SELECT 1 FROM pg_namespace WHERE nspname = $1", [Self.schema]) != nil
    let hasEarlier =
      try connection.first(
        """
        SELECT 1 FROM pg_proc AS p WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'cairn')
          AND p.proname = ANY ($1::text[])
        """, ["{" + (Self.names + Self.earlierNames).joined(separator: ",") + "}"]) != nil
    guard !there.isEmpty || hasSchema || hasEarlier else { return false }
    do {
      try connection.transaction {
        for row in there { try connection.execute("DROP EVENT TRIGGER IF EXISTS \((row[0] ?? "").quotedName)") }
        try removeEarlier()
        if hasSchema { try connection.execute("DROP SCHEMA \(Self.schema) CASCADE") }
        try removeEmptySchema()
      }
    } catch let error as PostgresError where error.isPrivilege {
      throw CairnError(
        .privilegeMissing, "\(connection.place): the event triggers cannot be removed: \(error.message)",
        hint: "run 'cairn detach' as a superuser")
    }
    return true
  }

  private func removeEmptySchema() throws {
    let isEmpty = try connection.first(
      """
      SELECT 1 FROM pg_namespace AS n WHERE nspname = 'cairn'
        AND NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
        AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid)
      """)
    if isEmpty != nil { try connection.execute("DROP SCHEMA cairn") }
  }

  /// Returns the notice to the operator that the database has no event triggers for schema changes.
  ///
  /// - Parameter why: The reason why there are none.
  static func absence(_ place: String, _ why: String) -> String {
    """
    \(place): there are no event triggers (\(why)). Capture reads the catalog every few seconds to find schema changes, \
    and copies the table after each. To create the triggers, run 'cairn replicate' once as a superuser
    """
  }

  /// Returns the notice to the operator that capture's role cannot read the key that signs the messages of the
  /// triggers.
  static func unreadable(_ place: String, _ role: String) -> String {
    """
    \(place): role \(role) may not read the key of the event triggers. Capture reads the catalog every few seconds to \
    find schema changes, and copies the table after each. As a superuser: \(MessageKey.grantText(.triggers, to: role))
    """
  }

  // MARK: SQL

  private static var script: String {
    let triggers = names.map { name in
      """
      DROP EVENT TRIGGER IF EXISTS cairn_\(name);
      CREATE EVENT TRIGGER cairn_\(name) ON \(name) EXECUTE FUNCTION \(schema).\(name)();
      ALTER EVENT TRIGGER cairn_\(name) ENABLE ALWAYS;
      COMMENT ON FUNCTION \(schema).\(name)() IS 'tells cairn of schema changes, version \(version)';
      """
    }
    return (functions + triggers).joined(separator: "\n")
  }

  /// The settings of the triggers' functions: their output must not depend on the session, and they must not wait for
  /// locks.
  private static let settings =
    (PostgresConnection.printSettings + [
      "search_path=pg_catalog, pg_temp", "standard_conforming_strings=on", "lock_timeout=20",
      "plan_cache_mode=force_generic_plan",
    ])
    .map { setting in
      let parts = setting.split(separator: "=", maxSplits: 1)
      let value = parts[0] == "search_path" || parts[0] == "DateStyle" ? String(parts[1]) : "'\(parts[1])'"
      return "SET \(parts[0]) = \(value)"
    }.joined(separator: " ")

  private static func function(_ name: String, _ body: String) -> String {
    """
    CREATE OR REPLACE FUNCTION \(schema).\(name)() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
    \(settings) AS $cairn$\(body)$cairn$;
    REVOKE ALL ON FUNCTION \(schema).\(name)() FROM PUBLIC;
    """
  }

  private static let functions: [String] = [
    function("ddl_command_end", guarded(commandEnd, where: isCommandOurs)),
    function("sql_drop", guarded(drop, where: isDropOurs)),
    function("table_rewrite", guarded(rewrite, where: isRewriteOurs)),
  ]

  /// Returns the SQL by which a trigger writes one message.
  ///
  /// - Parameter letter: The kind of the message.
  /// - Parameter fields: The fields after the version and the command tag.
  private static func write(_ letter: String, _ fields: String..., document: String = "''") -> String {
    """
    v_fields := ARRAY['\(SchemaMessage.version)', TG_TAG, \(fields.joined(separator: ", "))];
    v_content := convert_to('\(letter)' || cardinality(v_fields) || ';' || \(CatalogDocument.encoded("v_fields"))
      || \(document), 'UTF8');
    PERFORM \(MessageKey.call(prefix, "v_content", key: "v_key"));
    -- A message of a subtransaction counts as of its end, and may come behind the record that follows it.
    PERFORM pg_logical_emit_message(true, 'cairn.pad', '');
    """
  }

  private static let doubt = write("L", "''", "''", "''", "''")

  /// The SQL that computes the JSON description of table `v_root`.
  private static let document = """

    IF \(CatalogDocument.usesTypes("v_root")) THEN
      v_document := \(CatalogDocument.sql(of: "v_root"));
    ELSE
      v_document := \(CatalogDocument.sql(of: "v_root", types: false));
    END IF;
    """

  private static func users(of type: String) -> String {
    """

      (WITH RECURSIVE t(oid) AS (
        SELECT \(type)
        UNION SELECT x.oid FROM t CROSS JOIN LATERAL (
          SELECT y.oid FROM pg_type AS y WHERE y.typbasetype = t.oid OR (y.typelem = t.oid AND y.typcategory = 'A')
          UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngsubtype = t.oid
          UNION ALL SELECT r.rngmultitypid FROM pg_range AS r WHERE r.rngsubtype = t.oid
          UNION ALL SELECT c.reltype FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE a.atttypid = t.oid AND c.reltype <> 0 AND NOT a.attisdropped) AS x(oid))
      SELECT DISTINCT a.attrelid FROM pg_attribute AS a JOIN t ON t.oid = a.atttypid
        JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relkind IN ('r', 'p', 'f') AND NOT a.attisdropped)
    """
  }

  /// The SQL that reports the shape of table `v_item.oid`, or of a partition's root table.
  private static let shape = """

    v_root := coalesce(pg_partition_root(v_item.oid)::oid, v_item.oid);
    SELECT c.relpersistence = 't' AS is_temporary, \(PostgresTable.isUsers("c", "n")) AS is_users INTO v_kind
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = v_root;
    IF NOT FOUND THEN
      \(doubt)
      CONTINUE;
    END IF;
    IF v_root <> v_item.oid AND TG_TAG = 'ALTER TABLE' THEN
      \(write("D", "v_computes", "v_statement", "v_item.oid::text", "''"))
    END IF;
    IF v_kind.is_users THEN
      \(document)
      \(write(
        "S", "v_computes", "v_statement", "v_root::text", "CASE WHEN v_item.is_heir THEN 'heir' ELSE '' END",
        document: "v_document"))
    END IF;
    """

  /// Returns the SQL of a trigger that does nothing without a slot of Cairn, and whose errors never reach the
  /// application.
  ///
  /// - Parameter isOurs: The SQL condition that selects the commands to report.
  private static func guarded(_ body: String, where isOurs: String) -> String {
    """

    DECLARE
      v_statement text := current_query();
      v_context text;
      v_computes text;
      v_fields text[];
      v_content bytea;
      v_document text;
      v_root oid;
      v_kind record;
      v_key record;
      v_item record;
    BEGIN
      IF TG_TAG IN ('COMMENT', 'GRANT', 'REVOKE', 'SECURITY LABEL') OR NOT \(isOurs) OR NOT EXISTS (
        SELECT FROM pg_replication_slots AS s WHERE s.slot_name ~ '^cairn_' AND s.database = current_database())
      THEN
        RETURN;
      END IF;
      SELECT k.inner_pad, k.outer_pad INTO STRICT v_key FROM \(schema).key AS k WHERE k.id = 1;
      -- More than one line: the command runs inside of a function, and the statement is that which called it.
      GET DIAGNOSTICS v_context = PG_CONTEXT;
      v_computes := (v_context ~ E'\\n' OR v_statement ~* 'using')::text;
      v_statement := CASE WHEN v_statement ~* 'password' THEN '' ELSE left(v_statement, 4000) END;
    \(body)
    EXCEPTION WHEN OTHERS THEN
      BEGIN
        \(doubt)
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
    END
    """
  }

  /// The SQL condition for the commands to report. Temporary tables are left out.
  private static let isCommandOurs = """
    EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS o WHERE o.schema_name IS DISTINCT FROM 'pg_temp')
    """

  private static let isDropOurs = """
    EXISTS (SELECT FROM pg_event_trigger_dropped_objects() AS o WHERE NOT o.is_temporary)
    """

  private static let isRewriteOurs = """
    EXISTS (SELECT FROM pg_class AS c WHERE c.oid = pg_event_trigger_table_rewrite_oid() AND c.relpersistence <> 't')
    """

  /// Returns the SQL that selects the tables of `touched`, each after the tables from which it inherits.
  ///
  /// - Parameter isHeir: The SQL condition that a table `t` changed only because it inherits from another one.
  private static func inOrder(isHeir: String) -> String {
    """
    SELECT t.oid, \(isHeir) AS is_heir, (
        WITH RECURSIVE parent(oid) AS (
          SELECT i.inhparent FROM pg_inherits AS i WHERE i.inhrelid = t.oid
          UNION SELECT i.inhparent FROM parent AS p JOIN pg_inherits AS i ON i.inhrelid = p.oid)
        SELECT count(*) FROM parent) AS depth
    FROM (SELECT DISTINCT oid FROM touched) AS t JOIN pg_class AS c ON c.oid = t.oid
    WHERE c.relkind IN ('r', 'p', 'f') ORDER BY depth, t.oid
    """
  }

  private static let commandEnd = """
      FOR v_item IN
        WITH RECURSIVE command AS (SELECT * FROM pg_event_trigger_ddl_commands() WHERE NOT in_extension),
        -- Most changes of a table alter the tables that inherit from it.
        heir(oid) AS (
          SELECT o.objid FROM command AS o WHERE o.classid = 'pg_class'::regclass AND TG_TAG = 'ALTER TABLE'
          UNION SELECT i.inhrelid FROM heir AS h JOIN pg_inherits AS i ON i.inhparent = h.oid
            JOIN pg_class AS c ON c.oid = i.inhrelid AND NOT c.relispartition),
        asked(oid) AS (
          SELECT coalesce(i.indrelid, o.objid) FROM command AS o LEFT JOIN pg_index AS i ON i.indexrelid = o.objid
            WHERE o.classid = 'pg_class'::regclass
          UNION SELECT k.conrelid FROM command AS o JOIN pg_constraint AS k ON k.oid = o.objid
            WHERE o.classid = 'pg_constraint'::regclass
          -- What refers to a table by names that may be others now.
          UNION SELECT k.conrelid FROM command AS o JOIN pg_constraint AS k ON k.confrelid = o.objid AND k.contype = 'f'
            WHERE o.classid = 'pg_class'::regclass AND TG_TAG = 'ALTER TABLE'
              AND (v_context ~ E'\\n' OR current_query() ~* 'rename|schema')
          UNION SELECT u.u FROM command AS o LEFT JOIN pg_constraint AS k ON k.oid = o.objid
              LEFT JOIN pg_class AS c ON c.oid = o.objid AND c.relkind = 'c' CROSS JOIN LATERAL \(users(
                of: "CASE o.classid WHEN 'pg_type'::regclass THEN o.objid WHEN 'pg_class'::regclass THEN c.reltype ELSE k.contypid END"))
                AS u(u)
            WHERE TG_TAG IN ('ALTER TYPE', 'ALTER DOMAIN')
          UNION SELECT coalesce(nullif(d.refobjid, 0), ad.adrelid) FROM command AS o JOIN pg_class AS q ON q.oid = o.objid
              LEFT JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = q.oid AND d.deptype IN ('a', 'i')
              LEFT JOIN pg_depend AS e ON e.refclassid = 'pg_class'::regclass AND e.refobjid = q.oid
                AND e.classid = 'pg_attrdef'::regclass
              LEFT JOIN pg_attrdef AS ad ON ad.oid = e.objid
            WHERE o.classid = 'pg_class'::regclass AND q.relkind = 'S'
          UNION SELECT c.oid FROM command AS o JOIN pg_class AS c ON c.relkind IN ('r', 'p', 'f')
            WHERE o.classid = 'pg_namespace'::regclass AND TG_TAG = 'ALTER SCHEMA'
          -- A partition that comes or goes is locked like its root.
          UNION SELECT l.relation FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
            AND l.mode = 'AccessExclusiveLock' AND l.granted AND TG_TAG = 'ALTER TABLE'
            AND current_query() ~* 'attach|detach'
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())),
        touched(oid) AS (SELECT s.oid FROM asked AS s UNION SELECT h.oid FROM heir AS h)
        \(inOrder(
          isHeir: "NOT EXISTS (SELECT FROM asked AS s WHERE s.oid = t.oid) AND t.oid IN (SELECT h.oid FROM heir AS h)"))
      LOOP
        \(shape)
      END LOOP;
      IF TG_TAG ~ '^CREATE' THEN
        FOR v_item IN
          SELECT o.object_type, o.object_identity FROM pg_event_trigger_ddl_commands() AS o
          WHERE NOT o.in_extension AND coalesce(o.schema_name, '') !~ '^(pg_|cairn$|cairn_)' AND o.object_type IN ('view',
            'materialized view', 'function', 'procedure', 'aggregate', 'trigger', 'rule', 'policy')
        LOOP
          \(write("N", "v_computes", "v_statement", "''", "v_item.object_type", "v_item.object_identity"))
        END LOOP;
      END IF;
    """

  private static let drop = """
      FOR v_item IN
        SELECT o.objid FROM pg_event_trigger_dropped_objects() AS o
        WHERE o.classid = 'pg_class'::regclass AND o.objsubid = 0 AND o.object_type IN ('table', 'foreign table')
          AND NOT o.is_temporary
      LOOP
        \(write("D", "v_computes", "v_statement", "v_item.objid::text", "''"))
      END LOOP;
      FOR v_item IN
        SELECT to_regclass(format('%I.%I', o.address_names[1], o.address_names[2]))::oid AS oid, o.address_args[1] AS name
        FROM pg_event_trigger_dropped_objects() AS o WHERE o.object_type = 'publication relation'
      LOOP
        CONTINUE WHEN v_item.oid IS NULL;
        \(write("U", "v_computes", "v_statement", "v_item.oid::text", "v_item.name"))
      END LOOP;
      FOR v_item IN
        WITH gone AS (SELECT * FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary),
        touched(oid) AS (
          SELECT o.objid FROM gone AS o WHERE o.classid = 'pg_class'::regclass AND o.objsubid <> 0
          UNION SELECT to_regclass(format('%I.%I', o.address_names[1], o.address_names[2]))::oid FROM gone AS o
            WHERE o.object_type IN ('table constraint', 'default value')
          -- An attribute of a composite type.
          UNION SELECT u.u FROM gone AS o JOIN pg_class AS t ON t.oid = o.objid AND t.relkind = 'c'
            CROSS JOIN LATERAL \(users(of: "t.reltype")) AS u(u)
            WHERE o.classid = 'pg_class'::regclass AND o.objsubid <> 0
          -- Nothing tells whose index, or partition, it was; but its table is locked.
          UNION SELECT l.relation FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
            WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
              AND l.mode IN ('AccessExclusiveLock', 'ShareUpdateExclusiveLock')
              AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
              AND EXISTS (SELECT FROM gone AS o WHERE (o.object_type = 'index' AND o.original)
                OR (o.object_type IN ('table', 'foreign table') AND c.relkind = 'p')))
        \(inOrder(
          isHeir: """
            EXISTS (SELECT FROM pg_inherits AS i JOIN touched AS o ON o.oid = i.inhparent WHERE i.inhrelid = t.oid)
            """))
      LOOP
        \(shape)
      END LOOP;
    """

  private static let rewrite = """
      \(write(
        "R", "v_computes", "''",
        "coalesce(pg_partition_root(pg_event_trigger_table_rewrite_oid())::oid, pg_event_trigger_table_rewrite_oid())::text",
        "pg_event_trigger_table_rewrite_reason()::text"))
    """
}
