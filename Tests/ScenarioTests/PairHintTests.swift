import Foundation
import TestServers
import Testing

extension Scenarios {
  /// A loss at one end of a two-way pair: the steps of the error's hint keep the newer rows of the other end.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct PairHintTests {
    private static let rows = "SELECT id, v FROM t ORDER BY id"

    private func pair(toPostgres: Bool) throws -> PairBench {
      let pairs = try PairBench(fromPostgres: false, toPostgres: toPostgres)
      try pairs.sql(pairs.from, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'first')")
      let outcome = try pairs.once(["--two-way"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      return pairs
    }

    /// Replicates from the end whose rows are kept, as the hints say.
    private func swapped(_ pairs: PairBench, _ state: String, _ more: [String] = []) throws -> Outcome {
      try pairs.bench.run(
        Bench.cairn,
        ["replicate", "--two-way", "--once", "--from", pairs.to.url, "--to", pairs.from.url, "--state", state] + more)
    }

    private func expectAlive(_ pairs: PairBench, _ state: String) throws {
      try pairs.sql(pairs.from, "INSERT INTO t VALUES (4, 'later'); UPDATE t SET v = 'new' WHERE id = 1")
      let outcome = try swapped(pairs, state)
      #expect(outcome.status == 0, "\(outcome.errors)")
      for end in [pairs.from, pairs.to] {
        #expect(try pairs.sql(end, Self.rows) == "1|new\n2|taken\n3|there\n4|later", "\(end.name)")
      }
    }

    @Test(arguments: [false, true])
    func `a restored source loses no row of the other end`(toPostgres: Bool) throws {
      let pairs = try pair(toPostgres: toPostgres)
      let (path, backup) = (pairs.bench.path(pairs.from.name), pairs.bench.path("backup.db"))
      try FileManager.default.copyItem(atPath: path, toPath: backup)
      try pairs.sql(pairs.from, "INSERT INTO t VALUES (2, 'taken')")
      #expect(try pairs.once(["--two-way"]).status == 0)
      try pairs.sql(pairs.to, "INSERT INTO t VALUES (3, 'there')")
      for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
      try FileManager.default.moveItem(atPath: backup, toPath: path)
      let refused = try pairs.once(["--two-way"])
      #expect(refused.status != 0 && refused.errors.contains("[source-went-back]"), "\(refused.errors)")
      #expect(refused.errors.contains("run 'cairn detach' on both"), "\(refused.errors)")
      #expect(
        refused.errors.contains("from the end whose rows to keep, with --existing overwrite"), "\(refused.errors)")
      for end in [pairs.from, pairs.to] {
        let outcome = try pairs.bench.run(Bench.cairn, ["detach", end.url])
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      let outcome = try swapped(pairs, "new", ["--existing", "overwrite"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      for end in [pairs.from, pairs.to] {
        #expect(try pairs.sql(end, Self.rows) == "1|first\n2|taken\n3|there", "\(end.name)")
      }
      try expectAlive(pairs, "new")
    }

    @Test(arguments: [false, true])
    func `a lost state folder loses no row of the other end`(toPostgres: Bool) throws {
      let pairs = try pair(toPostgres: toPostgres)
      try pairs.sql(pairs.to, "INSERT INTO t VALUES (2, 'taken'), (3, 'there')")
      try FileManager.default.removeItem(atPath: pairs.bench.path("state"))
      let refused = try pairs.once(["--two-way"])
      #expect(refused.status != 0 && refused.errors.contains("[checkpoint-foreign]"), "\(refused.errors)")
      #expect(refused.errors.contains("a copy with --existing overwrite keeps only the rows of --from; name that end"))
      // The comparison that the hint names shows which end has more.
      let compared = try pairs.bench.run(Bench.cairn, ["compare", "--from", pairs.from.url, "--to", pairs.to.url])
      #expect(compared.output.contains("extra id=") && !compared.output.contains("missing"), "\(compared)")
      // Captures of the lost replication are still there, as the next hint says.
      let held = try swapped(pairs, "again", ["--existing", "overwrite"])
      #expect(held.status != 0 && held.errors.contains("'cairn detach "), "\(held.errors)")
      for end in [pairs.from, pairs.to] {
        let outcome = try pairs.bench.run(Bench.cairn, ["detach", end.url])
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      let outcome = try swapped(pairs, "fresh", ["--existing", "overwrite"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      for end in [pairs.from, pairs.to] {
        #expect(try pairs.sql(end, Self.rows) == "1|first\n2|taken\n3|there", "\(end.name)")
      }
      try expectAlive(pairs, "fresh")
    }
  }
}
