import Foundation
import TestServers
import Testing

extension Scenarios {
  /// The effect of schema changes at the target, by policy, with real programs: `ours` was created by Cairn, `mine` was
  /// there.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct SchemaPolicyTests {
    struct Ends: CustomTestStringConvertible, Sendable {
      let from: Bool
      let to: Bool
      var testDescription: String {
        "\(from ? "PostgreSQL" : "SQLite") to \(to ? "PostgreSQL" : "SQLite")"
      }
      static let all = [false, true].flatMap { from in [false, true].map { Ends(from: from, to: $0) } }
    }

    private func started(_ ends: Ends) throws -> PairBench {
      let pairs = try PairBench(fromPostgres: ends.from, toPostgres: ends.to)
      for table in ["mine", "ours"] {
        try pairs.sql(pairs.from, "CREATE TABLE \(table)(id \(integer(ends.from)) PRIMARY KEY, a TEXT)")
        try pairs.sql(pairs.from, "INSERT INTO \(table) VALUES (1, 'one'), (2, 'two')")
      }
      try pairs.sql(pairs.to, "CREATE TABLE mine(id \(integer(ends.to)) PRIMARY KEY, a TEXT)")
      let outcome = try pairs.once()
      try #require(outcome.status == 0, "\(outcome.errors)")
      return pairs
    }

    private func integer(_ isPostgres: Bool) -> String { isPostgres ? "bigint" : "INTEGER" }

    private func change(_ pairs: PairBench) throws {
      for table in ["mine", "ours"] {
        try pairs.sql(pairs.from, "ALTER TABLE \(table) ADD COLUMN b \(integer(pairs.from.isPostgres))")
        try pairs.sql(pairs.from, "INSERT INTO \(table) VALUES (3, 'three', 3)")
        try pairs.sql(pairs.from, "UPDATE \(table) SET b = 1 WHERE id = 1")
      }
      try pairs.sql(pairs.from, "CREATE TABLE later(id \(integer(pairs.from.isPostgres)) PRIMARY KEY)")
      try pairs.sql(pairs.from, "INSERT INTO later VALUES (7)")
    }

    private func columns(_ pairs: PairBench, _ table: String) throws -> String {
      try pairs.sql(
        pairs.to,
        pairs.to.isPostgres
          ? "SELECT count(*) FROM information_schema.columns WHERE table_name = '\(table)'"
          : "SELECT count(*) FROM pragma_table_info('\(table)')")
    }

    /// The names of the tables that wait, as the error says with which a run ends.
    private func waiting(_ outcome: Outcome) -> Set<String> {
      let error = outcome.errors.components(separatedBy: "error [schema-stopped]: ").dropFirst().last ?? ""
      let names = error.components(separatedBy: error.contains("; the first") ? "; the first" : " waits:")[0]
      let words = names.split { " ,:".contains($0) }.map { $0.replacingOccurrences(of: "public.", with: "") }
      return Set(["mine", "ours", "later"]).intersection(words)
    }

    private func alter(_ pairs: PairBench, _ table: String) throws {
      try pairs.sql(pairs.to, "ALTER TABLE \(table) ADD COLUMN b \(integer(pairs.to.isPostgres))")
    }

    @Test(arguments: Ends.all)
    func `without a policy, tables that were there wait, and go on when they were altered`(ends: Ends) throws {
      let pairs = try started(ends)
      let cairn = try pairs.start()
      try change(pairs)
      #expect(pairs.waitForTarget("SELECT count(*) FROM later", "1"), "\(pairs.said("cairn"))")
      #expect(pairs.waitForTarget("SELECT sum(b) FROM ours", "4"), "\(pairs.said("cairn"))")
      // Rows that came before the change at the source may be there already; the change is not.
      #expect(try columns(pairs, "mine") == "2")
      try alter(pairs, "mine")
      #expect(pairs.waitForTarget("SELECT sum(b) FROM mine", "4"), "\(pairs.said("cairn"))")
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      let said = pairs.said("cairn")
      #expect(said.contains("schema-stopped: table") && said.contains("waits no longer"), "\(said)")
      try pairs.expectEqual()
    }

    @Test(arguments: Ends.all)
    func `follow alters every table`(ends: Ends) throws {
      let pairs = try started(ends)
      try change(pairs)
      let outcome = try pairs.once(["--ddl", "follow"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
    }

    @Test(arguments: Ends.all)
    func `under stop every table waits, also when cairn is killed again and again`(ends: Ends) throws {
      let pairs = try started(ends)
      try change(pairs)
      for _ in 0..<3 {
        let cairn = try pairs.start("killed", ["--ddl", "stop"])
        usleep(UInt32.random(in: 0...600_000))
        _ = pairs.bench.stop(cairn, SIGKILL)
      }
      let outcome = try pairs.once(["--ddl", "stop"])
      #expect(outcome.status == 65 && waiting(outcome) == ["mine", "ours", "later"], "\(outcome.errors)")
      for table in ["mine", "ours"] {
        #expect(try columns(pairs, table) == "2")
        try alter(pairs, table)
      }
      let rest = try pairs.once(["--ddl", "stop"])
      #expect(rest.status == 65 && waiting(rest) == ["later"], "\(rest.errors)")
      try pairs.sql(pairs.to, "CREATE TABLE later(id \(integer(ends.to)) PRIMARY KEY)")
      for _ in 0..<3 {
        let cairn = try pairs.start("killed", ["--ddl", "stop"])
        usleep(UInt32.random(in: 0...600_000))
        _ = pairs.bench.stop(cairn, SIGKILL)
      }
      let last = try pairs.once(["--ddl", "stop"])
      #expect(last.status == 0, "\(last.errors)")
      try pairs.expectEqual()
    }

    @Test(arguments: Ends.all)
    func `a copy after a change of type leaves the target's own columns as they are`(ends: Ends) throws {
      let pairs = try started(ends)
      try pairs.sql(pairs.to, "ALTER TABLE ours ADD COLUMN own TEXT")
      try pairs.sql(pairs.to, "UPDATE ours SET own = 'own ' || id")
      if ends.from {
        try pairs.sql(pairs.from, "ALTER TABLE ours ALTER a TYPE varchar(9) USING upper(a)")
      } else {
        for step in [
          "CREATE TABLE next(id INTEGER PRIMARY KEY, a VARCHAR(9))",
          "INSERT INTO next SELECT id, upper(a) FROM ours", "DROP TABLE ours", "ALTER TABLE next RENAME TO ours",
        ] {
          try pairs.sql(pairs.from, step)
        }
      }
      let outcome = try pairs.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try pairs.sql(pairs.to, "SELECT a || ' ' || own FROM ours ORDER BY id") == "ONE own 1\nTWO own 2")
    }

    @Test(arguments: Ends.all)
    func `ignore leaves the target as it is, and what it lacks out`(ends: Ends) throws {
      let pairs = try started(ends)
      try change(pairs)
      let outcome = try pairs.once(["--ddl", "ignore"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      for table in ["mine", "ours"] {
        #expect(try columns(pairs, table) == "2")
        #expect(try pairs.sql(pairs.to, "SELECT count(*) FROM \(table)") == "3")
        #expect(outcome.errors.contains("\(table).b is left out"), "\(outcome.errors)")
      }
      #expect(try columns(pairs, "later") == "0")
    }
  }
}
