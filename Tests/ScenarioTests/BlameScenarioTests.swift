import Foundation
import TestServers
import Testing

/// `cairn blame` and `cairn trail show --sql --reverse`, with trails of both engines.
@Suite(.serialized) struct BlameScenarioTests {
  /// Returns the first words of each line of `cairn blame`, after its title: column and kind.
  private func blame(_ pair: PairBench, _ words: [String]) throws -> [String] {
    let outcome = try pair.bench.run(Bench.cairn, ["blame", pair.from.url] + words + ["--state", "state"])
    #expect(outcome.status == 0, "\(words): \(outcome.errors)")
    return outcome.output.split(separator: "\n").dropFirst().map { line in
      // PostgreSQL gives numbers as text.
      line.split(separator: " ", omittingEmptySubsequences: true).prefix(3).joined(separator: " ")
        .replacing("'", with: "")
    }
  }

  private func refusal(_ pair: PairBench, _ words: [String], status: Int32 = 64) throws -> String {
    let outcome = try pair.bench.run(Bench.cairn, ["blame"] + words + ["--state", "state"])
    #expect(outcome.status == status, "\(words): \(outcome.output)")
    return outcome.errors
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToSQLite])
  func `blame names the last write of each column`(_ ends: Pair) throws {
    let pair = try PairBench(ends)
    try pair.sql(
      pair.from,
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
      INSERT INTO item VALUES (1, 'salt', 1);
      """)
    func write(_ sql: String) throws {
      try pair.sql(pair.from, sql)
      let outcome = try pair.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
    }
    #expect(try pair.once().status == 0)
    try write("INSERT INTO item VALUES (7, 'tea', 3), (8, 'rice', 2)")
    try write("UPDATE item SET price = 4 WHERE id = 7")
    try write("UPDATE item SET name = 'green tea' WHERE id = 7")
    #expect(try blame(pair, ["item", "7"]) == ["id insert 7", "name update green", "price update 4"])
    #expect(try blame(pair, ["item", "1"]) == ["id copy 1", "name copy salt", "price copy 1"])
    try write("UPDATE item SET id = 9 WHERE id = 7")
    try write("DELETE FROM item WHERE id = 8")
    #expect(try blame(pair, ["item", "9"]) == ["id update 9", "name update green", "price update 4"])
    #expect(try blame(pair, ["item", "7"]).allSatisfy { $0.contains(" move ") })
    #expect(try blame(pair, ["item", "8"]).allSatisfy { $0.contains(" delete ") })
    let json = try pair.bench.run(Bench.cairn, ["blame", pair.from.url, "ITEM", "9", "--state", "state", "--json"])
    let columns = try json.output.split(separator: "\n").compactMap { line in
      try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }
    #expect(columns.map { $0["column"] as? String } == ["id", "name", "price"])
    #expect(columns.allSatisfy { $0["node"] is String && $0["transaction"] is Int && $0["time"] is String })
    #expect(columns.map { $0["kind"] as? String } == ["update", "update", "update"])
    // Renamed.
    try write("ALTER TABLE item RENAME COLUMN price TO cost")
    try write("ALTER TABLE item RENAME TO goods")
    #expect(try blame(pair, ["goods", "9"]).last == "cost update 4")

    #expect(try refusal(pair, [pair.from.url, "goodies", "9"]).contains("did you mean 'goods'?"))
    let unknown = try refusal(pair, [pair.from.url, "goods", "77"])
    #expect(unknown.contains("no write of row 77") && unknown.contains("check the key"), "\(unknown)")
    #expect(try refusal(pair, [pair.from.url, "goods", "1,2"]).contains("no write of row 1,2"))
    #expect(try refusal(pair, ["sqlite:other.db", "goods", "1"], status: 66).contains("cairn trail list"))
    if !pair.from.isPostgres {
      #expect(try refusal(pair, [pair.from.url, "item", "9"]).contains("was renamed to goods"))
    }
  }

  @Test func `blame names the node at which a write of two-way replication began`() throws {
    let bench = try Bench()
    let replicate = [
      "replicate", "--two-way", "--from", "sqlite:a.db", "--to", "sqlite:b.db", "--state", "state", "--once",
    ]
    func write(_ database: String, _ sql: String) throws {
      _ = try bench.sqlite(database, sql)
      let outcome = try bench.run(Bench.cairn, replicate)
      #expect(outcome.status == 0, "\(outcome.errors)")
    }
    try write("a.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER)")
    try write("a.db", "INSERT INTO item VALUES (7, 'tea', 3)")
    try write("b.db", "UPDATE item SET price = 9 WHERE id = 7")
    for database in ["a.db", "b.db"] {
      let outcome = try bench.run(Bench.cairn, ["blame", "sqlite:\(database)", "item", "7", "--state", "state"])
      let lines = outcome.output.split(separator: "\n")
      #expect(lines.count == 4, "\(outcome.errors)")
      #expect(lines[1].contains("by local ") && lines[2].contains("by local ") && lines[3].contains("by remote "))
      #expect(lines[3].contains(" of remote.b at "))
    }
    let json = try bench.run(Bench.cairn, ["blame", "sqlite:b.db", "item", "7", "--state", "state", "--json"])
    let columns = try json.output.split(separator: "\n").compactMap { line in
      try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }
    #expect(columns.map { $0["node"] as? String } == ["local", "local", "remote"])
    #expect(columns.last?["value"] as? Int == 9 && columns[1]["value"] as? String == "tea")
  }

  /// Returns the rows of the tables of the test below.
  private func rows(_ pair: PairBench, _ end: End) throws -> String {
    try pair.sql(end, "SELECT * FROM item ORDER BY id") + "\n" + pair.sql(end, "SELECT * FROM log ORDER BY a, b")
  }

  @Test(arguments: [Pair.sqliteToPostgres, .postgresToPostgres], 0..<2)
  func `statements that undo lead back through random changes`(_ ends: Pair, seed: UInt64) throws {
    let pair = try PairBench(ends)
    let full =
      pair.from.isPostgres
      ? "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE log REPLICA IDENTITY FULL;" : ""
    try pair.sql(
      pair.from,
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price DOUBLE PRECISION);
      CREATE TABLE log(a INTEGER, b TEXT);
      \(full)
      INSERT INTO item VALUES (1, 'salt', 1.5), (2, 'it''s', NULL);
      INSERT INTO log VALUES (1, 'x'), (1, 'x'), (2, NULL);
      """)
    #expect(try pair.once().status == 0)
    var random = Seeded(seed)
    var history = [(from: try rows(pair, pair.from), to: try rows(pair, pair.to))]
    for number in 0..<12 {
      let statements = (0..<Int.random(in: 1...3, using: &random)).map { place -> String in
        let (id, next) = (Int.random(in: 1...6, using: &random), number * 10 + place + 10)
        return switch Int.random(in: 0..<8, using: &random) {
        case 0: "DELETE FROM item WHERE id = \(id);"
        case 1: "UPDATE item SET price = \(next) WHERE id <= \(id);"
        case 2: "UPDATE item SET id = \(next) WHERE id = (SELECT min(id) FROM item);"
        case 3: "UPDATE item SET name = 'n\(next)\n''' WHERE id = (SELECT max(id) FROM item);"
        case 4: "UPDATE log SET b = 'y' WHERE a = \(id % 3);"
        case 5: "DELETE FROM log WHERE a = \(id % 3) AND b = 'y';"
        case 6: "INSERT INTO log VALUES (\(id % 3), 'x');"
        default: "INSERT INTO item VALUES (\(next), 'é\(next)', \(id).25);"
        }
      }
      let mark = "INSERT INTO log VALUES (\(number), 'z');"
      try pair.sql(pair.from, "BEGIN; \(statements.joined(separator: " ")) \(mark) COMMIT;")
      let outcome = try pair.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      history.append((try rows(pair, pair.from), try rows(pair, pair.to)))
    }
    func undo(_ end: End, _ more: [String]) throws -> Outcome {
      let dialect = end.isPostgres ? "postgres" : "sqlite"
      let show = ["trail", "show", "--state", "state", "--sql", dialect, "--reverse"]
      return try pair.bench.run(Bench.cairn, show + more)
    }
    // The last transaction, and after that all of them; the copies cannot be undone.
    let one = try undo(pair.to, ["--last", "1"])
    #expect(one.status == 0, "\(one.errors)")
    let all = try undo(pair.from, [])
    #expect(all.status != 0 && all.errors.contains("cannot be undone"), "\(all.errors)")
    #expect(all.output.contains("-- cannot be undone: ") && all.output.contains("a copy of table"))
    try pair.sql(pair.to, one.output)
    #expect(try rows(pair, pair.to) == history[history.count - 2].to, "seed \(seed)\n\(one.output)")
    try pair.sql(pair.from, all.output)
    #expect(try rows(pair, pair.from) == history[0].from, "seed \(seed)\n\(all.output.suffix(3000))")
  }

  @Test func `a change without its row before is a comment and no statement`() throws {
    let pair = try PairBench(.postgresToSQLite)
    try pair.sql(pair.from, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'a')")
    #expect(try pair.once().status == 0)
    func undo(after statements: [String]) throws -> String {
      for sql in statements {
        try pair.sql(pair.from, sql)
        #expect(try pair.once().status == 0)
      }
      let outcome = try pair.bench.run(
        Bench.cairn, ["trail", "show", "--state", "state", "--sql", "postgres", "--reverse"])
      #expect(outcome.status != 0)
      return outcome.output
    }
    func statements(_ output: String) -> [Substring] {
      output.split(separator: "\n").filter { line in ["INSERT", "UPDATE", "DELETE"].contains { line.hasPrefix($0) } }
    }
    var output = try undo(after: [
      "INSERT INTO item VALUES (2, 'b')", "UPDATE item SET name = 'c' WHERE id = 2", "DELETE FROM item WHERE id = 1",
      "TRUNCATE item",
    ])
    // The insert alone.
    #expect(statements(output).count == 1 && statements(output)[0].hasSuffix("= 2;"), "\(output)")
    for reason in ["a truncation", "name: the trail does not give the value", "a copy of table"] {
      #expect(output.contains(reason), "\(reason): \(output)")
    }
    // After a schema change, older changes concern another table.
    output = try undo(after: ["ALTER TABLE item ADD COLUMN note TEXT", "INSERT INTO item VALUES (3, 'd', 'e')"])
    #expect(statements(output).count == 1 && statements(output)[0].hasSuffix("= 3;"), "\(output)")
    for reason in ["a schema change of table", "have changed since"] {
      #expect(output.contains(reason), "\(reason): \(output)")
    }
  }

  @Test func `an undo with an end sees the schema changes after it`() throws {
    let pair = try PairBench(.sqliteToPostgres)
    try pair.sql(
      pair.from, "CREATE TABLE a(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE b(id INTEGER PRIMARY KEY, v TEXT)")
    #expect(try pair.once().status == 0)
    for sql in ["INSERT INTO a VALUES (1, 'x')", "INSERT INTO b VALUES (1, 'y')"] {
      try pair.sql(pair.from, sql)
      #expect(try pair.once().status == 0)
    }
    let show = ["trail", "show", "--state", "state", "--sql", "sqlite", "--reverse"]
    let now = ISO8601DateFormatter().string(from: Date().addingTimeInterval(1))
    #expect(try pair.bench.run(Bench.cairn, show + ["--until", now]).output.contains("DELETE FROM"))
    sleep(2)
    try pair.sql(pair.from, "ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b")
    #expect(try pair.once().status == 0)
    let outcome = try pair.bench.run(Bench.cairn, show + ["--until", now])
    #expect(outcome.status != 0)
    #expect(!outcome.output.contains("DELETE FROM"), "\(outcome.output)")
    #expect(outcome.output.contains("a later schema change"), "\(outcome.output)")
  }

  @Test func `printed statements use no operator of another user`() throws {
    let pair = try PairBench(.postgresToPostgres)
    try pair.sql(
      pair.from,
      "CREATE TABLE item(id varchar(9) PRIMARY KEY, n numeric); ALTER TABLE item REPLICA IDENTITY FULL")
    #expect(try pair.once().status == 0)
    for sql in ["INSERT INTO item VALUES ('a', 1)", "UPDATE item SET n = 2 WHERE id = 'a'"] {
      try pair.sql(pair.from, sql)
      #expect(try pair.once().status == 0)
    }
    try pair.sql(
      pair.to,
      """
      CREATE TABLE ran(who text);
      CREATE FUNCTION eq(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN
        INSERT INTO public.ran VALUES (current_user); RETURN $1::text OPERATOR(pg_catalog.=) $2::text; END$$;
      CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = eq);
      """)
    let show = ["trail", "show", "--state", "state", "--sql", "postgres"]
    let undo = try pair.bench.run(Bench.cairn, show + ["--reverse", "--last", "2"])
    #expect(undo.status == 0, "\(undo.errors)")
    try pair.sql(pair.to, undo.output)
    #expect(try pair.sql(pair.to, "SELECT count(*) FROM item") == "0")
    try pair.sql(pair.to, try pair.bench.run(Bench.cairn, show).output)
    #expect(try pair.sql(pair.to, "SELECT n FROM item") == "2")
    #expect(try pair.sql(pair.to, "SELECT count(*) FROM ran") == "0")
  }
}
