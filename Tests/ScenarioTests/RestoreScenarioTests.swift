import Foundation
import TestServers
import Testing

/// `cairn restore` as an operator uses it.
@Suite(.serialized, .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct RestoreScenarioTests {
  private func restore(_ pair: PairBench, _ words: [String], status: Int32 = 0) throws -> Outcome {
    let outcome = try pair.bench.run(Bench.cairn, ["restore", "--state", "state"] + words)
    #expect(outcome.status == status, "\(words): \(outcome.output)\(outcome.errors)")
    return outcome
  }

  @Test func `a table that was emptied by mistake comes back from the trail alone`() throws {
    let pair = try PairBench(.sqliteToPostgres)
    try pair.sql(pair.from, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'salt')")
    #expect(try pair.once().status == 0)
    try pair.sql(pair.from, "INSERT INTO item VALUES (2, 'tea')")
    #expect(try pair.once().status == 0)
    try pair.sql(pair.from, "DELETE FROM item")
    #expect(try pair.once().status == 0)
    let shown = try pair.bench.run(
      Bench.cairn, ["trail", "show", "--state", "state", "--table", "item", "--last", "1", "--json"])
    let lines = shown.output.split(separator: "\n").map { line in
      (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any] ?? [:]
    }
    let last = try #require(lines.compactMap { $0["transaction"] as? Int }.first)
    let outcome = try restore(pair, ["--before-transaction", "\(last)", "--into", "sqlite:back.db", "--json"])
    let facts = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
    #expect(facts?["event"] as? String == "restored")
    #expect(facts?["transaction"] as? Int == last - 1)
    let rows = try pair.bench.run(
      "/usr/bin/sqlite3", ["back.db", "SELECT id, name FROM item; SELECT name FROM sqlite_schema"])
    #expect(rows.output == "1|salt\n2|tea\nitem\n")
    let full = try restore(pair, ["--before-transaction", "\(last)", "--into", "sqlite:back.db"], status: 65)
    #expect(full.errors.contains("the file exists"))
    let all = try restore(pair, ["--to-time", "now", "--into", "sqlite:no/where.db"], status: 66)
    #expect(!all.errors.isEmpty)
  }

  @Test(
    arguments: [
      ([], "--into is missing"), (["--into", "sqlite:new.db"], "which moment?"),
      (["--into", "sqlite:new.db", "--to-time", "soon"], "'soon' is not a time"),
      (["--into", "sqlite:new.db", "--to-position", "7"], "'7' is not a position"),
      (["--into", "sqlite:new.db", "--to-position", "00000001:00000001"], "no transaction of trail"),
      (["--into", "sqlite:new.db", "--to-position", "00000009:00000000"], "no transaction of trail"),
      (["--into", "sqlite:new.db", "--before-transaction", "0"], "'0' is not the number of a transaction"),
      (["--into", "sqlite:new.db", "--before-transaction", "1"], "before the first transaction"),
      (["--into", "sqlite:new.db", "--before-transaction", "99999999999999999999"], "is not the number"),
      (["--into", "sqlite:new.db", "--before-transaction", "1000"], "ends with transaction"),
      (["--into", "sqlite:new.db", "--to-time", "1999-01-01"], "before the first transaction"),
      (["--into", "sqlite:new.db", "--to-time", "now", "--before-transaction", "2"], "does not go with"),
      (["--into", "sqlite:new.db", "--to-time", "now", "--names", "x"], "--names is 'x'"),
      (["--into", "sqlite:new.db", "--to-time", "now", "--trail", "no.such"], "there is no trail no.such"),
    ] as [([String], String)])
  func `a wrong word is refused with the next step, and nothing is made`(_ words: [String], _ message: String) throws {
    let pair = try PairBench(.sqliteToPostgres)
    try pair.sql(pair.from, "CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    #expect(try pair.once().status == 0)
    let outcome = try pair.bench.run(Bench.cairn, ["restore", "--state", "state"] + words)
    #expect(outcome.status != 0)
    #expect(outcome.errors.contains(message), "\(outcome.errors)")
    #expect(outcome.errors.contains("hint: "), "\(outcome.errors)")
    let files = try FileManager.default.contentsOfDirectory(atPath: pair.bench.folder)
    #expect(!files.contains { $0.hasPrefix("new.db") })
  }
}
