import Changes
import Foundation
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Testing
@testable import Applying

/// Code of a table's owner at the target does not run with the rights of apply (finding M1).
@Suite(.enabled(if: PostgresServer.isAvailable)) struct OwnersCodeTests {
  /// A table of role `low`, and a function of its that tells with which rights it ran.
  private static let owned = """
    DROP TABLE IF EXISTS public.item; CREATE TABLE public.item(id integer PRIMARY KEY, v text);
    """

  private struct Trap: Sendable, CustomStringConvertible {
    var kind: String
    var sql: String
    var description: String { kind }
    init(_ kind: String, _ sql: String) { (self.kind, self.sql) = (kind, sql) }
  }

  private static let traps = [
    Trap(
      "trigger",
      "CREATE TRIGGER spy BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION low.spy(); "
        + "ALTER TABLE item ENABLE ALWAYS TRIGGER spy"),
    Trap(
      "trigger",
      "CREATE TRIGGER spy BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION low.spy(); "
        + "ALTER TABLE item ENABLE REPLICA TRIGGER spy"),
    Trap(
      "rule",
      "CREATE RULE spy AS ON INSERT TO item DO ALSO INSERT INTO low.seen VALUES (low.tell('rule')); "
        + "ALTER TABLE item ENABLE ALWAYS RULE spy"),
    Trap(
      "check constraint",
      "ALTER TABLE item ADD CONSTRAINT spy CHECK (low.tell(v) IS NOT NULL)"),
    Trap(
      "default of column",
      "ALTER TABLE item ADD COLUMN spy text DEFAULT low.tell('default')"),
    Trap(
      "default of column",
      "ALTER TABLE item ADD COLUMN spy text GENERATED ALWAYS AS (low.pure(v)) STORED"),
    Trap(
      "index",
      "CREATE INDEX spy ON item (low.pure(v))"),
    Trap(
      "index",
      "CREATE INDEX spy ON item (id) WHERE low.pure(v) IS NOT NULL"),
    Trap(
      "constraint of domain",
      "CREATE DOMAIN low.word AS text CONSTRAINT spy CHECK (low.tell(VALUE) IS NOT NULL); "
        + "ALTER TABLE item ALTER v TYPE low.word"),
    Trap(
      "check constraint",
      "CREATE OPERATOR low.@@@ (LEFTARG = text, RIGHTARG = text, FUNCTION = low.both); "
        + "ALTER TABLE item ADD CONSTRAINT spy CHECK (v OPERATOR(low.@@@) v IS NOT NULL)"),
    Trap(
      "check constraint",
      "ALTER TABLE item ADD CONSTRAINT spy CHECK (query_to_xml('SELECT low.tell($$xml$$)', true, true, "
        + "'') IS NOT NULL)"),
    Trap("constraint of domain", "\(domain); ALTER TABLE item ADD COLUMN words low.word[]"),
    Trap(
      "constraint of domain",
      "\(domain); CREATE DOMAIN low.sentence AS low.word[]; CREATE TYPE low.book AS (title text, lines low.sentence); "
        + "ALTER TABLE item ADD COLUMN books low.book[]"),
    Trap(
      "check constraint",
      "\(domain); CREATE TYPE low.pair AS (a low.word, b text); "
        + "ALTER TABLE item ADD CONSTRAINT spy CHECK (ROW(v, v)::low.pair IS NOT NULL)"),
    Trap(
      "type of column",
      "CREATE FUNCTION low.diff(a float8, b float8) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS "
        + "$$ BEGIN PERFORM low.tell('range'); RETURN a - b; END $$; "
        + "CREATE TYPE low.span AS RANGE (subtype = float8, subtype_diff = low.diff); ALTER TABLE item ADD COLUMN s low.span"
    ),
    Trap(
      "type of column",
      "CREATE TYPE low.mood AS ENUM ('good'); CREATE FUNCTION low.feel(v text) RETURNS low.mood LANGUAGE plpgsql AS "
        + "$$ BEGIN PERFORM low.tell(v); RETURN 'good'; END $$; "
        + "CREATE CAST (text AS low.mood) WITH FUNCTION low.feel(text) AS IMPLICIT; ALTER TABLE item ADD COLUMN m low.mood"
    ),
    Trap(
      "type of column",
      "CREATE FUNCTION low.diff(a float8, b float8) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS "
        + "$$ BEGIN PERFORM low.tell('range'); RETURN a - b; END $$; "
        + "CREATE TYPE low.span AS RANGE (subtype = float8, subtype_diff = low.diff, multirange_type_name = low.spans); "
        + "ALTER TABLE item ADD COLUMN s low.spans"),
    Trap("index", "ALTER TABLE item ADD CONSTRAINT spy EXCLUDE (low.pure(v) WITH =)"),
    Trap("statistics", "CREATE STATISTICS low.spy ON (low.pure('x') || v), id FROM item"),
  ]
  private static let domain = "CREATE DOMAIN low.word AS text CONSTRAINT spy CHECK (low.tell(VALUE) IS NOT NULL)"

  /// Role `low` may make things in its database, and nothing else.
  private func started() throws -> PostgresTarget {
    let target = try PostgresTarget()
    try target.psql(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low;
      SET ROLE low;
      CREATE TABLE low.seen(who text);
      GRANT ALL ON low.seen TO PUBLIC; GRANT USAGE ON SCHEMA low TO PUBLIC;
      CREATE FUNCTION low.tell(v text) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN coalesce(v, ''); END $$;
      CREATE FUNCTION low.pure(v text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN IF current_user <> 'low' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN v; END $$;
      CREATE FUNCTION low.both(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT low.tell(a || b) $$;
      CREATE FUNCTION low.spy() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN NEW; END $$;
      RESET ROLE;
      \(Self.owned)
      ALTER TABLE item OWNER TO low;
      GRANT CREATE ON SCHEMA public TO low;
      """)
    try target.trail.shape("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)")
    try target.trail.transaction {
      try target.trail.create("item")
      try target.trail.copy("item", [])
    }
    return target
  }

  @Test(arguments: traps) private func `code of another role is refused before it runs`(_ trap: Trap) throws {
    let target = try started()
    try target.psql("SET ROLE low; SET search_path = public; \(trap.sql)")
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    let error = failure { try target.replay() }
    #expect(error?.message.contains("belongs to role low") == true, "\(error?.description ?? "no error")")
    #expect(error?.message.contains(trap.kind) == true && error?.message.contains("item") == true)
    #expect(try target.psql("SELECT * FROM low.seen") == "")
    // The planner computes constants in the expressions of statistics.
    if trap.kind == "statistics" { try target.psql("DROP STATISTICS low.spy") }
    #expect(try target.psql("SELECT count(*) FROM item") == "0")
  }

  @Test func `code that comes after the table was opened is refused, too`() throws {
    let target = try started()
    let trail = target.trail
    try trail.transaction { try trail.insert("item", [1, "x"]) }
    let (stop, drain) = (StopSignal(), StopSignal())
    let (url, options, progress) = (target.url, target.options, target.progress)
    let (folder, name) = (trail.trail, trail.name)
    let worker = WorkerThread {
      let apply = try? PostgresApply(uri: url, trail: folder, name: name, options: options, progress: progress)
      try? apply?.run(stop: stop, drain: drain)
    }
    func wait(_ isDone: () throws -> Bool) throws {
      for _ in 0..<500 where try !isDone() { Clock.sleep(milliseconds: 20) }
    }
    try wait { try target.psql("SELECT count(*) FROM item") == "1" }
    // The table stays open from one group to the next.
    try trail.transaction { try trail.insert("item", [2, "y"]) }
    try wait { try target.psql("SELECT count(*) FROM item") == "2" }
    try target.psql("SET ROLE low; SET search_path = public; \(Self.traps[0].sql)")
    try trail.transaction { try trail.insert("item", [3, "z"]) }
    try wait { !target.progress.snapshot.waiting.isEmpty }
    #expect(target.progress.snapshot.waiting.first?.code == .ownersCode)
    #expect(try target.psql("SELECT * FROM low.seen") == "")
    // The table goes on by itself once the trigger is gone.
    try target.psql("DROP TRIGGER spy ON item")
    try wait { try target.psql("SELECT count(*) FROM item") == "3" }
    #expect(try target.psql("SELECT count(*) FROM item") == "3")
    stop.set()
    _ = worker.join()
  }

  @Test func `a trigger that the conf names fires, and one of a trusted role`() throws {
    let target = try started()
    try target.psql("SET ROLE low; SET search_path = public; \(Self.traps[0].sql)")
    target.options.fireTriggers = ["s*"]
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT * FROM low.seen") == "postgres")
    try target.psql("ALTER FUNCTION low.spy() OWNER TO postgres")
    target.options.fireTriggers = []
    try target.trail.transaction { try target.trail.insert("item", [2, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM low.seen") == "2")
  }

  @Test func `tables with builtin expressions, domains and quiet triggers are no matter`() throws {
    let target = try started()
    try target.psql(
      """
      SET ROLE low; SET search_path = public; CREATE DOMAIN low.short AS text CHECK (length(VALUE) < 99);
      ALTER TABLE item ALTER v TYPE low.short, ADD CHECK (upper(v) <> 'NO' AND id + 1 > 0), ADD COLUMN at timestamptz
        DEFAULT now(), ADD COLUMN n bigint GENERATED ALWAYS AS (id * 2) STORED;
      CREATE INDEX ON item (lower(v)) WHERE id > 0;
      CREATE TRIGGER quiet BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION low.spy()
      """)
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT id, v, n FROM item") == "1|x|2")
    #expect(try target.psql("SELECT * FROM low.seen") == "")
  }

  /// Whoever owns another type could keep a table from being written by a cast from or to one of its types.
  @Test func `types and casts of a role that owns nothing of the table are no matter`() throws {
    let target = try started()
    try target.psql(
      """
      CREATE TYPE public.state AS ENUM ('on', 'off'); ALTER TABLE item OWNER TO postgres;
      ALTER TABLE item ADD COLUMN s public.state DEFAULT 'on';
      SET ROLE low; CREATE TYPE low.mood AS ENUM ('good');
      CREATE FUNCTION low.feel(v text) RETURNS low.mood LANGUAGE plpgsql AS
        $$ BEGIN PERFORM low.tell(v); RETURN 'good'; END $$;
      CREATE FUNCTION low.turn(v low.mood) RETURNS public.state LANGUAGE plpgsql AS
        $$ BEGIN PERFORM low.tell('turned'); RETURN 'off'; END $$;
      CREATE CAST (text AS low.mood) WITH FUNCTION low.feel(text) AS IMPLICIT;
      CREATE CAST (low.mood AS public.state) WITH FUNCTION low.turn(low.mood) AS IMPLICIT
      """)
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT id, v, s FROM item") == "1|x|on")
    #expect(try target.psql("SELECT * FROM low.seen") == "")
  }

  @Test func `a schema cairn of another role is refused`() throws {
    let target = try started()
    try target.psql("CREATE SCHEMA cairn AUTHORIZATION low")
    let error = failure { try target.replay() }
    #expect(error?.code == .privilegeMissing && error?.message.contains("schema cairn") == true)
    try target.psql("DROP SCHEMA cairn")
    try target.replay()
    try target.psql("ALTER TABLE cairn.pending OWNER TO low")
    #expect(failure { try target.replay() }?.message.contains("cairn.pending") == true)
  }

  // MARK: Statements in tables

  @Test func `no text of cairn.pending is run`() throws {
    let target = try PostgresTarget()
    try target.begin(postgres: "CREATE TABLE parent(id integer PRIMARY KEY)", "parent", [[.exact("1")]])
    try target.shape(
      postgres: """
        CREATE TABLE parent(id integer PRIMARY KEY);
        CREATE TABLE child(id integer PRIMARY KEY, "par""ent" integer REFERENCES parent ON DELETE CASCADE
          DEFERRABLE INITIALLY DEFERRED, n integer);
        CREATE INDEX child_n ON child (n)
        """)
    try target.trail.transaction { try target.trail.create("child") }
    try target.replay()
    #expect(try target.psql("SELECT DISTINCT statement FROM cairn.pending") == "")
    #expect(try target.psql("SELECT count(*) FROM cairn.pending") == "2")
    // What an earlier version left, or an attacker planted.
    try target.psql(
      """
      INSERT INTO cairn.pending(schema_name, table_name, kind, name, statement, needs_schema, needs_table) VALUES
        ('public', 'child', 'index', 'child_x', 'CREATE TABLE pwned_index()', '', ''),
        ('public', 'child', 'foreign key', 'child_y', 'CREATE TABLE pwned_key(); SELECT 1', 'public', 'parent');
      INSERT INTO cairn.pending VALUES ('public', 'child', 'foreign key', 'child_z', '', 'public', 'parent',
        '{"columns": ["n"], "references": ["id"], "on_update": "CASCADE; CREATE TABLE pwned_action()", "on_delete": "",
          "delete_columns": [], "timing": 0, "full": false}');
      UPDATE cairn.pending SET statement = 'CREATE TABLE pwned_text()' WHERE statement = ''
      """)
    try target.trail.transaction {
      try target.trail.copy("child", [[.exact("1"), .exact("1"), .exact("7")]])
    }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'pwned%'") == "0")
    #expect(try target.psql("SELECT count(*) FROM cairn.pending") == "0")
    #expect(target.progress.snapshot.notices.contains { $0.contains("child_y") && $0.contains("is not run") })
    #expect(try target.psql("SELECT to_regclass('child_n') IS NOT NULL") == "t")
    let key = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'"
    let wanted = #"FOREIGN KEY ("par""ent") REFERENCES parent(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"#
    #expect(try target.psql(key) == wanted)
    // Set aside while the other table changes its key, and added again with all its parts.
    try target.psql("ALTER TABLE child DROP CONSTRAINT \"child_par\"\"ent_fkey\"")
    try target.psql(
      #"ALTER TABLE child ADD CONSTRAINT f FOREIGN KEY ("par""ent") REFERENCES parent(id) MATCH FULL ON UPDATE RESTRICT ON DELETE SET NULL"#
    )
    let before = try target.psql(key)
    let connection = try PostgresConnection(target.url)
    try connection.transaction {
      let state = PostgresTargetState(connection, of: target.trail.name)
      let shape = PostgresShape(
        connection: connection, state: state, progress: target.progress, tables: try state.tables(), waiting: [],
        isLane: false)
      let parent = PostgresTargetState.Table(schema: "public", name: "parent")
      try shape.setReferencesAside(parent)
      #expect(try connection.first("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == "0")
      try shape.makeForeignKeys(PostgresSink(connection))
    }
    #expect(try target.psql(key) == before)
  }
}
