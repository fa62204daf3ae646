import Foundation
import TestServers
import Testing

/// `cairn undo`, with trails of both engines.
@Suite(.serialized) struct UndoScenarioTests {
  /// A source with a table and its trail.
  private func pair(_ ends: Pair, _ sql: String, full tables: [String] = []) throws -> PairBench {
    let pair = try PairBench(ends)
    try pair.sql(pair.from, sql)
    if pair.from.isPostgres {
      for table in tables { try pair.sql(pair.from, "ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    #expect(try pair.once().status == 0)
    return pair
  }

  private func write(_ pair: PairBench, _ sql: String) throws {
    try pair.sql(pair.from, sql)
    let outcome = try pair.once()
    #expect(outcome.status == 0, "\(outcome.errors)")
  }

  /// Returns the number of the last transaction that wrote to a table.
  private func last(_ pair: PairBench, _ table: String) throws -> String {
    let show = ["trail", "show", "--state", "state", "--table", table, "--last", "1", "--json"]
    let outcome = try pair.bench.run(Bench.cairn, show)
    let line = try #require(outcome.output.split(separator: "\n").first, "\(outcome.errors)")
    let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    return "\(try #require((object?["transaction"] ?? object?["number"]) as? Int, "\(line)"))"
  }

  private func trail(_ pair: PairBench) throws -> String {
    let names = try FileManager.default.contentsOfDirectory(atPath: pair.bench.path("state"))
    return try #require(names.first { $0.hasPrefix("local.") })
  }

  private func undo(_ pair: PairBench, _ number: String, _ more: [String] = []) throws -> Outcome {
    try pair.bench.run(Bench.cairn, ["undo", trail(pair), number, "--state", "state"] + more)
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `an undo is a new transaction that replicates`(_ ends: Pair) throws {
    let pair = try pair(
      ends,
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price DOUBLE PRECISION);
      INSERT INTO item VALUES (1, 'salt', 1.5), (2, 'it''s', NULL);
      """, full: ["item"])
    let rows = "SELECT id, name, price FROM item ORDER BY id"
    let before = try pair.sql(pair.from, rows)
    try write(
      pair,
      "BEGIN; UPDATE item SET price = 2.25 WHERE id = 1; DELETE FROM item WHERE id = 2; INSERT INTO item VALUES (3, 'é', 0); COMMIT"
    )
    let number = try last(pair, "item")
    let after = try pair.sql(pair.from, rows)
    let dry = try undo(pair, number, ["--dry-run"])
    #expect(dry.status == 0, "\(dry.errors)")
    for line in ["delete  item id = 3", "insert  item id = 2: id = 2, name = its, price = NULL", "-> 1.5"] {
      #expect(dry.output.replacing("'", with: "").replacing("public.", with: "").contains(line), "\(dry.output)")
    }
    #expect(dry.output.contains("would write 3 changes"))
    #expect(try pair.sql(pair.from, rows) == after)
    let json = try undo(pair, number, ["--json"])
    #expect(json.status == 0, "\(json.errors)")
    let lines = try json.output.split(separator: "\n").compactMap { line in
      try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }
    #expect(lines.map { $0["kind"] as? String } == ["delete", "insert", "update", nil])
    #expect(lines.last?["event"] as? String == "undone" && lines.last?["changes"] as? Int == 3)
    #expect(try pair.sql(pair.from, rows) == before)
    #expect(try pair.once().status == 0)
    try pair.expectEqual()
    // The undo is a transaction like any other, which can be undone.
    #expect(try undo(pair, last(pair, "item")).status == 0)
    #expect(try pair.sql(pair.from, rows) == after)
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `later writes are refused with their transaction, and overwritten only with force`(_ ends: Pair) throws {
    let pair = try pair(
      ends, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER); INSERT INTO item VALUES (1, 'a', 1)",
      full: ["item"])
    try write(pair, "UPDATE item SET price = 2 WHERE id = 1")
    let first = try last(pair, "item")
    try write(pair, "UPDATE item SET name = 'b' WHERE id = 1")
    #expect(try undo(pair, first, ["--dry-run"]).status == 0)
    try write(pair, "UPDATE item SET price = 3 WHERE id = 1")
    let later = try last(pair, "item")
    var refused = try undo(pair, first)
    #expect(refused.status == 69 && refused.errors.contains("[undo-refused]"), "\(refused.errors)")
    #expect(refused.errors.contains("column price: written since, by transaction \(later) of"))
    #expect(refused.errors.contains("--force"))
    let facts = try undo(pair, first, ["--json"]).output
    #expect(facts.contains(#""kind":"written""#) && facts.contains(#""transaction":\#(later)"#), "\(facts)")
    // A write that the trail does not have yet is never overwritten.
    try pair.sql(pair.from, "UPDATE item SET price = 4 WHERE id = 1")
    refused = try undo(pair, first, ["--force"])
    #expect(refused.status == 69 && refused.errors.contains("which lacks the last write"), "\(refused.errors)")
    #expect(try pair.sql(pair.from, "SELECT name, price FROM item") == "b|4")
    #expect(try pair.once().status == 0)
    let forced = try undo(pair, first, ["--force"])
    #expect(forced.status == 0, "\(forced.errors)")
    #expect(try pair.sql(pair.from, "SELECT name, price FROM item") == "b|1")
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `rows that others refer to are not deleted with them`(_ ends: Pair) throws {
    let pair = try pair(
      ends,
      """
      CREATE TABLE parent(id INTEGER PRIMARY KEY);
      CREATE TABLE child(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON DELETE CASCADE);
      CREATE TABLE plain(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent);
      INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (10, 1), (11, 1);
      """, full: ["parent", "child", "plain"])
    let key = pair.from.isPostgres ? "" : "PRAGMA foreign_keys = ON;"
    try write(pair, "INSERT INTO parent VALUES (3)")
    let insert = try last(pair, "parent")
    try write(pair, "INSERT INTO child VALUES (12, 3)")
    var refused = try undo(pair, insert, ["--force"])
    #expect(refused.status == 69 && refused.errors.contains("rows of table"), "\(refused.errors)")
    try write(pair, "DELETE FROM child WHERE id = 12; INSERT INTO plain VALUES (5, 3)")
    refused = try undo(pair, insert)
    #expect(refused.status == 69 && refused.errors.contains("the database refuses the change"), "\(refused.errors)")
    // A cascade is one transaction: the children come back with their parent, whatever their order in the trail.
    try write(pair, "\(key) DELETE FROM parent WHERE id = 1")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM child") == "0")
    let undone = try undo(pair, last(pair, "parent"))
    #expect(undone.status == 0, "\(undone.errors)")
    #expect(try pair.sql(pair.from, "SELECT id, parent FROM child ORDER BY id") == "10|1\n11|1")
    #expect(try pair.once().status == 0)
    try pair.expectEqual()
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `what a trigger wrote is undone once`(_ ends: Pair) throws {
    let triggers =
      ends == .sqliteToPostgres
      ? """
      CREATE TRIGGER sold AFTER INSERT ON sale BEGIN UPDATE item SET stock = stock - new.n WHERE id = new.item; END;
      CREATE TRIGGER gone AFTER DELETE ON sale BEGIN UPDATE item SET stock = stock + old.n WHERE id = old.item; END;
      """
      : """
      CREATE FUNCTION sold() RETURNS trigger LANGUAGE plpgsql AS
        $f$ BEGIN UPDATE public.item SET stock = stock - new.n WHERE id = new.item; RETURN NULL; END $f$;
      CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS
        $f$ BEGIN UPDATE public.item SET stock = stock + old.n WHERE id = old.item; RETURN NULL; END $f$;
      CREATE TRIGGER sold AFTER INSERT ON sale FOR EACH ROW EXECUTE FUNCTION sold();
      CREATE TRIGGER gone AFTER DELETE ON sale FOR EACH ROW EXECUTE FUNCTION gone();
      """
    let pair = try pair(
      ends,
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER);
      CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, n INTEGER);
      INSERT INTO item VALUES (1, 10);
      \(triggers)
      """, full: ["item", "sale"])
    try write(pair, "INSERT INTO sale VALUES (1, 1, 3)")
    #expect(try pair.sql(pair.from, "SELECT stock FROM item") == "7")
    let undone = try undo(pair, last(pair, "sale"))
    #expect(undone.status == 0, "\(undone.errors)")
    #expect(try pair.sql(pair.from, "SELECT stock FROM item") == "10")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM sale") == "0")
    #expect(try pair.once().status == 0)
    try pair.expectEqual()
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `hostile names and values are quoted and bound`(_ ends: Pair) throws {
    let table = #""it""em; DROP TABLE safe; --?1$1'""#
    let columns = (#""?""#, #""b' OR 1=1 --""#, #""$2 ""c""#)
    let pair = try pair(
      ends,
      """
      CREATE TABLE safe(id INTEGER PRIMARY KEY);
      CREATE TABLE \(table)(\(columns.0) INTEGER PRIMARY KEY, \(columns.1) TEXT, \(columns.2) TEXT);
      INSERT INTO \(table) VALUES (1, 'a', 'b'), (2, '''; DROP TABLE safe; --', '\\');
      """, full: [table])
    let rows = "SELECT * FROM \(table) ORDER BY 1"
    let before = try pair.sql(pair.from, rows)
    try write(
      pair, "BEGIN; DELETE FROM \(table) WHERE \(columns.0) = 2; UPDATE \(table) SET \(columns.1) = '$1 ?'; COMMIT")
    let undone = try undo(pair, last(pair, #"it"em; DROP TABLE safe; --?1$1'"#))
    #expect(undone.status == 0, "\(undone.errors)\(undone.output)")
    #expect(try pair.sql(pair.from, rows) == before, "\(undone.output)")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM safe") == "0")
  }

  /// A PostgreSQL source with a transaction of table `item` to undo, and a role that may get rights there.
  private func ofRole() throws -> (pair: PairBench, number: String, role: String) {
    let pair = try pair(
      .postgresToSQLite, "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO item VALUES (1, 1)",
      full: ["item"])
    try write(pair, "UPDATE item SET n = 2 WHERE id = 1")
    return (pair, try last(pair, "item"), "mallory_\(UUID().uuidString.prefix(8).lowercased())")
  }

  @Test func `an undo runs no code of an untrusted owner`() throws {
    let (pair, number, owner) = try ofRole()
    try pair.sql(
      pair.from,
      """
      CREATE TABLE ran(who text);
      CREATE ROLE \(owner); GRANT CREATE ON SCHEMA public TO \(owner);
      CREATE FUNCTION ran() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO public.ran VALUES (current_user); RETURN NEW; END$$;
      ALTER FUNCTION ran() OWNER TO \(owner);
      CREATE TRIGGER ran AFTER UPDATE ON item FOR EACH ROW EXECUTE FUNCTION ran();
      """)
    let undone = try undo(pair, number)
    #expect(undone.status != 0)
    #expect(undone.errors.contains("owners-code"), "\(undone.errors)")
    #expect(undone.errors.contains("hint: "))
    #expect(try pair.sql(pair.from, "SELECT n FROM item") == "2")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM ran") == "0")
    try pair.sql(pair.from, "DROP TABLE item; DROP OWNED BY \(owner); DROP ROLE \(owner)")
  }

  @Test func `an undo writes no table whose code an untrusted role can change`() throws {
    let (pair, number, owner) = try ofRole()
    // She could add statistics with a function of hers while the undo waits for a row.
    try pair.sql(pair.from, "CREATE ROLE \(owner); ALTER TABLE item OWNER TO \(owner)")
    for arguments in [[], ["--dry-run"]] {
      let undone = try undo(pair, number, arguments)
      #expect(undone.status != 0)
      #expect(undone.errors.contains("owners-code") && undone.errors.contains(owner), "\(undone.errors)")
    }
    #expect(try pair.sql(pair.from, "SELECT n FROM item") == "2")
    try pair.sql(pair.from, "ALTER TABLE item OWNER TO CURRENT_USER")
    let undone = try undo(pair, number)
    #expect(undone.status == 0, "\(undone.errors)")
    try pair.sql(pair.from, "DROP OWNED BY \(owner); DROP ROLE \(owner)")
  }

  @Test func `an undo leaves rows and code of inheriting tables alone`() throws {
    let (pair, number, owner) = try ofRole()
    try pair.sql(
      pair.from,
      """
      CREATE ROLE \(owner); GRANT CREATE ON SCHEMA public TO \(owner);
      CREATE TABLE heir() INHERITS (item); INSERT INTO heir VALUES (1, 2); ALTER TABLE heir OWNER TO \(owner);
      SET ROLE \(owner);
      CREATE FUNCTION ran(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN IF current_user = session_user THEN RAISE 'it ran'; END IF; RETURN n; END $$;
      CREATE INDEX ON heir ((n + ran(1)));
      """)
    let undone = try undo(pair, number)
    #expect(undone.status == 0, "\(undone.errors)")
    #expect(try pair.sql(pair.from, "SELECT n FROM ONLY item") == "1")
    try pair.sql(pair.from, "DROP INDEX heir_expr_idx")
    #expect(try pair.sql(pair.from, "SELECT n FROM heir") == "2")
    try pair.sql(pair.from, "DROP TABLE item CASCADE; DROP OWNED BY \(owner); DROP ROLE \(owner)")
  }

  @Test func `rows are not deleted with a table under a reserved name that refers to them`() throws {
    let pair = try pair(.sqliteToPostgres, "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER)")
    try write(pair, "INSERT INTO item VALUES (1, 1)")
    let number = try last(pair, "item")
    try pair.sql(
      pair.from,
      """
      CREATE TABLE cairn_kid(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item ON DELETE CASCADE);
      INSERT INTO cairn_kid VALUES (1, 1);
      """)
    let undone = try undo(pair, number)
    #expect(undone.status != 0 && (undone.errors + undone.output).contains("cairn_kid"), "\(undone)")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM cairn_kid") == "1")
  }

  @Test func `an undo refuses what the foreign keys of partitions would change`() throws {
    let pair = try pair(
      .postgresToSQLite,
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER) PARTITION BY RANGE (id);
      CREATE TABLE item_low PARTITION OF item FOR VALUES FROM (0) TO (100);
      CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER) PARTITION BY RANGE (id);
      CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (100);
      """, full: ["item", "item_low"])
    try write(pair, "INSERT INTO item VALUES (1, 1)")
    let number = try last(pair, "item")
    func refuse(_ table: String) throws {
      let undone = try undo(pair, number)
      #expect(undone.status != 0 && (undone.errors + undone.output).contains(table), "\(undone.errors)\(undone.output)")
      #expect(try pair.sql(pair.from, "SELECT count(*) FROM item") == "1")
    }
    // A key of a partition, and then one to a partition.
    try pair.sql(
      pair.from,
      """
      ALTER TABLE part_low ADD FOREIGN KEY (item) REFERENCES item ON DELETE CASCADE;
      INSERT INTO part VALUES (1, 1);
      """)
    try refuse("part_low")
    try pair.sql(
      pair.from,
      """
      DROP TABLE part;
      CREATE TABLE tag(item INTEGER REFERENCES item_low ON DELETE CASCADE); INSERT INTO tag VALUES (1);
      """)
    try refuse("tag")
    try pair.sql(pair.from, "DROP TABLE tag")
    let undone = try undo(pair, number)
    #expect(undone.status == 0, "\(undone.errors)")
  }

  @Test func `bad input is an error with the next step`() throws {
    let pair = try pair(.postgresToSQLite, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try write(pair, "INSERT INTO item VALUES (1, 'a')")
    try write(pair, "UPDATE item SET name = 'b'")
    let update = try last(pair, "item")
    func expect(_ outcome: Outcome, _ status: Int32, _ words: String...) {
      #expect(outcome.status == status, "\(outcome.output)\(outcome.errors)")
      for word in words { #expect(outcome.errors.contains(word), "\(outcome.errors)") }
    }
    try expect(undo(pair, "seven"), 64, "'seven' is not the number of a transaction", "cairn trail show")
    try expect(undo(pair, "0"), 64, "is not the number")
    try expect(undo(pair, "999"), 64, "has no transaction 999", "the last one is")
    expect(
      try pair.bench.run(Bench.cairn, ["undo", "local.other", "1", "--state", "state"]), 66, "[trail-missing]",
      "there are: ")
    // Without REPLICA IDENTITY FULL, the trail has no value before.
    try expect(undo(pair, update, ["--force"]), 69, "does not give the value before", "REPLICA IDENTITY FULL")
    // The first transaction brings the table.
    try expect(undo(pair, "1"), 69, "[undo-refused]", "the transaction altered the table")
    try expect(undo(pair, update, ["--database", "sqlite:other.db"]), 66, "there is no database")
    let file = pair.bench.path("state/\(try trail(pair))/00000001.seg")
    let segment = try #require(
      FileManager.default.contentsOfDirectory(atPath: (file as NSString).deletingLastPathComponent)
        .first { $0.hasPrefix("00000001") && !$0.hasSuffix(".idx") && !$0.contains("index") })
    let path = (file as NSString).deletingLastPathComponent + "/" + segment
    var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
    for place in stride(from: 200, to: min(bytes.count, 600), by: 7) { bytes[place] ^= 0x5a }
    try bytes.write(to: URL(fileURLWithPath: path))
    try expect(undo(pair, update), 65, "[trail-damaged]", "hint")
  }

  @Test func `a row that the database refuses leaves everything as it was`() throws {
    let pair = try pair(
      .sqliteToPostgres, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'a')")
    try write(pair, "INSERT INTO item VALUES (2, 'b')")
    try write(pair, "DELETE FROM item")
    try pair.sql(
      pair.from, "CREATE TRIGGER full BEFORE INSERT ON item WHEN new.id = 1 BEGIN SELECT RAISE(ABORT, 'no room'); END")
    let refused = try undo(pair, last(pair, "item"))
    #expect(refused.status == 69 && refused.errors.contains("no room"), "\(refused.errors)")
    #expect(try pair.sql(pair.from, "SELECT count(*) FROM item") == "0")
  }

  @Test func `two-way nodes converge after undos at both, and a transaction of the other node is refused`() throws {
    let bench = try Bench()
    let replicate = [
      "replicate", "--two-way", "--from", "sqlite:a.db", "--to", "sqlite:b.db", "--state", "state", "--once",
    ]
    func once() throws {
      let outcome = try bench.run(Bench.cairn, replicate)
      #expect(outcome.status == 0, "\(outcome.errors)")
    }
    func write(_ database: String, _ sql: String) throws {
      _ = try bench.sqlite(database, sql)
      try once()
    }
    func rows(_ database: String) throws -> String { try bench.sqlite(database, "SELECT * FROM item ORDER BY id") }
    func last(_ trail: String) throws -> String {
      let outcome = try bench.run(
        Bench.cairn, ["trail", "show", trail, "--state", "state", "--table", "item", "--last", "1", "--json"])
      let line = try #require(outcome.output.split(separator: "\n").first, "\(outcome.errors)")
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      return "\(try #require((object?["transaction"] ?? object?["number"]) as? Int))"
    }
    func undo(_ trail: String, _ number: String) throws -> Outcome {
      try bench.run(Bench.cairn, ["undo", trail, number, "--state", "state"])
    }
    try write("a.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER)")
    try write("a.db", "INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    try write("b.db", "UPDATE item SET price = 9 WHERE id = 1; ")
    let ofB = try last("remote.b")
    try write("a.db", "DELETE FROM item WHERE id = 2")
    let ofA = try last("local.a")
    try write("b.db", "UPDATE item SET name = 'd' WHERE id = 3")
    // The delete at one node and the update at the other are undone where they began.
    for (trail, number) in [("remote.b", ofB), ("local.a", ofA)] {
      let outcome = try undo(trail, number)
      #expect(outcome.status == 0, "\(outcome.errors)")
    }
    try once()
    try once()
    #expect(try rows("a.db") == "1|a|1\n2|b|2\n3|d|3\n")
    #expect(try rows("b.db") == rows("a.db"))
  }

  @Test func `a state folder that another user may write names no database`() throws {
    let pair = try pair(
      .sqliteToPostgres, "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO item VALUES (1, 1)")
    try write(pair, "UPDATE item SET n = 2 WHERE id = 1")
    let number = try last(pair, "item")
    let state = pair.bench.path("state")
    for folder in try [state, "\(state)/\(trail(pair))"] {
      try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder)
      let refused = try undo(pair, number)
      #expect(refused.status == 64 && refused.errors.contains("--database"), "\(refused.errors)")
      #expect(refused.errors.contains("is not private to this user"), "\(refused.errors)")
      let named = try undo(pair, number, ["--database", pair.from.url, "--dry-run"])
      #expect(named.status == 0, "\(named.errors)")
      try FileManager.default.setAttributes([.posixPermissions: 0o750], ofItemAtPath: folder)
    }
    #expect(try pair.sql(pair.from, "SELECT n FROM item") == "2")
    // The database is named before the rows.
    let dry = try undo(pair, number, ["--dry-run"])
    let first = try #require(dry.output.split(separator: "\n").first, "\(dry.errors)")
    #expect(first.hasPrefix("undo of transaction \(number) of trail ") && first.contains(", in /"), "\(dry.output)")
    #expect(try undo(pair, number).status == 0)
    #expect(try pair.sql(pair.from, "SELECT n FROM item") == "1")
  }
}
