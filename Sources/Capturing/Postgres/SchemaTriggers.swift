import Changes
import PostgresKit

/// Event triggers that write into the stream what became of tables, at its very place: one transactional message for each
/// table and command, with the whole shape as the catalog has it at that moment.
///
/// They are shared by all captures of a database, and never make a program's command fail or wait: what goes wrong in them
/// becomes a message that says no more than "look". They write nothing where no slot of Cairn's is there to read it.
///
/// Source: https://www.postgresql.org/docs/15/event-triggers.html
struct SchemaTriggers {
  /// Of the messages.
  static let prefix = "cairn.ddl"
  private static let names = ["ddl_command_end", "sql_drop", "table_rewrite"]
  /// Of the functions; a newer one replaces an older one.
  private static let version = 2

  let connection: PostgresConnection

  /// Whether all of them are there and fire, also where a session replicates.
  func isComplete() throws -> Bool {
    let there = try connection.first(
      """
      SELECT count(*) FROM pg_event_trigger AS e JOIN pg_proc AS p ON p.oid = e.evtfoid
      WHERE e.evtname = ANY ($1::text[]) AND e.evtenabled = 'A'
        AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'cairn')
        AND coalesce(substring(obj_description(p.oid, 'pg_proc') FROM 'version ([0-9]+)')::int, 0) >= \(Self.version)
      """, ["{" + Self.names.map { "cairn_" + $0 }.joined(separator: ",") + "}"])
    return there == String(Self.names.count)
  }

  /// Makes them where they are not there. Throws ``PostgresError`` with `isPrivilege` where the role may not: it takes a
  /// superuser.
  func install() throws {
    guard try !isComplete() else { return }
    try connection.transaction {
      // Two captures that begin at once, or an apply, which makes the schema too.
      try connection.query(
        "SELECT pg_advisory_xact_lock(hashtext('cairn.ddl')), pg_advisory_xact_lock(hashtext('cairn'))")
      try connection.execute(Self.script)
    }
  }

  /// False when there was nothing.
  func remove() throws -> Bool {
    let there = try connection.query("SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^cairn_'")
    let functions = try connection.query(
      "SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'cairn')"
    )
    guard !there.isEmpty || !functions.isEmpty else { return false }
    do {
      try connection.transaction {
        for row in there { try connection.execute("DROP EVENT TRIGGER IF EXISTS \((row[0] ?? "").quotedName)") }
        for row in functions { try connection.execute("DROP FUNCTION IF EXISTS \(row[0] ?? "") CASCADE") }
        let isEmpty = try connection.first("SELECT 1 FROM pg_class WHERE relnamespace = 'cairn'::regnamespace") == nil
        if isEmpty { try connection.execute("DROP SCHEMA cairn") }
      }
    } catch let error as PostgresError where error.isPrivilege {
      throw CairnError(
        .privilegeMissing, "\(connection.place): the event triggers cannot be taken away: \(error.message)",
        hint: "run 'cairn detach' as a superuser")
    }
    return true
  }

  /// What is said where they are not there.
  static func absence(_ place: String, _ why: String) -> String {
    """
    \(place): schema changes are found by looking at the catalog every few seconds, and cost a copy of the table, as its \
    event triggers are not there (\(why)); 'cairn replicate', run once as a superuser, makes them
    """
  }

  // MARK: SQL

  private static var script: String {
    let triggers = names.map { name in
      """
      DROP EVENT TRIGGER IF EXISTS cairn_\(name);
      CREATE EVENT TRIGGER cairn_\(name) ON \(name) EXECUTE FUNCTION cairn.\(name)();
      ALTER EVENT TRIGGER cairn_\(name) ENABLE ALWAYS;
      COMMENT ON FUNCTION cairn.\(name)() IS 'tells cairn of schema changes, version \(version)';
      """
    }
    return (["CREATE SCHEMA IF NOT EXISTS cairn;"] + functions + triggers).joined(separator: "\n")
  }

  /// What a function prints must not depend on the session that it runs in, and it waits for nobody.
  private static let settings =
    (PostgresConnection.printSettings + ["search_path=pg_catalog, pg_temp", "lock_timeout=20"])
    .map { setting in
      let parts = setting.split(separator: "=", maxSplits: 1)
      let value = parts[0] == "search_path" || parts[0] == "DateStyle" ? String(parts[1]) : "'\(parts[1])'"
      return "SET \(parts[0]) = \(value)"
    }.joined(separator: " ")

  private static func function(
    _ head: String, _ returns: String, _ body: String, language: String = "plpgsql", more: String = ""
  ) -> String {
    """
    CREATE OR REPLACE FUNCTION cairn.\(head) RETURNS \(returns) LANGUAGE \(language) SECURITY DEFINER
    \(settings)\(more) AS $cairn$\(body)$cairn$;
    REVOKE ALL ON FUNCTION cairn.\(head) FROM PUBLIC;
    """
  }

  private static let functions: [String] = [
    function("ddl_document(oid)", "text", document, more: " SET plan_cache_mode = 'force_generic_plan'"),
    function("ddl_write(letter text, fields text[], document text)", "void", write),
    function("ddl_users(type oid)", "SETOF oid", users, language: "sql"),
    function("ddl_shape(relation oid, tag text, computes text, statement text)", "void", shape),
    function("ddl_command_end()", "event_trigger", guarded(commandEnd, where: isCommandOurs)),
    function("sql_drop()", "event_trigger", guarded(drop, where: isDropOurs)),
    function("table_rewrite()", "event_trigger", guarded(rewrite, where: "true")),
  ]

  /// Not in the language SQL, which would plan it anew for each table: that takes longer than to run it.
  private static let document = """

    BEGIN
      IF \(CatalogDocument.usesTypes("$1")) THEN
        RETURN \(CatalogDocument.sql(of: "$1"));
      END IF;
      RETURN \(CatalogDocument.sql(of: "$1", types: false));
    END
    """

  private static let write = """

    BEGIN
      PERFORM pg_logical_emit_message(true, '\(prefix)', convert_to(
        letter || cardinality(fields) || ';' || \(CatalogDocument.encoded("fields")) || document, 'UTF8'));
      -- A message of a subtransaction counts as of its end, and may come behind the record that follows it.
      PERFORM pg_logical_emit_message(true, 'cairn.pad', '');
    END
    """

  /// Tables with a column that rests on a type.
  private static let users = """

      WITH RECURSIVE t(oid) AS (
        SELECT $1
        UNION SELECT x.oid FROM t CROSS JOIN LATERAL (
          SELECT y.oid FROM pg_type AS y WHERE y.typbasetype = t.oid OR (y.typelem = t.oid AND y.typcategory = 'A')
          UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngsubtype = t.oid
          UNION ALL SELECT r.rngmultitypid FROM pg_range AS r WHERE r.rngsubtype = t.oid
          UNION ALL SELECT c.reltype FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE a.atttypid = t.oid AND c.reltype <> 0 AND NOT a.attisdropped) AS x(oid))
      SELECT DISTINCT a.attrelid FROM pg_attribute AS a JOIN t ON t.oid = a.atttypid
        JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relkind IN ('r', 'p', 'f') AND NOT a.attisdropped
    """

  /// A partition is told as its root.
  private static let shape = """

    DECLARE
      root oid := coalesce(pg_partition_root(relation)::oid, relation);
      kind record;
    BEGIN
      SELECT c.relpersistence = 't' AS is_temporary, \(PostgresTable.isUsers("c", "n")) AS is_users INTO kind
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = root;
      IF NOT FOUND THEN
        PERFORM cairn.ddl_write('L', ARRAY['\(SchemaMessage.version)', tag, '', '', '', ''], '');
        RETURN;
      END IF;
      IF root <> relation AND tag = 'ALTER TABLE' THEN
        PERFORM cairn.ddl_write('D',
          ARRAY['\(SchemaMessage.version)', tag, computes, statement, relation::text, ''], '');
      END IF;
      IF kind.is_users THEN
        PERFORM cairn.ddl_write('S',
          ARRAY['\(SchemaMessage.version)', tag, computes, statement, root::text, ''], cairn.ddl_document(root));
      END IF;
    END
    """

  /// Nothing is told where nobody hears it, and whatever goes wrong is not the program's business.
  private static func guarded(_ body: String, where isOurs: String) -> String {
    """

    DECLARE
      statement text := current_query();
      context text;
      computes text;
      item record;
    BEGIN
      IF TG_TAG IN ('COMMENT', 'GRANT', 'REVOKE', 'SECURITY LABEL') OR NOT \(isOurs) OR NOT EXISTS (
        SELECT FROM pg_replication_slots AS s WHERE s.slot_name ~ '^cairn_' AND s.database = current_database())
      THEN
        RETURN;
      END IF;
      -- More than one line: the command runs inside of a function, and the statement is that which called it.
      GET DIAGNOSTICS context = PG_CONTEXT;
      computes := (context ~ E'\\n' OR statement ~* 'using')::text;
      statement := CASE WHEN statement ~* 'password' THEN '' ELSE left(statement, 4000) END;
    \(body)
    EXCEPTION WHEN OTHERS THEN
      BEGIN
        PERFORM cairn.ddl_write('L', ARRAY['\(SchemaMessage.version)', TG_TAG, '', '', '', ''], '');
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
    END
    """
  }

  /// Temporary tables come and go with many programs.
  private static let isCommandOurs = """
    EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS o WHERE o.schema_name IS DISTINCT FROM 'pg_temp')
    """

  private static let isDropOurs = """
    EXISTS (SELECT FROM pg_event_trigger_dropped_objects() AS o WHERE NOT o.is_temporary)
    """

  private static let commandEnd = """
      FOR item IN
        WITH command AS (SELECT * FROM pg_event_trigger_ddl_commands() WHERE NOT in_extension),
        touched(oid) AS (
          SELECT coalesce(i.indrelid, o.objid) FROM command AS o LEFT JOIN pg_index AS i ON i.indexrelid = o.objid
            WHERE o.classid = 'pg_class'::regclass
          UNION SELECT k.conrelid FROM command AS o JOIN pg_constraint AS k ON k.oid = o.objid
            WHERE o.classid = 'pg_constraint'::regclass
          -- What refers to a table by names that may be others now.
          UNION SELECT k.conrelid FROM command AS o JOIN pg_constraint AS k ON k.confrelid = o.objid AND k.contype = 'f'
            WHERE o.classid = 'pg_class'::regclass AND TG_TAG = 'ALTER TABLE'
              AND (context ~ E'\\n' OR current_query() ~* 'rename|schema')
          UNION SELECT u FROM command AS o LEFT JOIN pg_constraint AS k ON k.oid = o.objid
              LEFT JOIN pg_class AS c ON c.oid = o.objid AND c.relkind = 'c' CROSS JOIN LATERAL cairn.ddl_users(
                CASE o.classid WHEN 'pg_type'::regclass THEN o.objid WHEN 'pg_class'::regclass THEN c.reltype
                  ELSE k.contypid END) AS u
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
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
        SELECT DISTINCT t.oid FROM touched AS t JOIN pg_class AS c ON c.oid = t.oid WHERE c.relkind IN ('r', 'p', 'f')
        ORDER BY t.oid
      LOOP
        PERFORM cairn.ddl_shape(item.oid, TG_TAG, computes, statement);
      END LOOP;
      IF TG_TAG ~ '^CREATE' THEN
        FOR item IN
          SELECT o.object_type, o.object_identity FROM pg_event_trigger_ddl_commands() AS o
          WHERE NOT o.in_extension AND coalesce(o.schema_name, '') !~ '^(pg_|cairn$)' AND o.object_type IN ('view',
            'materialized view', 'function', 'procedure', 'aggregate', 'trigger', 'rule', 'policy')
        LOOP
          PERFORM cairn.ddl_write('N', ARRAY['\(SchemaMessage.version)', TG_TAG, computes, statement, '',
            item.object_type, item.object_identity], '');
        END LOOP;
      END IF;
    """

  private static let drop = """
      FOR item IN
        SELECT o.objid FROM pg_event_trigger_dropped_objects() AS o
        WHERE o.classid = 'pg_class'::regclass AND o.objsubid = 0 AND o.object_type IN ('table', 'foreign table')
          AND NOT o.is_temporary
      LOOP
        PERFORM cairn.ddl_write('D',
          ARRAY['\(SchemaMessage.version)', TG_TAG, computes, statement, item.objid::text, ''], '');
      END LOOP;
      FOR item IN
        SELECT to_regclass(format('%I.%I', o.address_names[1], o.address_names[2]))::oid AS oid, o.address_args[1] AS name
        FROM pg_event_trigger_dropped_objects() AS o WHERE o.object_type = 'publication relation'
      LOOP
        CONTINUE WHEN item.oid IS NULL;
        PERFORM cairn.ddl_write('U',
          ARRAY['\(SchemaMessage.version)', TG_TAG, computes, statement, item.oid::text, item.name], '');
      END LOOP;
      FOR item IN
        WITH gone AS (SELECT * FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary),
        touched(oid) AS (
          SELECT o.objid FROM gone AS o WHERE o.classid = 'pg_class'::regclass AND o.objsubid <> 0
          UNION SELECT to_regclass(format('%I.%I', o.address_names[1], o.address_names[2]))::oid FROM gone AS o
            WHERE o.object_type IN ('table constraint', 'default value')
          -- Nothing tells whose index, or partition, it was; but its table is locked.
          UNION SELECT l.relation FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
            WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
              AND l.mode IN ('AccessExclusiveLock', 'ShareUpdateExclusiveLock')
              AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
              AND EXISTS (SELECT FROM gone AS o WHERE (o.object_type = 'index' AND o.original)
                OR (o.object_type IN ('table', 'foreign table') AND c.relkind = 'p')))
        SELECT DISTINCT t.oid FROM touched AS t JOIN pg_class AS c ON c.oid = t.oid WHERE c.relkind IN ('r', 'p', 'f')
        ORDER BY t.oid
      LOOP
        PERFORM cairn.ddl_shape(item.oid, TG_TAG, computes, statement);
      END LOOP;
    """

  private static let rewrite = """
      PERFORM cairn.ddl_write('R', ARRAY['\(SchemaMessage.version)', TG_TAG, computes, '',
        coalesce(pg_partition_root(pg_event_trigger_table_rewrite_oid())::oid,
          pg_event_trigger_table_rewrite_oid())::text,
        pg_event_trigger_table_rewrite_reason()::text], '');
    """
}
