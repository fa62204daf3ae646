import Changes
import Conflicts
import Endpoints
import Foundation
import PostgresKit
import Replicating
import SQLiteKit
import TestServers
import Testing

@Suite struct DrawnKeysTests {
  @Test func `an SQLite file draws the keys that are its rowids, and takes no stride`() throws {
    let path = FileManager.default.temporaryDirectory.path + "/cairn-keys-\(UUID().uuidString).db"
    defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
    let database = try Database(path: path, mode: .create)
    try database.executeScript(
      """
      CREATE TABLE plain(id INTEGER PRIMARY KEY, v); CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT);
      CREATE TABLE int(id INT PRIMARY KEY); CREATE TABLE pair(a INTEGER, b INTEGER, PRIMARY KEY (a, b));
      CREATE TABLE text(id TEXT PRIMARY KEY); CREATE TABLE without(id INTEGER PRIMARY KEY) WITHOUT ROWID;
      """)
    let keys = try DrawnKeys(.sqlite(path: path))
    #expect(
      try keys.all() == [
        GeneratedKey(table: "plain", column: "id", source: .rowid(isMonotonic: false)),
        GeneratedKey(table: "counted", column: "id", source: .rowid(isMonotonic: true)),
      ])
    #expect(try keys.all(TablePatterns(["c*"])).map(\.table) == ["counted"])
    let share = try #require(KeyShare(node: 1, of: 2))
    let error = #expect(throws: CairnError.self) { try keys.separate(share, isDry: false) }
    #expect(error?.code == .unsupported && error?.hint.contains("--below-zero") == true)
    #expect(try keys.catchUp().isEmpty)
    // The reason: whatever the counter says, the next key comes after the greatest one that was inserted.
    try database.executeScript(
      "INSERT INTO counted VALUES (5000); UPDATE sqlite_sequence SET seq = 10; INSERT INTO counted DEFAULT VALUES")
    #expect(try database.query("SELECT max(id) FROM counted") == [[.integer(5001)]])
    try database.executeScript("INSERT INTO plain VALUES (7, 1), (-9, 1); INSERT INTO plain(v) VALUES (2)")
    #expect(try database.query("SELECT max(id) FROM plain") == [[.integer(8)]])
  }

  @Test(.enabled(if: PostgresServer.problem == nil))
  func `each PostgreSQL node draws numbers of its own once they are separated`() throws {
    let server = try PostgresServer.shared
    let name = "keys_" + UUID().uuidString.prefix(8).lowercased()
    let url = DatabaseURL.postgres(uri: try server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE SCHEMA sales; CREATE SEQUENCE shared;
      CREATE TABLE item(id serial PRIMARY KEY, plain serial, name text);
      CREATE TABLE sales."Odd.name"(id smallint GENERATED ALWAYS AS IDENTITY UNIQUE, k uuid PRIMARY KEY DEFAULT gen_random_uuid());
      CREATE TABLE late(id bigint PRIMARY KEY DEFAULT nextval('shared'));
      INSERT INTO item(name) SELECT 'x' FROM generate_series(1, 10); INSERT INTO item VALUES (40, 1, 'brought');
      """, name)
    let keys = try DrawnKeys(url)
    let before = try keys.all()
    #expect(before.map { "\($0.fullName).\($0.column)" } == ["item.id", "late.id", "sales.Odd.name.id"])
    #expect(before.allSatisfy { key in !key.isSeparated && before.contains { $0.isAlike(key) } })
    let end = try SourceDatabase(url)
    func alike(_ patterns: [String], _ other: SourceDatabase?, at place: DatabaseURL) throws -> CairnError? {
      try TwoWayCheck(end, end.tables(TablePatterns(patterns)), other, at: place).keysAlike()
    }
    let refusal = try #require(try alike(["item", "late"], end, at: url))
    #expect(refusal.code == .keysAlike && refusal.message.hasSuffix("rows: item.id, late.id"), "\(refusal.message)")
    let chain = refusal.sayingShared("erp", chain: ("erp", "shop")).hint
    #expect(chain.contains("keys = \"shared\" into [database.erp]; or, if node shop does not apply"), "\(chain)")
    #expect(chain.contains("[capture.erp], write applied = \"include\""), "\(chain)")
    #expect(!refusal.sayingShared("erp").hint.contains("applied"))
    #expect(try alike(["none"], end, at: url) == nil)
    // A file that is still to be made: a key of one column will be its rowid.
    let file = try #require(try alike(["*", "!late"], nil, at: .sqlite(path: "/none.db")))
    #expect(file.message.hasSuffix("rows: item.id") && file.hint.contains("--below-zero"), "\(file)")
    let share = try #require(KeyShare(node: 2, of: 3))
    let statements = try keys.separate(share, isDry: true)
    #expect(statements.count == 3 && statements[0].hasSuffix("START WITH 41 RESTART WITH 41"), "\(statements)")
    #expect(try keys.all() == before)
    #expect(try keys.separate(share, isDry: false) == statements)
    #expect(try keys.all().allSatisfy(\.isSeparated))
    try server.psql(
      """
      INSERT INTO item(name) VALUES ('a'), ('b'); INSERT INTO late DEFAULT VALUES; INSERT INTO late DEFAULT VALUES;
      INSERT INTO sales."Odd.name" DEFAULT VALUES;
      """, name)
    #expect(try server.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM item WHERE id > 40", name) == "41 44")
    #expect(try server.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM late", name) == "2 5")
    // Rows that came from other nodes, as at a switch-over.
    try server.psql("INSERT INTO item VALUES (100, 1, 'c'); INSERT INTO late VALUES (4)", name)
    let moved = try keys.catchUp()
    #expect(moved.map { "\($0.key.fullName) \($0.next)" } == ["item 101"])
    #expect(try keys.catchUp().isEmpty)
    #expect(try server.psql("INSERT INTO item(name) VALUES ('d') RETURNING id", name).contains("101"))
    // Beside an SQLite file: downwards from zero.
    let below = try #require(KeyShare(node: 2, of: 2, isBelowZero: true))
    try keys.separate(below, TablePatterns(["item", "sales.*"]), isDry: false)
    try server.psql("INSERT INTO item(name) VALUES ('e'), ('f'); INSERT INTO sales.\"Odd.name\" DEFAULT VALUES", name)
    #expect(try server.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM item WHERE id < 0", name) == "-4 -2")
    #expect(try server.psql("SELECT min(id) FROM sales.\"Odd.name\"", name) == "-2")
    try server.psql("INSERT INTO item VALUES (-9, 1, 'g')", name)
    #expect(try keys.catchUp().map(\.next) == [-10])
  }

  /// A default may name any sequence, by its number.
  @Test(.enabled(if: PostgresServer.problem == nil))
  func `a table moves no sequence that its owner may not move`() throws {
    let server = try PostgresServer.shared
    let name = "keys_" + UUID().uuidString.prefix(8).lowercased()
    let url = DatabaseURL.postgres(uri: try server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    let (low, other) = ("low_\(name)", "other_\(name)")
    try server.psql(
      """
      CREATE ROLE \(low); CREATE ROLE \(other); CREATE SCHEMA low AUTHORIZATION \(low); CREATE SCHEMA other AUTHORIZATION \(other);
      SET ROLE \(other); CREATE TABLE other.bill(id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY); INSERT INTO other.bill
        DEFAULT VALUES; CREATE SEQUENCE other.shared; GRANT UPDATE ON SEQUENCE other.shared TO \(low);
      GRANT USAGE ON SCHEMA other TO \(low); RESET ROLE
      """, name)
    defer { _ = try? server.psql("DROP OWNED BY \(low), \(other); DROP ROLE \(low), \(other)", name) }
    let sequence = try server.psql("SELECT 'other.bill_id_seq'::regclass::oid", name)
    try server.psql(
      """
      SET ROLE \(low); CREATE TABLE low.x(id bigint DEFAULT nextval('\(sequence)'::regclass) PRIMARY KEY);
      CREATE TABLE low.y(id bigint DEFAULT nextval('other.shared') PRIMARY KEY);
      INSERT INTO low.x VALUES (9223372036854775806); INSERT INTO low.y VALUES (700)
      """, name)
    let keys = try DrawnKeys(url)
    #expect(try keys.all().map(\.fullName) == ["low.x", "low.y", "other.bill"])
    #expect(try keys.borrowed().map(\.fullName) == ["low.x"])
    #expect(try keys.catchUp().map(\.key.fullName) == ["low.y"])
    let share = try #require(KeyShare(node: 2, of: 3))
    #expect(try keys.separate(share, TablePatterns(["low.x"]), isDry: true) == [])
    #expect(try server.psql("INSERT INTO other.bill DEFAULT VALUES RETURNING id", name).hasPrefix("2"))
  }

  /// A cast of the type of a key to a number would run with the rights of a superuser. The same holds for the type of
  /// another table that takes the name.
  @Test(.enabled(if: PostgresServer.problem == nil))
  func `no code of a table's owner runs while its keys are read`() throws {
    let server = try PostgresServer.shared
    let name = "keys_" + UUID().uuidString.prefix(8).lowercased()
    let url = DatabaseURL.postgres(uri: try server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    let low = "low_\(name)"
    try server.psql(
      """
      CREATE ROLE \(low); CREATE SCHEMA low AUTHORIZATION \(low); SET ROLE \(low); CREATE SEQUENCE low.s; CREATE TYPE low.t AS (a bigint);
      CREATE FUNCTION low.f(x low.t) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        IF current_user NOT LIKE 'low%' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN (x).a; END $$;
      CREATE FUNCTION low.g(x bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        IF current_user NOT LIKE 'low%' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN true; END $$;
      CREATE CAST (low.t AS bigint) WITH FUNCTION low.f(low.t) AS IMPLICIT;
      CREATE TABLE low.x(k low.t UNIQUE DEFAULT ROW(nextval('low.s'))::low.t); INSERT INTO low.x DEFAULT VALUES;
      CREATE DOMAIN low.num AS bigint CHECK (low.g(VALUE)); CREATE SEQUENCE low.d;
      CREATE TABLE low.y(k low.num UNIQUE DEFAULT nextval('low.d')); INSERT INTO low.y VALUES (40)
      """, name)
    defer { _ = try? server.psql("DROP OWNED BY \(low); DROP ROLE \(low)", name) }
    let keys = try DrawnKeys(url)
    #expect(try keys.all().map(\.fullName) == ["low.x", "low.y"])
    #expect(try keys.catchUp().map { "\($0.key.fullName) \($0.next)" } == ["low.y 41"])
    let share = try #require(KeyShare(node: 2, of: 3))
    // The keys of the domain are numbers, so new ones are drawn after them.
    #expect(try keys.separate(share, isDry: false).last?.hasSuffix("START WITH 41 RESTART WITH 41") == true)
    #expect(try keys.all().allSatisfy(\.isSeparated))
  }

  @Test(.enabled(if: PostgresServer.problem == nil))
  func `all sequences are separated, or none`() throws {
    let server = try PostgresServer.shared
    let name = "keys_" + UUID().uuidString.prefix(8).lowercased()
    let url = DatabaseURL.postgres(uri: try server.createDatabase(name))
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE TABLE a(id serial PRIMARY KEY); INSERT INTO a DEFAULT VALUES;
      CREATE TABLE b(id smallint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY); INSERT INTO b VALUES (32767)
      """, name)
    let share = try #require(KeyShare(node: 2, of: 3))
    let keys = try DrawnKeys(url)
    let error = #expect(throws: CairnError.self) { try keys.separate(share, isDry: false) }
    #expect(error?.code == .databaseFull)
    #expect(try server.psql("SELECT seqincrement FROM pg_sequence WHERE seqrelid = 'a_id_seq'::regclass", name) == "1")
  }
}
