import Changes
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Testing

@testable import Applying

/// Schema changes and foreign keys of a source do not make apply read a table whose owner has put a function into an
/// index.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server")) struct OwnersProofTests {
  /// A target in which another role owns table `item`, and may add indexes.
  private func started() throws -> PostgresTarget {
    let target = try PostgresTarget()
    try target.psql(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low; GRANT CREATE ON SCHEMA public TO low;
      SET ROLE low;
      CREATE FUNCTION low.pure(v text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN IF current_user <> 'low' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN v; END $$;
      CREATE TABLE public.item(id integer PRIMARY KEY, v text)
      """)
    try target.shape(postgres: "CREATE TABLE item(id integer PRIMARY KEY, v text)")
    try target.trail.transaction {
      try target.trail.create("item")
      try target.trail.copy("item", [[.exact("1"), .exact("a")]])
    }
    try target.replay()
    return target
  }

  private static let trap = "CREATE INDEX spy ON public.item (id) WHERE low.pure('x') = 'x'"

  @Test(arguments: [DDLPolicy.stop, .follow, .ignore])
  func `a column that the target has too is not looked at where a function of the owner would run`(
    policy: DDLPolicy
  ) throws {
    let target = try started()
    target.options.ddl = policy
    try target.psql("SET ROLE low; ALTER TABLE public.item ADD COLUMN c text DEFAULT 'x'; \(Self.trap)")
    let old = try #require(target.trail.latest("item"))
    try target.shape(postgres: "CREATE TABLE item(id integer PRIMARY KEY, v text, c text DEFAULT 'x')")
    let new = try #require(target.trail.latest("item"))
    target.trail.shape(old)
    try target.trail.transaction { try target.trail.reshape("item", new) }
    let error = failure { try target.replay() }
    #expect(error?.message.contains("index spy") == true && error?.message.contains("low") == true, "\(error as Any)")
    #expect(error?.message.contains("ran as") != true)
    try target.psql("DROP INDEX public.spy")
    try target.replay()
  }

  @Test func `a foreign key is not validated where a function of the referenced table's owner would run`() throws {
    let target = try started()
    try target.psql("SET ROLE low; \(Self.trap)")
    try target.shape(
      postgres: """
        CREATE TABLE item(id integer PRIMARY KEY, v text);
        CREATE TABLE part(id integer PRIMARY KEY, item integer REFERENCES item(id))
        """)
    try target.trail.transaction {
      try target.trail.create("part")
      try target.trail.copy("part", [[.exact("1"), .exact("1")]])
    }
    let error = failure { try target.replay() }
    #expect(error == nil, "\(error as Any)")
    #expect(try target.psql("SELECT convalidated FROM pg_constraint WHERE contype = 'f'") == "f")
    let notices = target.progress.snapshot.notices
    #expect(notices.contains { $0.contains("stays NOT VALID") && $0.contains("index") }, "\(notices)")
  }

  @Test func `rows of tables that inherit from a table stay when a copy empties it`() throws {
    let target = try PostgresTarget()
    try target.begin(
      postgres: "CREATE TABLE t(id integer PRIMARY KEY, v text)", "t", [[.exact("1"), .exact("x")]])
    try target.psql("CREATE TABLE heir() INHERITS (t); INSERT INTO heir VALUES (7, 'mine')")
    let old = try #require(target.trail.latest("t"))
    try target.shape(postgres: "CREATE TABLE t(id integer PRIMARY KEY, v integer)")
    let new = try #require(target.trail.latest("t"))
    target.trail.shape(old)
    try target.trail.transaction {
      try target.trail.reshape("t", new, isRefreshed: true)
      try target.trail.copy("t", [[.exact("1"), .exact("5")]])
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .schemaStopped, "\(error as Any)")
    #expect(try target.psql("SELECT id, v FROM heir") == "7|mine")
  }

  @Test func `a sequence that another session has locked is advanced later`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE SEQUENCE held; CREATE SEQUENCE free")
    let other = try PostgresConnection(target.url)
    try other.executeScript("BEGIN; ALTER SEQUENCE public.held INCREMENT 2")
    let connection = try PostgresConnection(target.url)
    let sink = PostgresSink(connection)
    var upkeep = SequenceUpkeep()
    for name in ["held", "free"] {
      upkeep.note(SequenceState(namespace: "public", name: name, last: 100, increment: 1))
    }
    let begin = Clock.monotonicMilliseconds
    try connection.transaction { try upkeep.carry(sink, target.progress, TargetScope()) }
    #expect(Clock.monotonicMilliseconds - begin < 5000)
    #expect(upkeep.carriedCount == 1)
    #expect(try target.psql("SELECT last_value FROM free") == "132")
    try other.execute("ROLLBACK")
    Clock.sleep(milliseconds: 2100)
    try connection.transaction { try upkeep.carry(sink, target.progress, TargetScope()) }
    #expect(try target.psql("SELECT last_value FROM held") == "132")
    #expect(upkeep.carriedCount == 0)
  }
}
