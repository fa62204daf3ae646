import Applying
import Changes
import Conflicts
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// A record of table `item`, of the row that `settled` is.
private func record(
  table: String = "item", namespace: String = "", at: Int64 = 1_000, local: ConflictRow?, incoming: ConflictRow?,
  settled: ConflictRow?, winner: ConflictRecord.Winner
) -> ConflictRecord {
  ConflictRecord(
    at: at, trail: TrailName(origin: "far", name: "shop"), position: Position(segment: 3, offset: 0x1a2c0), number: 7,
    clock: 1_799_000_000_000_000, kind: .updateOriginDiffers, rule: "newest", namespace: namespace, table: table,
    key: ConflictRow([.init("id", 1)]), local: local, incoming: incoming, before: nil, settled: settled, winner: winner,
    other: VersionStamp(clock: NumberBounds.clocks - 1, origin: "near.shop", number: 9))
}

private func row(_ name: Value, _ rest: ConflictRow.Column...) -> ConflictRow {
  ConflictRow([.init("id", 1), .init("name", name)] + rest)
}

@Suite struct ConflictRowTests {
  @Test func `a row comes back from its text exactly, whatever is in it`() throws {
    let values: [Value] = [
      .null, .integer(.min), .integer(.max), .real(1), .real(-0.0), .real(0.1), .real(.leastNonzeroMagnitude),
      .real(.infinity),
      .real(-.infinity), .real(1e300), "", "ä \u{0}\n\"\\ 1", .text([0xff, 0x41]), .blob([]), .blob([0, 0xff]),
      .exact(Array("1.50".utf8)), .exact([]),
    ]
    let row = ConflictRow(values.enumerated().map { .init("c\($0)", $1) })
    let back = try #require(ConflictRow(json: row.json))
    #expect(back == row)
    #expect(back["c4"].map { if case .real(let zero) = $0 { zero.sign == .minus } else { false } } == true)
    #expect(ConflictRow(["a", "b", "c"], [1, nil, "x"]).json == #"{"a":1,"c":"x"}"#)
    for text in ["", "[]", "{", #"{"a":true}"#, #"{"a":{"blob":"f"}}"#, #"{"a":{"else":"f"}}"#] {
      #expect(ConflictRow(json: text) == nil, "\(text)")
    }
  }
}

@Suite struct SQLiteConflictLogTests {
  private func log(_ folder: TempFolder) throws -> (ConflictLog, Database) {
    let database = try Database(path: folder("a.db"), mode: .create)
    try database.executeScript(
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock REAL, twice AS (stock * 2));
      INSERT INTO item(id, name, stock) VALUES (1, 'tea', 2), (2, 'other', 5);
      CREATE TABLE fired(what); CREATE TRIGGER t AFTER UPDATE ON item BEGIN INSERT INTO fired VALUES (new.name); END;
      """)
    return (ConflictLog(database), database)
  }

  @Test func `conflicts are kept, listed from the latest on, and forgotten in time`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    #expect(try log.list(before: nil, limit: 10).isEmpty && log.find(1) == nil && log.prune(before: .max) == 0)
    try log.install()
    try log.install()
    let first = record(local: row("tea"), incoming: nil, settled: row("tea"), winner: .local)
    var second = record(at: 2_000, local: nil, incoming: row("cocoa"), settled: row("cocoa"), winner: .incoming)
    second.other = nil
    try database.transaction { for one in [first, second] { try log.append(one) } }
    second.id = 2
    #expect(try log.find(2) == second)
    #expect(try log.list(before: nil, limit: 10).map(\.id) == [2, 1])
    #expect(try log.list(before: 2, limit: 10).map(\.id) == [1])
    #expect(try log.list(before: nil, limit: 1).first?.number == 7)
    #expect(try log.prune(before: 2_000) == 1)
    #expect(try log.list(before: nil, limit: 10).map(\.id) == [2])
  }

  @Test func `conflicts older than thirty days are forgotten in time`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    let day: Int64 = 86_400_000_000
    try database.transaction {
      for index in 0..<64 {
        try log.append(record(at: (index < 10 ? 0 : 1) * day, local: nil, incoming: nil, settled: nil, winner: .local))
      }
      for _ in 64..<128 {
        try log.append(record(at: 31 * day, local: nil, incoming: nil, settled: nil, winner: .local))
      }
    }
    #expect(try log.list(before: nil, limit: 200).map(\.id) == (11...128).reversed().map { Int64($0) })
  }

  @Test func `a log of an older version gets the columns that it lacks`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    try database.execute("ALTER TABLE cairn_conflict DROP COLUMN overturned_at")
    try log.install()
    #expect(try log.append(record(local: nil, incoming: nil, settled: nil, winner: .local)) == 1)
  }

  @Test func `the loser is put back as a change that triggers see, once the row is what it was`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    let local = row("tea", .init("stock", .real(2)))
    let incoming = row("oolong", .init("stock", .real(3)))
    try log.append(record(local: local, incoming: incoming, settled: local, winner: .local))
    try database.executeScript("UPDATE item SET stock = 4 WHERE id = 1; DELETE FROM fired")
    let error = try #require(failure { _ = try log.overturn(1, to: nil, force: false, now: 5) })
    #expect(error.code == .conflictStale && error.message.contains("column stock"), "\(error.message)")
    #expect(try log.find(1)?.overturnedAt == nil)
    #expect(try log.overturn(1, to: nil, force: true, now: 5).overturnedAt == 5)
    #expect(
      try database.query("SELECT name, stock FROM item ORDER BY id") == [["oolong", .real(3)], ["other", .real(5)]])
    #expect(try database.query("SELECT what FROM fired") == [["oolong"]])
    #expect(try log.find(1)?.overturnedAt == 5)
    // Values that are there already are no change.
    try log.overturn(1, to: .incoming, force: true, now: 6)
    #expect(try database.query("SELECT what FROM fired") == [["oolong"]])
    #expect(try #require(failure { _ = try log.overturn(9, to: nil, force: true, now: 5) }).code == .conflictMissing)
  }

  @Test func `only tables are written that the list of the apply includes`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    let local = row("tea", .init("stock", .real(2)))
    try log.append(record(local: local, incoming: row("oolong"), settled: local, winner: .local))
    let error = try #require(
      failure { _ = try log.overturn(1, to: nil, force: true, now: 5, within: TargetScope(["other"])) })
    #expect(error.code == .tableForbidden && error.message.contains("item"), "\(error)")
    #expect(try database.query("SELECT name FROM item WHERE id = 1") == [["tea"]])
    try log.overturn(1, to: nil, force: true, now: 5, within: TargetScope(["item"]))
    #expect(try database.query("SELECT name FROM item WHERE id = 1") == [["oolong"]])
  }

  @Test func `a row comes back that was deleted, and goes that had won over a delete`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    let there = row("tea", .init("stock", .real(2)))
    try log.append(record(local: there, incoming: nil, settled: there, winner: .local))
    try log.append(record(local: there, incoming: nil, settled: nil, winner: .incoming))
    try log.append(record(local: there, incoming: there, settled: there, winner: .merged))
    try log.overturn(1, to: nil, force: false, now: 5)
    #expect(try database.query("SELECT id FROM item") == [[2]])
    try log.overturn(2, to: nil, force: false, now: 5)
    #expect(try database.query("SELECT name, stock FROM item ORDER BY id")[0] == ["tea", .real(2)])
    #expect(try #require(failure { _ = try log.overturn(2, to: nil, force: false, now: 5) }).code == .conflictStale)
    #expect(try #require(failure { _ = try log.overturn(3, to: nil, force: false, now: 5) }).code == .usage)
  }

  @Test func `columns and tables that went since are named`() throws {
    let folder = try TempFolder()
    let (log, database) = try log(folder)
    defer { withExtendedLifetime(folder) {} }
    try log.install()
    let local = row("tea", .init("note", "x"))
    try log.append(record(local: local, incoming: row("oolong", .init("note", "y")), settled: local, winner: .local))
    let error = try #require(failure { _ = try log.overturn(1, to: nil, force: false, now: 5) })
    #expect(error.message.contains("column note"), "\(error.message)")
    try log.overturn(1, to: nil, force: true, now: 5)
    #expect(try database.text("SELECT name FROM item WHERE id = 1") == "oolong")
    try database.execute("DROP TABLE item")
    #expect(try #require(failure { _ = try log.overturn(1, to: nil, force: true, now: 5) }).code == .conflictStale)
  }
}

@Suite struct PostgresConflictLogTests {
  private func log(_ target: PostgresTarget) throws -> ConflictLog {
    try target.psql(
      """
      CREATE SCHEMA cairn; CREATE SCHEMA sales;
      CREATE TABLE sales.item(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name varchar(20), price numeric(8,2),
        doc json, at timestamptz, bits bytea);
      INSERT INTO sales.item(name, price, doc, at) VALUES ('tea', 2.5, '{"a": 1}', '2026-01-01 12:00+02');
      """)
    return ConflictLog(try PostgresConnection(target.url))
  }

  @Test func `conflicts are kept, and the loser is put back exactly`() throws {
    let target = try PostgresTarget()
    let log = try log(target)
    #expect(try log.list(before: nil, limit: 10).isEmpty && log.find(1) == nil && log.prune(before: .max) == 0)
    try log.install()
    try target.psql("ALTER TABLE cairn.conflict DROP COLUMN overturned_at")
    try log.install()
    let local = row(
      "tea", .init("price", .exact("2.50")), .init("doc", .exact(#"{"a": 1}"#)),
      .init("at", .exact("2026-01-01 10:00:00+00")), .init("bits", .null))
    let incoming = row(
      "oolong", .init("price", .exact("3")), .init("doc", .exact(#"{"b":[]}"#)), .init("at", .null),
      .init("bits", .blob([0, 0xff])))
    var one = record(
      namespace: "sales", local: local, incoming: incoming, settled: local, winner: .local)
    #expect(try log.append(one) == 1)
    one.id = 1
    #expect(try log.find(1) == one)
    #expect(try log.list(before: nil, limit: 10) == [one])
    try log.overturn(1, to: nil, force: false, now: 5)
    #expect(try target.psql("SELECT name, price, doc, at, bits FROM sales.item") == #"oolong|3.00|{"b":[]}||\x00ff"#)
    #expect(try log.find(1)?.overturnedAt == 5)
    let error = try #require(failure { _ = try log.overturn(1, to: nil, force: false, now: 5) })
    #expect(error.code == .conflictStale, "\(error.message)")
    #expect(try log.prune(before: 2_000) == 1)
  }

  @Test func `a row comes back that was deleted, and goes that had won over a delete`() throws {
    let target = try PostgresTarget()
    let log = try log(target)
    try log.install()
    let there = row("tea")
    try log.append(record(namespace: "sales", local: there, incoming: nil, settled: there, winner: .local))
    try log.append(record(namespace: "sales", local: there, incoming: nil, settled: nil, winner: .incoming))
    try log.overturn(1, to: nil, force: false, now: 5)
    #expect(try target.psql("SELECT count(*) FROM sales.item") == "0")
    try log.overturn(2, to: nil, force: false, now: 5)
    #expect(try target.psql("SELECT id, name FROM sales.item") == "1|tea")
    #expect(try #require(failure { _ = try log.overturn(2, to: nil, force: false, now: 5) }).code == .conflictStale)
    try target.psql("DROP TABLE sales.item")
    #expect(try #require(failure { _ = try log.overturn(1, to: nil, force: true, now: 5) }).code == .conflictStale)
  }

  @Test(
    "no code of another role runs when a decision is overturned",
    arguments: [
      """
      GRANT REFERENCES ON sales.item TO low; SET ROLE low;
      CREATE TABLE low.child(item bigint REFERENCES sales.item ON DELETE CASCADE); INSERT INTO low.child VALUES (1);
      CREATE TRIGGER spy AFTER DELETE ON low.child FOR EACH ROW EXECUTE FUNCTION low.spy()
      """,
      """
      GRANT TRIGGER ON sales.item TO low; SET ROLE low;
      CREATE TRIGGER spy AFTER DELETE ON sales.item FOR EACH ROW EXECUTE FUNCTION low.spy()
      """,
    ])
  func othersCode(setup: String) throws {
    let target = try PostgresTarget()
    let log = try log(target)
    try log.install()
    try target.psql(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low; GRANT USAGE ON SCHEMA sales TO low; SET ROLE low;
      CREATE TABLE low.seen(who text); GRANT INSERT ON low.seen TO PUBLIC;
      CREATE FUNCTION low.spy() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN NULL; END $$;
      RESET ROLE; \(setup)
      """)
    let there = row("tea")
    try log.append(record(namespace: "sales", local: there, incoming: nil, settled: there, winner: .local))
    let error = try #require(failure { _ = try log.overturn(1, to: nil, force: false, now: 5) })
    #expect(error.code == .ownersCode, "\(error.message)")
    #expect(try target.psql("SELECT count(*) FROM low.seen") == "0")
    #expect(try target.psql("SELECT id, name FROM sales.item") == "1|tea")
    try target.psql("DROP OWNED BY low CASCADE")
    try log.overturn(1, to: nil, force: false, now: 5)
    #expect(try target.psql("SELECT count(*) FROM sales.item") == "0")
  }
}
