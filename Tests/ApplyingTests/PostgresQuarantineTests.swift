import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
@testable import Applying

/// A change that PostgreSQL does not take is put aside, with all that depends on it, and comes back in order.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresQuarantineTests {
  /// The target takes no negative amounts; the source does.
  private func started() throws -> PostgresTarget {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE t(id bigint PRIMARY KEY, a bigint CHECK (a >= 0))")
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER)", "t", [[1, 1], [2, 2]])
    try target.begin("CREATE TABLE c(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t)", "c", [])
    target.options.quarantines = true
    return target
  }

  private func log(_ target: PostgresTarget) throws -> [QuarantinedTransaction] {
    try QuarantineLog(PostgresConnection(target.url)).list()
  }

  private func ask(_ target: PostgresTarget, _ id: Int64, _ wish: QuarantinedTransaction.Wish) throws {
    #expect(try QuarantineLog(PostgresConnection(target.url)).ask(id, for: wish))
  }

  private func write(_ trail: Handmade) throws {
    try trail.transaction { try trail.update("t", [1, 1], [nil, 9]) }
    try trail.transaction { try trail.insert("t", [3, -3]) }
    try trail.transaction { try trail.insert("c", [1, 3]) }
    try trail.transaction { try trail.update("t", [1, 9], [nil, 10]) }
    try trail.transaction {
      try trail.update("t", [3, -3], [nil, 30])
      try trail.update("t", [2, 2], [nil, 20])
    }
    try trail.transaction { try trail.insert("t", [4, 4]) }
    try trail.transaction { try trail.insert("t", [5, 5]) }
  }

  private func rows(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT string_agg(id || ':' || a, ' ' ORDER BY id) FROM t")
  }

  @Test func `all else goes on, and a retry brings it back in order`() throws {
    let target = try started()
    try write(target.trail)
    try target.replay()
    #expect(try log(target).map(\.number) == [4, 5, 7])
    #expect(try log(target).map(\.heldBy) == [nil, 1, 1])
    #expect(try log(target).map(\.code) == ["constraint-failed", "quarantine-held", "quarantine-held"])
    #expect(target.progress.snapshot.quarantined == 3)
    #expect(try rows(target) == "1:10 2:2 4:4 5:5")
    // In vain, as nothing is mended.
    try ask(target, 1, .retry)
    try target.replay()
    #expect(try log(target).map(\.number) == [4, 5, 7])
    #expect(try log(target).allSatisfy { $0.wish == nil })
    try target.psql("ALTER TABLE t DROP CONSTRAINT t_a_check")
    try ask(target, 1, .retry)
    try target.replay()
    #expect(try log(target).isEmpty)
    #expect(target.progress.snapshot.quarantined == 0)
    #expect(try rows(target) == "1:10 2:20 3:30 4:4 5:5")
    #expect(try target.psql("SELECT * FROM c") == "1|3")
    try target.trail.transaction { try target.trail.insert("t", [6, 6]) }
    try target.replay()
    #expect(try rows(target).hasSuffix("5:5 6:6"))
  }

  @Test func `those that were held are tried when it is discarded`() throws {
    let target = try started()
    try write(target.trail)
    try target.replay()
    try ask(target, 1, .discard)
    try target.replay()
    // The child is taken, as apply checks no foreign keys; the update finds no row.
    #expect(try log(target).map(\.code) == ["row-missing"])
    #expect(try log(target).map(\.number) == [7])
    try ask(target, 3, .discard)
    try target.replay()
    #expect(try log(target).isEmpty)
    #expect(try rows(target) == "1:10 2:2 4:4 5:5")
  }

  /// A table whose trigger refuses each row with this SQLSTATE.
  private static func raising(_ sqlState: String) -> String {
    """
    CREATE TABLE w(id text PRIMARY KEY);
    CREATE FUNCTION refuse_\(sqlState)() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '\(sqlState)'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON w FOR EACH ROW EXECUTE FUNCTION refuse_\(sqlState)();
    ALTER TABLE w ENABLE ALWAYS TRIGGER refuse
    """
  }

  /// An index, a trigger or a CHECK of the target can make the server refuse one statement with an error of any class.
  @Test(arguments: [
    "CREATE TABLE w(id text PRIMARY KEY); CREATE INDEX i ON w((repeat(id, 400) || md5(id)))",
    "CREATE TABLE w(id text PRIMARY KEY, CHECK (length(repeat(id, 1000000)) >= 0))",
    raising("45000"), raising("XX000"), raising("3F000"), raising("55000"),
  ])
  func `a row that the server cannot write is put aside`(table: String) throws {
    let target = try started()
    try target.psql(table)
    try target.begin("CREATE TABLE w(id TEXT NOT NULL PRIMARY KEY)", "w", [])
    let letters = (0..<2000).map { _ in String(UnicodeScalar(UInt8.random(in: 97...122))) }.joined()
    try target.trail.transaction { try target.trail.insert("w", [.text(letters)]) }
    try target.trail.transaction { try target.trail.insert("t", [4, 4]) }
    for _ in 0..<2 { try target.replay() }
    #expect(try log(target).map(\.code) == ["value-misfit"])
    #expect(try rows(target) == "1:1 2:2 4:4")
  }

  @Test func `values that do not fit are put aside as well, and the trail is kept for them`() throws {
    let target = try started()
    target.options.purgesTrail = true
    try target.trail.transaction { try target.trail.insert("t", [3, "three"]) }
    try target.trail.transaction { try target.trail.insert("t", [4, 4]) }
    for _ in 0..<2 { try target.replay() }
    #expect(try log(target).map(\.code) == ["value-misfit"])
    #expect(try rows(target) == "1:1 2:2 4:4")
    let (needs, border) = (target.progress.snapshot.needs, try log(target).first?.border.position)
    #expect(needs == border)
    // Forgotten with its trail.
    try PostgresApplyState(PostgresConnection(target.url), of: target.trail.name).expectRefreshOfAll()
    #expect(try log(target).isEmpty)
  }

  @Test func `without it, apply stops`() throws {
    let target = try started()
    target.options.quarantines = false
    try write(target.trail)
    #expect(failure { try target.replay() }?.code == .constraintFailed)
  }
}
