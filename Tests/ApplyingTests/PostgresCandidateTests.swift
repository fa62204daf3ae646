import Changes
import Conflicts
import PostgresKit
import TestServers
import Testing

@testable import Applying

/// Which rows of PostgreSQL have a unique value of one that is not there.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresCandidateTests {
  private let target: PostgresTarget
  private let connection: PostgresConnection

  init() throws {
    target = try PostgresTarget()
    connection = try PostgresConnection(target.url)
  }

  /// The keys of rows of `t` that are in the way of one, whose columns come by name.
  private func inTheWay(_ id: Int64, _ values: (String, Value)...) throws -> [String] {
    let columns = [ConflictRow.Column("id", .integer(id))] + values.map { .init($0, $1) }
    let row = ContestedRow(
      namespace: "public", table: "t", key: ConflictRow([columns[0]]), row: ConflictRow(columns))
    return try PostgresDisplacedRows(connection).rows(inTheWayOf: row).map { $0.key["id"]?.postgresInput ?? "" }
      .sorted()
  }

  @Test("an index with WHERE keeps only those rows apart that it has") func partial() throws {
    try target.psql(
      """
      CREATE TABLE t(id integer PRIMARY KEY, name varchar(9), deleted boolean NOT NULL DEFAULT false);
      CREATE UNIQUE INDEX ON t(name) WHERE NOT deleted;
      INSERT INTO t VALUES (1, 'tea', false), (2, 'tea', true), (3, NULL, false), (4, 'milk', true)
      """)
    func inTheWay(_ id: Int64, _ name: Value, deleted: String = "f") throws -> [String] {
      try self.inTheWay(id, ("name", name), ("deleted", .text(deleted)))
    }
    try #expect(inTheWay(9, .text("tea")) == ["1"])
    try #expect(inTheWay(9, .text("tea"), deleted: "t") == [])
    try #expect(inTheWay(1, .text("tea")) == [], "a row is not in its own way")
    try #expect(inTheWay(2, .text("tea")) == ["1"], "nor is what it is now")
    try #expect(inTheWay(9, .null) == [])
    try #expect(inTheWay(9, .text("milk")) == [])
    try target.psql("ALTER TABLE t ADD old serial; ALTER TABLE t DROP COLUMN id, ADD id integer; UPDATE t SET id = old")
    try #expect(self.inTheWay(9, ("name", .text("tea"))) == ["1"], "what is not said is as an insert leaves it")
    try #expect(target.psql("SELECT max(old) FROM t") == target.psql("SELECT last_value FROM t_old_seq"))
  }

  @Test("an index over expressions has them of values of the column's type and collation") func expressions() throws {
    try target.psql(
      """
      CREATE COLLATION nocase(provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE t(id integer PRIMARY KEY, mail text, code char(5), price numeric(6,2), tag text COLLATE nocase,
        half numeric GENERATED ALWAYS AS (price / 2) STORED);
      CREATE UNIQUE INDEX ON t(lower(mail)) WHERE mail LIKE '%@%';
      CREATE UNIQUE INDEX ON t(length(code), (code || '.'));
      CREATE UNIQUE INDEX ON t(half);
      CREATE UNIQUE INDEX ON t(left(tag, 2));
      INSERT INTO t VALUES (1, 'Ann@Example', 'ab', 3, 'Blue'), (2, 'ann', NULL, 4.10, NULL), (3, NULL, 'c', NULL, 'red')
      """)
    try #expect(inTheWay(9, ("mail", .text("ann@example"))) == ["1"])
    try #expect(inTheWay(9, ("mail", .text("ANN"))) == [])
    try #expect(inTheWay(9, ("code", .text("ab")), ("price", .text("4.1"))) == ["1", "2"], "one for each index")
    try #expect(inTheWay(1, ("code", .text("c    ")), ("tag", .text("REst"))) == ["3"])
    try #expect(inTheWay(9, ("tag", .text("BLock"))) == ["1"])
    try #expect(inTheWay(9, ("price", .null)) == [])
  }

  @Test(
    "an index tells values apart by its own collation, and NULLs as it says", .enabled(if: Self.knowsNullsNotDistinct))
  func collationsAndNulls() throws {
    try target.psql(
      """
      CREATE COLLATION nocase(provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE t(id integer PRIMARY KEY, name text, part integer, zone integer);
      CREATE UNIQUE INDEX ON t(name COLLATE nocase);
      CREATE UNIQUE INDEX ON t(part, abs(zone)) NULLS NOT DISTINCT;
      INSERT INTO t VALUES (1, 'Tea', 7, NULL), (2, NULL, NULL, NULL), (3, 'milk', NULL, 5)
      """)
    try #expect(inTheWay(9, ("name", .text("TEA")), ("part", .integer(1)), ("zone", .integer(1))) == ["1"])
    try #expect(inTheWay(9, ("name", .null), ("part", .integer(7)), ("zone", .null)) == ["1"])
    try #expect(inTheWay(9, ("part", .null), ("zone", .null)) == ["2"])
    try #expect(inTheWay(9, ("part", .null), ("zone", .integer(-5))) == ["3"])
    try #expect(inTheWay(9, ("part", .integer(7)), ("zone", .integer(5))) == [])
  }

  static var knowsNullsNotDistinct: Bool {
    (try? Int(PostgresServer.shared.psql("SHOW server_version_num")) ?? 0 >= 150_000) ?? false
  }
}
