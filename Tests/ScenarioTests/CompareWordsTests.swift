import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Rows that `cairn compare` may not take for equal, and rows that it may not call different.
  @Suite struct CompareWordsTests {
    private func compare(_ bench: Bench, _ more: [String] = [], environment: [String: String] = [:]) throws -> Outcome {
      try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db"] + more, seconds: 90,
        environment: ["XDG_STATE_HOME": bench.path("home")].merging(environment) { $1 })
    }

    private func replicate(_ bench: Bench, _ more: [String]) throws {
      let outcome = try bench.run(
        Bench.cairn, ["replicate", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--once"] + more,
        seconds: 90, environment: ["XDG_STATE_HOME": bench.path("home")])
      try #require(outcome.status == 0, "\(outcome.errors)")
    }

    @Test func `several rows of one key at the target are extra`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite(
        "source.db", "CREATE TABLE u(k INTEGER PRIMARY KEY, v); INSERT INTO u VALUES (1, 'a'), (2, 'b')")
      _ = try bench.sqlite(
        "target.db", "CREATE TABLE u(k, v); INSERT INTO u VALUES (1, 'a'), (2, 'b'), (2, 'c'), (2, 'b'), (1, 'a')")
      let found = try compare(bench)
      #expect(found.status == 1)
      #expect(found.output.contains("u: 2 rows, 0 missing, 3 extra, 0 different"), "\(found.output)")
    }

    @Test func `tables that are not there are not equal`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      for file in ["source.db", "target.db"] {
        _ = try bench.sqlite(file, "CREATE TABLE orders(id INTEGER PRIMARY KEY)")
      }
      let typo = try compare(bench, ["--tables", "oders"])
      #expect(typo.status != 0)
      #expect(typo.errors.contains("[table-missing]"), "\(typo.errors)")
      #expect(try compare(bench, ["--tables", "orders"]).status == 0)
    }

    @Test func `only what is replicated is compared, unless tables are named`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite(
        "source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE other(id INTEGER PRIMARY KEY)")
      try replicate(bench, ["--tables", "item"])
      let all = try compare(bench)
      #expect(all.status == 0, "\(all.output)")
      #expect(try compare(bench, ["--tables", "*"]).output.contains("other: the target has no such table"))
    }

    @Test func `without the state of the replication nothing is called a difference`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a')")
      try replicate(bench, ["--state", "elsewhere"])
      _ = try bench.sqlite("source.db", "UPDATE t SET v = 'b'")
      let found = try compare(bench)
      #expect(found.status == 75, "\(found.output)")
      #expect(found.errors.contains("name that replication's state folder with --state"), "\(found.errors)")
      #expect(found.output.contains("t: not proven: different id=1"), "\(found.output)")
      #expect(try compare(bench, ["--state", "elsewhere"]).output.contains("t: not proven: different id=1"))
    }

    @Test func `messages show what differs, and move no terminal`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      let row = "INSERT INTO t VALUES ('%', printf('%.*c', 60, 'x') || 'end of %', char(27) || ']0;%')"
      for (file, word) in [("source.db", "one"), ("target.db", "two")] {
        let values = row.replacingOccurrences(of: "'%'", with: "printf('%.*c', 50, 'k')").replacingOccurrences(
          of: "of %", with: "of \(word)"
        ).replacingOccurrences(of: ";%", with: ";\(word)")
        _ = try bench.sqlite(file, "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, v, w); \(values)")
      }
      let found = try compare(bench)
      #expect(found.output.contains("v differs from byte 68 on"), "\(found.output)")
      #expect(found.output.contains("w is '\\x1b]0;one' at the source"), "\(found.output)")
      let json = try compare(bench, ["--json"])
      #expect(json.output.contains(#""source_class":"text""#), "\(json.output)")
      #expect(json.output.contains(#""k":"'\#(String(repeating: "k", count: 50))'""#), "\(json.output)")
    }

    @Test func `a PostgreSQL source proves differences while nothing replicates`() throws {
      if postgresProblem != nil { return }
      let pair = try PairBench(.postgresToSQLite)
      try pair.sql(
        pair.from,
        "CREATE TABLE t(k numeric PRIMARY KEY, v text); INSERT INTO t VALUES (1.50, 'a'), (2.50, 'b'); "
          + "CREATE TABLE wide(k text PRIMARY KEY, v text); INSERT INTO wide SELECT 'k' || i, repeat('x', 300000) FROM generate_series(1, 60) AS i"
      )
      let copied = try pair.bench.run(
        Bench.cairn, ["replicate", "--from", pair.from.url, "--to", pair.to.url, "--state", "state", "--once"])
      try #require(copied.status == 0, "\(copied.errors)")
      func compare() throws -> Outcome {
        try pair.bench.run(Bench.cairn, ["compare", "--from", pair.from.url, "--to", pair.to.url, "--state", "state"])
      }
      let equal = try compare()
      #expect(equal.status == 0, "\(equal.output)\(equal.errors)")
      try pair.sql(pair.to, "UPDATE t SET v = 'x' WHERE k = '1.50'; UPDATE t SET k = '2.5' WHERE k = '2.50'")
      let found = try compare()
      #expect(found.status == 1, "\(found.output)\(found.errors)")
      for line in ["t: different k='1.50'", "t: missing k='2.50'", "t: extra k='2.5'"] {
        #expect(found.output.contains(line), "\(found.output)")
      }
      try pair.sql(pair.from, "UPDATE t SET v = 'later' WHERE k = 1.5")
      let pending = try compare()
      #expect(pending.output.contains("t: not proven: different k='1.50'"), "\(pending.output)")
    }

    @Test func `rows with NULL in their key are compared and counted`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      let table = "CREATE TABLE n(a, b, v, PRIMARY KEY(a, b)); "
      _ = try bench.sqlite(
        "source.db", table + "INSERT INTO n VALUES (1, 1, 'x'), (NULL, 1, 'a'), (NULL, 1, 'a'), (2, NULL, 'c')")
      _ = try bench.sqlite(
        "target.db", table + "INSERT INTO n VALUES (1, 1, 'x'), (NULL, 1, 'a'), (2, NULL, 'd')")
      let found = try compare(bench)
      #expect(found.output.contains("n: 4 rows, 2 missing, 1 extra, 0 different"), "\(found.output)")
    }

    @Test func `keys without a place in the target's order are compared, each row once`() throws {
      if postgresProblem != nil { return }
      let pair = try PairBench(.sqliteToPostgres)
      try pair.sql(
        pair.from,
        "CREATE TABLE t(k INT PRIMARY KEY NOT NULL, v TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i, 'v' FROM n; INSERT INTO t VALUES ('abc', 'v'), ('abd', 'v')"
      )
      try pair.sql(
        pair.to,
        "CREATE TABLE t(k bigint PRIMARY KEY, v text); INSERT INTO t SELECT i, 'v' FROM generate_series(1, 5000) AS i; UPDATE t SET v = 'w' WHERE k IN (7, 4990); INSERT INTO t VALUES (6000, 'v')"
      )
      let found = try pair.bench.run(
        Bench.cairn, ["compare", "--from", pair.from.url, "--to", pair.to.url], seconds: 60,
        environment: ["XDG_STATE_HOME": pair.bench.path("home")])
      #expect(found.output.contains("t: 5002 rows, 2 missing, 1 extra, 2 different"), "\(found.output)\(found.errors)")
    }

    @Test func `many differences need little memory, and are all counted`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      let rows = isSoak ? 1_000_000 : 30_000
      let tables =
        "CREATE TABLE keyed(k TEXT PRIMARY KEY, v TEXT); CREATE TABLE ranged(k INTEGER PRIMARY KEY, v TEXT); CREATE TABLE keyless(v TEXT); "
      let series = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))"
      let text = "printf('row %d of some bytes %.*c', i, 60, 'x')"
      _ = try bench.sqlite(
        "source.db",
        tables
          + "\(series) INSERT INTO keyed SELECT 'k' || i, \(text) FROM n; \(series) INSERT INTO keyless SELECT \(text) FROM n"
      )
      _ = try bench.sqlite("target.db", tables + "\(series) INSERT INTO ranged SELECT i, \(text) FROM n")
      let cairn = try bench.start(
        "compare", Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--limit", "1"])
      var peak = 0
      while cairn.isRunning {
        peak = max(peak, cairn.anonymousKiB)
        usleep(10_000)
      }
      print("peak anonymous memory \(peak) KiB for three tables of \(rows) rows that differ")
      #expect(peak > 0 && peak < 64 * 1024)
      let output = bench.text("compare.out")
      #expect(output.contains("keyed: \(rows) rows, \(rows) missing, 0 extra, 0 different"), "\(output)")
      #expect(output.contains("ranged: 0 rows, 0 missing, \(rows) extra, 0 different"), "\(output)")
      #expect(output.contains("keyless: \(rows) rows, \(rows) missing, 0 extra, 0 different"), "\(output)")
    }
  }
}
