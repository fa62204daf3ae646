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
  /// A table of role `low`, and a function of that role that notes with which rights it ran.
  private static let owned = """
    DROP TABLE IF EXISTS public.item; CREATE TABLE public.item(id integer PRIMARY KEY, v text);
    """

  private struct Trap: Sendable, CustomStringConvertible {
    var kind: String
    var sql: String
    var description: String { kind }
    /// The first server version that knows the SQL.
    var from: Int
    init(_ kind: String, _ sql: String, from: Int = 0) { (self.kind, self.sql, self.from) = (kind, sql, from) }
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
    // A number leaves no trace in the catalog.
    Trap("check constraint", numbered("domain_in('x'::cstring, %s::oid, -1) IS NOT NULL", "low.word")),
    Trap("check constraint", numbered("array_in('{x}'::cstring, %s::oid, -1) IS NOT NULL", "low.word")),
    Trap("check constraint", numbered("record_in('(x)'::cstring, %s::oid, -1) IS NOT NULL", "low.pages")),
    Trap("default of column", "ALTER TABLE item ADD COLUMN spy integer DEFAULT pg_advisory_unlock(1)::integer"),
    Trap("default of column", "ALTER TABLE item ADD COLUMN spy text DEFAULT set_config('a.b', 'c', false)"),
    Trap("check constraint", "ALTER TABLE item ADD CONSTRAINT spy CHECK (to_regclass(v) IS NOT NULL)"),
    Trap(
      "constraint of domain",
      "CREATE DOMAIN low.lookup AS text CHECK (domain_in(VALUE::cstring, 99, -1) IS NOT NULL); "
        + "ALTER TABLE item ADD COLUMN words low.lookup"),
    Trap("default of column", "ALTER TABLE item ADD COLUMN n bigint DEFAULT nextval('public.numbers'::regclass)"),
    Trap("check constraint", "ALTER TABLE item ADD CONSTRAINT spy CHECK (nextval(v::regclass) > 0)"),
    Trap(
      "check constraint",
      "CREATE SEQUENCE low.own; ALTER TABLE item ADD CONSTRAINT spy "
        + "CHECK (nextval('low.own') + nextval('99999999'::regclass) > 0)"),
    Trap("check constraint", "ALTER TABLE item ADD CONSTRAINT spy CHECK (public.clean(v) IS NOT NULL)"),
    Trap(
      "trigger",
      "CREATE TRIGGER spy BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION public.tidy(); "
        + "ALTER TABLE item ENABLE ALWAYS TRIGGER spy"),
    Trap(
      "check constraint",
      "\(domain); ALTER TABLE item ADD CONSTRAINT spy "
        + "CHECK (JSON_VALUE(JSON_SCALAR(v)::jsonb, '$' RETURNING low.word) IS NOT NULL)", from: 170_000),
    Trap(
      "check constraint",
      "\(domain); ALTER TABLE item ADD CONSTRAINT spy CHECK (JSON_OBJECT('a' VALUE v RETURNING low.word) IS NOT NULL)",
      from: 160_000),
    // The result of a polymorphic function, and a cast while a function runs, leave no trace either.
    Trap("check constraint", ranged("json", "to_json(multirange('[1,5)'::low.r)) IS NOT NULL"), from: 140_000),
    Trap(
      "check constraint", ranged("json", "to_jsonb(array_fill(multirange('[1,5)'::low.r), '{2}')) IS NOT NULL"),
      from: 140_000),
    Trap("check constraint", ranged("text", "quote_literal(multirange('[1,5)'::low.r)) <> 'no'"), from: 140_000),
    Trap("check constraint", ranged("text", "'no' <> 'x' || multirange('[1,5)'::low.r)"), from: 140_000),
    Trap(
      "check constraint",
      ranged("json", "jsonb_build_array(multirange(s)) IS NOT NULL", "ADD COLUMN s low.r DEFAULT '[1,5)', "),
      from: 140_000),
    Trap("statistics", "CREATE STATISTICS low.spy ON (low.pure('x') || v), id FROM item"),
  ]
  private static func numbered(_ check: String, _ type: String) -> String {
    """
    \(domain); CREATE TYPE low.pages AS (line low.word);
    DO $$ BEGIN EXECUTE format($q$ALTER TABLE item ADD CONSTRAINT spy CHECK (\(check)) NOT VALID$q$,
      '\(type)'::regtype::oid); END $$
    """
  }
  /// A cast of the multirange that belongs to a range, and a CHECK.
  private static func ranged(_ type: String, _ check: String, _ more: String = "") -> String {
    """
    CREATE TYPE low.r AS RANGE (subtype = int4);
    CREATE FUNCTION low.f(x low.r_multirange) RETURNS \(type) LANGUAGE plpgsql AS
      $$ BEGIN PERFORM low.tell('cast'); RETURN '1'; END $$;
    CREATE CAST (low.r_multirange AS \(type)) WITH FUNCTION low.f(low.r_multirange);
    ALTER TABLE item \(more)ADD CONSTRAINT spy CHECK (\(check))
    """
  }
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
      RESET ROLE; RESET search_path;
      DO $$ BEGIN CREATE ROLE boss SUPERUSER; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SEQUENCE public.numbers;
      SET ROLE boss;
      CREATE FUNCTION public.clean(v text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN v; END $$;
      CREATE FUNCTION public.tidy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
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

  @Test func `a table whose definitions print too long is suspended, and no other`() throws {
    let target = try started()
    let numbers = Array(repeating: "1e131000::numeric", count: 90).joined(separator: ",")
    let long = "concat(\(Array(repeating: "concat(\(numbers))", count: 4).joined(separator: ",")))"
    try target.trail.shape("CREATE TABLE other(id INTEGER PRIMARY KEY)")
    try target.trail.transaction {
      try target.trail.create("other")
      try target.trail.insert("other", [1])
    }
    try target.replay()
    try target.psql("SET ROLE low; ALTER TABLE item ALTER v SET DEFAULT \(long)")
    try target.trail.transaction {
      try target.trail.insert("item", [1, "x"])
      try target.trail.insert("other", [2])
    }
    #expect(failure { try target.replay() }?.message.contains("table item is suspended") == true)
    let waiting = target.progress.snapshot.waiting
    #expect(waiting.map(\.name) == ["item"] && waiting.first?.message.contains("16 MiB") == true, "\(waiting)")
    #expect(try target.psql("SELECT count(*) FROM other") == "2")
  }

  @Test func `an apply says at its start which schemas another role can exchange`() throws {
    let target = try started()
    try target.psql("GRANT CREATE ON DATABASE \(target.name.quotedName) TO low")
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    let notices = target.progress.snapshot.notices.filter { $0.contains("can exchange a table") }
    #expect(notices.count == 1 && notices.first?.contains("role low owns schema low") == true, "\(notices)")
    #expect(notices.first?.contains("ALTER SCHEMA \"low\" OWNER TO CURRENT_USER") == true)
  }

  @Test(arguments: Seeds.half(of: traps)) private func `code of another role is refused before it runs`(_ trap: Trap)
    throws
  {
    let target = try started()
    guard try PostgresConnection(target.url).serverVersion >= trap.from else { return }
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
    let worker = try WorkerThread {
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
    target.options.fireTriggers = ["item.s*"]
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT * FROM low.seen") == "postgres")
    try target.psql("ALTER FUNCTION low.spy() OWNER TO postgres")
    target.options.fireTriggers = []
    try target.trail.transaction { try target.trail.insert("item", [2, "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM low.seen") == "2")
  }

  /// The owner of a table can give his trigger the name of one that the conf names for another table.
  @Test(
    arguments: [
      (["spy"], true), (["s*"], true), (["other.spy"], false), (["ITEM.spy"], false), (["other.spy", "spy"], true),
      (["low.item.spy"], false), (["item.*", "!spy"], false), (["item.spy", "!public.*.*"], false),
      (["item.spy"], true),
      (["public.item.spy"], true), (["!spy", "*.s?y"], true),
    ] as [(patterns: [String], fires: Bool)], ["", "PARTITION BY RANGE (id)"])
  func `a trigger of another role fires only if the conf names its table`(
    conf: (patterns: [String], fires: Bool), partitions: String
  ) throws {
    let target = try started()
    try target.psql(
      """
      DROP TABLE item; SET ROLE low; SET search_path = public; CREATE TABLE item(id integer PRIMARY KEY, v text) \(partitions);
      \(partitions.isEmpty ? "" : "CREATE TABLE part PARTITION OF item DEFAULT;") \(Self.traps[0].sql)
      """)
    target.options.fireTriggers = conf.patterns
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    let error = failure { try target.replay() }
    #expect((error == nil) == conf.fires, "\(error?.message ?? "")")
    if !conf.fires { #expect(error?.hint.contains(#"fire_triggers = ["item.spy"]"#) == true, "\(error?.hint ?? "")") }
    #expect(try target.psql("SELECT * FROM low.seen") == (conf.fires ? "postgres" : ""))
  }

  @Test(arguments: ["spy", "s*"])
  func `a bare name of a trigger counts for nothing if tables of two owners have one`(pattern: String) throws {
    let target = try started()
    try target.psql(
      """
      CREATE TABLE other(id integer); CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER spy AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION quiet();
      DROP TABLE item; SET ROLE low; SET search_path = public; CREATE TABLE item(id integer PRIMARY KEY, v text);
      \(Self.traps[0].sql)
      """)
    target.options.fireTriggers = [pattern]
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    #expect(failure { try target.replay() }?.hint.contains(#"fire_triggers = ["item.spy"]"#) == true)
    #expect(try target.psql("SELECT * FROM low.seen") == "")
  }

  @Test func `a pattern of a trigger means one schema and one table`() {
    var options = ApplyOptions()
    func fires(_ pattern: String, _ namespace: String, _ table: String, _ name: String) -> Bool {
      options.fireTriggers = [pattern]
      return options.fires(.init(namespace: namespace, table: table, name: name), among: [])
    }
    #expect(fires("a.b.c", "a", "b", "c"))
    #expect(!fires("a.b.c", "public", "a.b", "c") && !fires("a.b.c", "public", "a", "b.c"))
    #expect(!fires("b.c", "a", "b", "c") && !fires("b.c", "a", "public.b", "c"))
    #expect(!fires("caf\u{e9}.c", "public", "cafe\u{301}", "c") && fires("caf?.c", "public", "caf\u{e9}", "c"))
    for name in ["plain", "a.b", "!x", "a*"] {
      let trigger = OwnersCode.Trigger(namespace: "s.\(name)", table: name, name: name)
      #expect(fires(trigger.pattern, trigger.namespace, trigger.table, trigger.name), "\(trigger.pattern)")
    }
  }

  // MARK: Statements of apply's own

  /// A domain, a cast and a composite type of role `low`; each runs `low.h`.
  private static let typeTraps: [(type: String, before: String, after: String)] = [
    ("CREATE DOMAIN public.dd AS integer CHECK (low.h(VALUE))", "v integer", "v integer, c dd DEFAULT 5"),
    ("CREATE DOMAIN public.dd AS integer CHECK (low.h(VALUE))", "v integer", "v dd"),
    ("CREATE DOMAIN public.dd AS integer CHECK (low.h(VALUE))", "v integer", "v integer, c dd[] DEFAULT '{5}'"),
    ("CREATE DOMAIN public.dd AS integer CHECK (low.h(VALUE))", "v integer", "v integer, c integer DEFAULT 5::dd"),
    (
      "CREATE DOMAIN low.dd AS integer CHECK (low.h(VALUE)); CREATE TYPE public.pair AS (a low.dd)", "v integer",
      "v integer, c pair DEFAULT '(5)'"
    ),
    (
      """
      CREATE TYPE public.mood AS ENUM ('1'); CREATE FUNCTION low.feel(v text) RETURNS public.mood LANGUAGE plpgsql AS
        $$ BEGIN PERFORM low.tell(v); RETURN '1'; END $$; CREATE CAST (text AS public.mood) WITH FUNCTION low.feel(text)
      """, "v text", "v mood"
    ),
    (
      """
      CREATE DOMAIN public.dd AS integer CHECK (low.h(VALUE)); RESET ROLE; ALTER DOMAIN public.dd OWNER TO postgres
      """, "v integer", "v integer, c dd DEFAULT 5"
    ),
  ]

  @Test(arguments: typeTraps.indices, [false, true])
  func `apply's own DDL runs no code of a type of another role`(number: Int, isNew: Bool) throws {
    let trap = Self.typeTraps[number]
    let target = try started()
    try target.psql(
      """
      SET ROLE low; CREATE FUNCTION low.h(v integer) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN PERFORM low.tell('check'); RETURN true; END $$; \(trap.type)
      """)
    let types = """
      CREATE DOMAIN dd AS integer; CREATE TYPE pair AS (a integer); CREATE TYPE mood AS ENUM ('1');
      """
    let trail = target.trail
    let after = "\(types) CREATE TABLE m(id integer PRIMARY KEY, \(trap.after))"
    if isNew {
      try target.shape(postgres: after)
      try trail.transaction { try trail.create("m") }
    } else {
      try target.begin(
        postgres: "\(types) CREATE TABLE m(id integer PRIMARY KEY, \(trap.before))", "m", [[.exact("1"), .exact("1")]])
      let old = try #require(trail.latest("m"))
      try target.shape(postgres: after)
      let new = try #require(trail.latest("m"))
      trail.shape(old)
      try trail.transaction { try trail.reshape("m", new) }
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .schemaStopped && error?.message.contains("role low") == true, "\(error?.message ?? "none")")
    #expect(error?.hint.contains("ADD COLUMN") == false && error?.hint.contains("CREATE TABLE") == false)
    #expect(try target.psql("SELECT * FROM low.seen") == "")
    try target.psql("ALTER FUNCTION low.h(integer) OWNER TO postgres")
    for (kind, name) in [
      ("DOMAIN", "public.dd"), ("DOMAIN", "low.dd"), ("TYPE", "public.pair"), ("TYPE", "public.mood"),
    ]
    where try target.psql("SELECT to_regtype('\(name)') IS NOT NULL") == "t" {
      try target.psql("ALTER \(kind) \(name) OWNER TO postgres")
    }
    try target.psql(
      "DO $$ BEGIN ALTER FUNCTION low.feel(text) OWNER TO postgres; EXCEPTION WHEN undefined_function THEN END $$")
    if !trap.type.contains("pair") {
      try target.replay()
      #expect(try target.psql("SELECT count(*) FROM m") == (isNew ? "0" : "1"))
    }
  }

  /// Apply moves the sequence within two seconds of the row.
  @Test func `a table that takes the name of one with a sequence runs no cast of its owner`() throws {
    let target = try started()
    try target.psql(
      """
      DROP TABLE item; SET ROLE low;
      CREATE TABLE public.item(id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v text); CREATE TYPE low.t AS (a bigint);
      CREATE FUNCTION low.f(x low.t) RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN PERFORM low.tell('cast'); RETURN (x).a; END $$;
      CREATE CAST (low.t AS bigint) WITH FUNCTION low.f(low.t) AS IMPLICIT;
      CREATE TABLE public.other(id low.t, v text); INSERT INTO public.other VALUES (ROW(5), 'x');
      CREATE SEQUENCE public.numbered OWNED BY public.other.id
      """)
    let last = "SELECT pg_sequence_last_value('public.item_id_seq')"
    try running(target) { wait in
      try target.trail.transaction { try target.trail.insert("item", [7, "x"]) }
      try wait { try target.psql(last) == "7" }
      try target.trail.transaction { try target.trail.insert("item", [8, "y"]) }
      try wait { try target.psql("SELECT count(*) FROM public.item") == "2" }
      try target.psql("SET ROLE low; ALTER TABLE public.item RENAME TO gone; ALTER TABLE public.other RENAME TO item")
      Clock.sleep(milliseconds: 3500)
    }
    #expect(try target.psql("SELECT * FROM low.seen") == "")
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

  /// Features that tables of applications have. Each is a table of role `low`, which apply does not trust.
  private static let ordinary = [
    "price numeric(10,2) CHECK (price >= 0 AND price < 1e6)", "at timestamptz DEFAULT now() CHECK (at > '2000-01-01')",
    "at timestamptz DEFAULT CURRENT_TIMESTAMP + interval '1 day'", "d date DEFAULT CURRENT_DATE CHECK (d <= now())",
    "u uuid DEFAULT gen_random_uuid() NOT NULL", "n serial", "n bigint DEFAULT nextval('low.counted')",
    "n bigint GENERATED BY DEFAULT AS IDENTITY", "mail text CHECK (mail ~* '^[^@ ]+@[^@ ]+$')",
    "name text CHECK (char_length(trim(name)) BETWEEN 1 AND 80) DEFAULT 'x'",
    "s text CHECK (s = ANY (ARRAY['a', 'b']) OR s IN ('c')) DEFAULT 'a'",
    "s varchar(9) CHECK (lower(s) = s) DEFAULT 'q'",
    "j jsonb DEFAULT '{}' CHECK (jsonb_typeof(j) = 'object' AND NOT j ? 'no' AND j -> 'a' IS NULL AND j @> '{}')",
    "j jsonb DEFAULT jsonb_build_object('a', now()) CHECK (octet_length(j::text) < 100)",
    "t text[] DEFAULT '{}' CHECK (cardinality(t) < 5 AND array_to_string(t, ',') <> 'no')",
    "g text GENERATED ALWAYS AS (coalesce(v, '') || ':' || id::text) STORED",
    "g tsvector GENERATED ALWAYS AS (to_tsvector('english', coalesce(v, ''))) STORED",
    "g integer GENERATED ALWAYS AS (id % 7 * 2 + abs(id)) STORED",
    "r int4range DEFAULT int4range(1, 5) CHECK (NOT isempty(r) AND lower(r) > 0)",
    "p point DEFAULT point(1, 2) CHECK (p <@ box '((0,0),(9,9))')", "b boolean DEFAULT true CHECK (b IS NOT FALSE)",
    "a inet DEFAULT '10.0.0.1' CHECK (family(a) = 4 AND a << '10.0.0.0/8')", "x xml DEFAULT '<a/>'",
    "w text DEFAULT CURRENT_USER", "w text DEFAULT session_user || current_database()", "m money DEFAULT 5::money",
    "w text DEFAULT current_setting('a.tenant', true)", "c bigint DEFAULT txid_current()",
    "e interval DEFAULT '1 day' CHECK (e > '0' AND extract(epoch FROM e) < 1e9)",
    "h bytea DEFAULT sha256('x'::bytea) CHECK (octet_length(h) = 32)", "k text DEFAULT md5(random()::text)",
    "f text DEFAULT format('%s-%s', 'a', 1) CHECK (f LIKE 'a%' AND f SIMILAR TO '[a-z]-_' AND left(f, 1) = 'a')",
    "l low.level DEFAULT 'high' CHECK (l >= 'low' AND l = ANY (enum_range(NULL::low.level)))",
    "z text DEFAULT to_char(now(), 'YYYY') CHECK (z::integer > 2000 AND split_part(z, '-', 1) = z)",
    "o bit(3) DEFAULT B'101' CHECK (o & B'100' = B'100')", "i text DEFAULT public.pure('x') CHECK (public.pure(i) = i)",
    "v2 text DEFAULT 'b' CHECK ((id, v2) <> (1, 'z') AND greatest(v2, 'a') = v2 AND nullif(v2, 'q') IS NOT NULL)",
    "tz timestamptz DEFAULT date_trunc('day', now()) CHECK (tz AT TIME ZONE 'UTC' < '2100-01-01'::timestamp)",
  ]

  @Test func `expressions that applications write are not refused`() throws {
    let target = try started()
    try target.psql(
      """
      CREATE FUNCTION public.pure(v text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT v $$; ALTER FUNCTION public.pure
        OWNER TO boss; SET ROLE low; CREATE TYPE low.level AS ENUM ('low', 'high'); CREATE SEQUENCE low.counted
      """)
    let connection = try PostgresConnection(target.url)
    for (number, column) in Self.ordinary.enumerated() {
      try target.psql("SET ROLE low; CREATE TABLE low.t\(number)(id integer PRIMARY KEY, v text, \(column))")
      let code = try OwnersCode.read("low.t\(number)", connection)
      #expect(code.findings == [] && code.openness == .code, "\(column): \(code.findings)")
    }
    // Extensions belong to a superuser.
    try target.psql(
      """
      CREATE EXTENSION citext; CREATE EXTENSION hstore; CREATE EXTENSION "uuid-ossp"; CREATE EXTENSION pg_trgm;
      CREATE EXTENSION btree_gist; CREATE EXTENSION pgcrypto; SET ROLE low;
      CREATE TABLE low.many(id uuid PRIMARY KEY DEFAULT uuid_generate_v4(), c citext UNIQUE CHECK (c <> 'x' AND c ~ '^a'),
        h hstore CHECK (h ? 'a' AND h -> 'a' <> ''), v text CHECK (v % 'word' OR similarity(v, 'a') > 0), n int4range,
        s text DEFAULT encode(digest('a', 'sha256'), 'hex'), EXCLUDE USING gist (id WITH =, n WITH &&));
      CREATE INDEX ON low.many USING gin (v gin_trgm_ops); CREATE INDEX ON low.many (lower(c::text))
      """)
    // A superuser who runs apply trusts its functions; the role of apply is no superuser.
    try target.psql("CREATE ROLE \(target.name) LOGIN")
    defer { _ = try? target.psql("DROP ROLE \(target.name)") }
    let other = try PostgresConnection(target.server.url(target.name, user: target.name))
    #expect(try OwnersCode.read("low.many", other).findings.map(\.function) == [])
  }

  /// The owner of another type could keep a table from being written by a cast from or to one of its types.
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

  // MARK: Foreign keys

  @Test func `no owner adds statistics to a table, or exchanges it, while a command writes it as an application would`()
    throws
  {
    let target = try started()
    try target.psql("ALTER TABLE item OWNER TO low")
    let connection = try PostgresConnection(target.url)
    try connection.execute("BEGIN")
    try OwnersCode.holdForSession("public.item", "item", connection)
    #expect(throws: (any Error).self) {
      try target.psql("SET lock_timeout = 100; SET ROLE low; CREATE STATISTICS low.s ON id, id FROM public.item")
    }
    let held = try connection.first(
      "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ShareUpdateExclusiveLock' AND relation = 'public.item'::regclass"
    )
    #expect(held == "1")
    connection.rollback()
    // The owner of a schema could give its name to another one.
    try target.psql("CREATE TABLE low.mine(id integer PRIMARY KEY); ALTER TABLE low.mine OWNER TO postgres")
    try connection.execute("BEGIN")
    let error = failure { try OwnersCode.holdForSession("low.mine", "low.mine", connection) }
    #expect(error?.code == .ownersCode && error?.context["role"] == "low", "\(error as Any)")
    connection.rollback()
  }

  @Test func `tables that a foreign key changes are looked at where triggers fire`() throws {
    let target = try started()
    try target.psql(
      """
      ALTER TABLE item OWNER TO postgres; GRANT REFERENCES ON item TO low; SET ROLE low;
      CREATE TABLE low.child(id integer PRIMARY KEY REFERENCES item ON DELETE CASCADE, up integer REFERENCES low.child);
      CREATE TABLE low.grandchild(id integer REFERENCES low.child ON UPDATE CASCADE) PARTITION BY RANGE (id);
      CREATE TABLE low.part PARTITION OF low.grandchild DEFAULT;
      CREATE CONSTRAINT TRIGGER spy AFTER DELETE ON low.part DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        EXECUTE FUNCTION low.spy()
      """)
    let connection = try PostgresConnection(target.url)
    #expect(try OwnersCode.read("public.item", connection).findings == [])
    let code = try OwnersCode.read("public.item", fires: "AO", connection)
    #expect(code.findings.map(\.function) == ["low.spy()"], "\(code.findings)")
    try connection.execute("BEGIN")
    try OwnersCode.lockReferencing("public.item", connection)
    for table in ["child", "part"] {
      let sql =
        "SET lock_timeout = 100; SET ROLE low; CREATE TRIGGER t AFTER DELETE ON low.\(table) FOR EACH ROW "
        + "EXECUTE FUNCTION low.spy()"
      #expect(throws: (any Error).self) { try target.psql(sql) }
    }
    connection.rollback()
    // A key that changes nothing, and a role without rights.
    try target.psql("CREATE ROLE \(target.name) LOGIN; GRANT ALL ON item TO \(target.name)")
    defer { _ = try? target.psql("DROP OWNED BY \(target.name); DROP ROLE \(target.name)") }
    let other = try PostgresConnection(target.server.url(target.name, user: target.name))
    try other.execute("BEGIN")
    #expect(failure { try OwnersCode.lockReferencing("public.item", other) }?.code == .ownersCode)
    other.rollback()
    try target.psql(
      """
      DROP TABLE low.grandchild; ALTER TABLE low.child DROP CONSTRAINT child_id_fkey,
        ADD FOREIGN KEY (id) REFERENCES item
      """)
    try other.execute("BEGIN")
    try OwnersCode.lockReferencing("public.item", other)
    other.rollback()
    #expect(try OwnersCode.read("public.item", fires: "AO", connection).findings == [])
  }

  // MARK: Other tables under the name

  /// Runs applies of the target's trail until `body` ends.
  private func running(_ target: PostgresTarget, _ body: ((() throws -> Bool) throws -> Void) throws -> Void) throws {
    let (stop, drain) = (StopSignal(), StopSignal())
    let (url, options, progress) = (target.url, target.options, target.progress)
    let (folder, name) = (target.trail.trail, target.trail.name)
    let worker = try WorkerThread {
      let apply = try? PostgresApply(uri: url, trail: folder, name: name, options: options, progress: progress)
      try? apply?.run(stop: stop, drain: drain)
    }
    defer {
      stop.set()
      _ = worker.join()
    }
    try body { isDone in for _ in 0..<500 where try !isDone() { Clock.sleep(milliseconds: 20) } }
  }

  @Test(arguments: ["ALTER SCHEMA public OWNER TO low", "ALTER DATABASE \"DATABASE\" OWNER TO low"])
  func `the owner of the schema who replaces a table of apply's role is found out`(_ right: String) throws {
    let target = try started()
    try target.psql(
      """
      ALTER TABLE item OWNER TO postgres; ALTER SCHEMA public OWNER TO pg_database_owner;
      \(right.replacingOccurrences(of: "DATABASE\"", with: target.name + "\""))
      """)
    defer { _ = try? target.psql("ALTER DATABASE \"\(target.name)\" OWNER TO postgres") }
    let trail = target.trail
    try trail.transaction { try trail.insert("item", [1, "x"]) }
    try running(target) { wait in
      try wait { try target.psql("SELECT count(*) FROM item") == "1" }
      try trail.transaction { try trail.insert("item", [2, "y"]) }
      try wait { try target.psql("SELECT count(*) FROM item") == "2" }
      try target.psql(
        """
        SET ROLE low; SET search_path = public; DROP TABLE item; CREATE TABLE item(id integer PRIMARY KEY, v text);
        \(Self.traps[0].sql)
        """)
      try trail.transaction { try trail.insert("item", [3, "z"]) }
      try wait { !target.progress.snapshot.waiting.isEmpty }
    }
    let waiting = target.progress.snapshot.waiting.first
    #expect(waiting?.code == .ownersCode, "\(waiting?.message ?? "")")
    #expect(try target.psql("SELECT * FROM low.seen") == "")
  }

  @Test func `rows never stay in a table that the owner of the schemas puts under the name`() throws {
    let target = try started()
    try target.psql(
      """
      ALTER TABLE item OWNER TO postgres; ALTER SCHEMA public OWNER TO low; CREATE SCHEMA other AUTHORIZATION low;
      SET ROLE low; CREATE TABLE other.item(id integer PRIMARY KEY, v text)
      """)
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    let connection = try PostgresConnection(target.url)
    try connection.execute("BEGIN")
    let table = try #require(try PostgresTargetTable.read("public", "item", connection))
    let code = try OwnersCode.read(table.qualifiedName, connection)
    #expect(code.openness == .name && !code.hasOtherOwner)
    let (watch, sink) = (OwnersWatch(table, code, number: 1), PostgresSink(connection))
    try watch.look(in: 1, sink)
    try sink.settle()
    try watch.prove(sink)
    try sink.settle()
    // The lock does not keep the schema from being renamed, there and back.
    let swap = "ALTER SCHEMA public RENAME TO aside; ALTER SCHEMA other RENAME TO public"
    try target.psql("GRANT CREATE ON DATABASE \"\(target.name)\" TO low; SET ROLE low; \(swap)")
    try target.psql("ALTER SCHEMA public RENAME TO other; ALTER SCHEMA aside RENAME TO public")
    try watch.prove(sink)
    let fault = #expect(throws: PostgresSink.Fault.self) { try sink.settle() }
    #expect(fault?.error?.sqlState == OwnersCode.changed)
    sink.abandon()
  }

  @Test(arguments: [false, true]) func `no partition is attached while apply writes`(isNested: Bool) throws {
    let target = try started()
    try target.psql(
      """
      DROP TABLE item; SET ROLE low;
      CREATE TABLE public.item(id integer PRIMARY KEY, v text) PARTITION BY RANGE (id);
      CREATE TABLE public.item_a PARTITION OF item FOR VALUES FROM (0) TO (1000) \(isNested ? "PARTITION BY HASH (id)" : "");
      CREATE TABLE public.item_b(id integer PRIMARY KEY, v text, CHECK (id >= 1000))
      """)
    if isNested {
      try target.psql(
        "SET ROLE low; CREATE TABLE low.h PARTITION OF item_a FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    }
    try target.trail.transaction { try target.trail.insert("item", [1, "x"]) }
    try target.replay()
    let connection = try PostgresConnection(target.url)
    try connection.execute("BEGIN")
    let table = try #require(try PostgresTargetTable.read("public", "item", connection))
    let code = try OwnersCode.read(table.qualifiedName, connection)
    #expect(code.openness == .code && code.hasOtherOwner)
    let sink = PostgresSink(connection)
    try OwnersWatch(table, code, number: 1).look(in: 1, sink)
    try sink.settle()
    let attach =
      "SET lock_timeout = 200; SET ROLE low; ALTER TABLE item ATTACH PARTITION item_b "
      + "FOR VALUES FROM (1000) TO (9999)"
    #expect(throws: (any Error).self) { try target.psql(attach) }
    try connection.execute("ROLLBACK")
    try target.psql(attach)
    #expect(try OwnersCode.read(table.qualifiedName, connection).fingerprint != code.fingerprint)
    // A trusted owner needs no such lock.
    for name in ["item", "item_a", "item_b"] { try target.psql("ALTER TABLE \(name) OWNER TO postgres") }
    if isNested { try target.psql("ALTER TABLE low.h OWNER TO postgres") }
    #expect(try !OwnersCode.read(table.qualifiedName, connection).hasOtherOwner)
  }

  @Test(
    arguments: [
      "CREATE STATISTICS low.late ON (low.pure('x') || v), id FROM item",
      "CREATE INDEX CONCURRENTLY late ON item (id) WHERE low.pure('x') = 'x'", "ANALYZE item",
    ])
  func `the owner adds no expression while apply writes`(_ statement: String) throws {
    let target = try started()
    let connection = try PostgresConnection(target.url)
    guard connection.serverVersion >= 140_000 else { return }
    try connection.execute("BEGIN")
    let table = try #require(try PostgresTargetTable.read("public", "item", connection))
    let code = try OwnersCode.read(table.qualifiedName, connection)
    let sink = PostgresSink(connection)
    try OwnersWatch(table, code, number: 1).look(in: 1, sink)
    try sink.settle()
    let other = try PostgresConnection(target.url)
    for setting in ["lock_timeout = 200", "ROLE low", "search_path = public"] { try other.execute("SET \(setting)") }
    #expect(throws: PostgresError.self) { try other.execute(statement) }
    try connection.execute("COMMIT")
    if statement.contains("CONCURRENTLY") { try target.psql("DROP INDEX IF EXISTS late") }
    try other.execute(statement)
    #expect(try target.psql("SELECT * FROM low.seen") == "")
  }

  @Test func `a member of the role of apply is trusted, as it can act as apply`() throws {
    let target = try started()
    let role = "low_\(UInt32.random(in: 0...UInt32.max))"
    try target.psql("CREATE ROLE \(role); ALTER TABLE item OWNER TO \(role)")
    defer { _ = try? target.psql("DROP TABLE item; DROP ROLE \(role)") }
    let connection = try PostgresConnection(target.url)
    #expect(try OwnersCode.read("public.item", connection).hasOtherOwner)
    try target.psql("GRANT postgres TO \(role)")
    #expect(try !OwnersCode.read("public.item", connection).hasOtherOwner)
    #expect(try OwnersCode.read("public.item", connection).openness != .code)
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
    // Objects that an earlier version left, or that an attacker planted.
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
    #expect(target.progress.snapshot.notices.contains { $0.contains("child_y") && $0.contains("does not execute") })
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
      let state = PostgresApplyState(connection, of: target.trail.name)
      let shape = PostgresSchemaChanges(
        connection: connection, state: state, progress: target.progress, tables: try state.tables(), waiting: [],
        isCatchUp: false, proof: OwnersProof(connection: connection, options: target.options))
      let parent = PostgresApplyState.Table(schema: "public", name: "parent")
      try shape.setReferencesAside(parent)
      #expect(try connection.first("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == "0")
      try shape.makeForeignKeys(PostgresSink(connection))
    }
    #expect(try target.psql(key) == before)
  }
}
