import Foundation
import TestServers
import Testing

extension Scenarios {
  /// A loss at one end of a two-way pair: the steps of the error's hint keep the newer rows of the other end.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct PairHintTests {
    private static let rows = "SELECT id, v FROM t ORDER BY id"

    /// Two databases, and the one that is lost or restored.
    struct Loss: CustomTestStringConvertible, Sendable {
      let fromPostgres: Bool, toPostgres: Bool
      var isTarget = false
      var testDescription: String {
        let ends = [fromPostgres, toPostgres].map { $0 ? "PostgreSQL" : "SQLite" }
        return "\(ends[0]) and \(ends[1]), \(isTarget ? "target" : "source") restored"
      }
    }

    private static let losses = [
      Loss(fromPostgres: false, toPostgres: false), Loss(fromPostgres: false, toPostgres: true),
      Loss(fromPostgres: true, toPostgres: false), Loss(fromPostgres: false, toPostgres: true, isTarget: true),
    ]

    private func pair(_ loss: Loss, _ server: PostgresServer? = nil) throws -> PairBench {
      let pairs = try PairBench(fromPostgres: loss.fromPostgres, toPostgres: loss.toPostgres, server)
      try pairs.sql(pairs.from, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'first')")
      let outcome = try pairs.once(["--two-way"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      return pairs
    }

    /// Runs the commands of a hint as a shell does, the last one with `--once` and the state folder `new`.
    private func follow(_ errors: String, _ pairs: PairBench, sourceLocation: SourceLocation = #_sourceLocation) throws
    {
      let commands = try #require(errors.firstMatch(of: /run: (cairn detach .*), with a new --state/)?.output.1)
      let line = "set -e; cairn() { \(Bench.cairn) \"$@\"; }; \(commands) --once --state new"
      let outcome = try pairs.bench.run("/bin/bash", ["-c", line])
      #expect(outcome.status == 0, "\(line): \(outcome.errors)", sourceLocation: sourceLocation)
    }

    private func expectRows(_ rows: String, _ pairs: PairBench, sourceLocation: SourceLocation = #_sourceLocation)
      throws
    {
      for end in [pairs.from, pairs.to] {
        #expect(try pairs.sql(end, Self.rows) == rows, "\(end.name)", sourceLocation: sourceLocation)
      }
    }

    /// Expects that both ends take writes, and that both get them.
    private func expectAlive(_ pairs: PairBench, from: End, to: End) throws {
      try pairs.sql(from, "INSERT INTO t VALUES (4, 'later'); UPDATE t SET v = 'new' WHERE id = 1")
      try pairs.sql(to, "UPDATE t SET v = 'taken, later' WHERE id = 2")
      let outcome = try pairs.bench.run(
        Bench.cairn,
        ["replicate", "--two-way", "--once", "--from", from.url, "--to", to.url, "--state", "new"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      try expectRows("1|new\n2|taken, later\n3|there\n4|later", pairs)
    }

    @Test(arguments: losses) func `a restored end loses no row of the other end`(loss: Loss) throws {
      let restored = loss.isTarget ? loss.toPostgres : loss.fromPostgres
      let pairs = try pair(loss, restored ? PostgresServer() : nil)
      let (end, other) = loss.isTarget ? (pairs.to, pairs.from) : (pairs.from, pairs.to)
      let files = try SavedFiles(of: end, pairs)
      try pairs.sql(end, "INSERT INTO t VALUES (2, 'taken')")
      #expect(try pairs.once(["--two-way"]).status == 0)
      try pairs.sql(other, "INSERT INTO t VALUES (3, 'there')")
      try files.restore()
      let refused = try pairs.once(["--two-way"])
      #expect(refused.status != 0 && refused.errors.contains("[source-went-back]"), "\(refused.errors)")
      try follow(refused.errors, pairs)
      try expectRows("1|first\n2|taken\n3|there", pairs)
      try expectAlive(pairs, from: other, to: end)
    }

    @Test(arguments: losses.dropLast()) func `a lost state folder loses no row of the end that has more`(loss: Loss)
      throws
    {
      let pairs = try pair(loss)
      try pairs.sql(pairs.to, "INSERT INTO t VALUES (2, 'taken'), (3, 'there')")
      try FileManager.default.removeItem(atPath: pairs.bench.path("state"))
      let refused = try pairs.once(["--two-way"])
      #expect(refused.status != 0 && refused.errors.contains("[checkpoint-foreign]"), "\(refused.errors)")
      #expect(refused.errors.contains("this keeps only the rows of --from: exchange the ends if cairn compare"))
      // The comparison that the hint names shows which end has more.
      let compared = try pairs.bench.run(Bench.cairn, ["compare", "--from", pairs.from.url, "--to", pairs.to.url])
      #expect(compared.output.contains("extra id=") && !compared.output.contains("missing"), "\(compared)")
      let ends = ["--from", "--to"].map {
        try? refused.errors.firstMatch(of: Regex("\($0) '([^']*)'"))?.output[1].substring
      }
      let (from, to) = (try #require(ends[0] ?? nil), try #require(ends[1] ?? nil))
      let exchanged = refused.errors.replacing("--from '\(from)' --to '\(to)'", with: "--from '\(to)' --to '\(from)'")
      try follow(exchanged, pairs)
      try expectRows("1|first\n2|taken\n3|there", pairs)
      try expectAlive(pairs, from: pairs.to, to: pairs.from)
    }

    /// An older state folder that is put back, and a file that has gone on without it.
    @Test(arguments: losses.prefix(2)) func `an older state folder names the direction too`(loss: Loss) throws {
      let pairs = try pair(loss)
      let (state, saved) = (pairs.bench.path("state"), pairs.bench.path("saved"))
      try FileManager.default.copyItem(atPath: state, toPath: saved)
      try pairs.sql(pairs.from, "INSERT INTO t VALUES (2, 'taken')")
      #expect(try pairs.once(["--two-way"]).status == 0)
      try FileManager.default.removeItem(atPath: state)
      try FileManager.default.moveItem(atPath: saved, toPath: state)
      let refused = try pairs.once(["--two-way"])
      #expect(refused.status != 0, "\(refused.errors)")
      #expect(refused.errors.contains("this keeps only the rows of --from"), "\(refused.errors)")
    }
  }

  /// The files of a database as they were at a moment, put back later.
  private final class SavedFiles {
    private let end: End
    private let pairs: PairBench
    private var saved: String { end.isPostgres ? pairs.server.folder + "/saved" : pairs.bench.path("backup.db") }

    init(of end: End, _ pairs: PairBench) throws {
      (self.end, self.pairs) = (end, pairs)
      guard end.isPostgres else {
        try FileManager.default.copyItem(atPath: pairs.bench.path(end.name), toPath: saved)
        return
      }
      try pairs.server.stop()
      try run("/bin/cp", "-a", pairs.server.folder + "/data", saved)
      try pairs.server.start()
    }

    private func run(_ program: String, _ arguments: String...) throws {
      let process = try Process.run(URL(fileURLWithPath: program), arguments: arguments)
      process.waitUntilExit()
      #expect(process.terminationStatus == 0)
    }

    func restore() throws {
      guard end.isPostgres else {
        let path = pairs.bench.path(end.name)
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        return try FileManager.default.moveItem(atPath: saved, toPath: path)
      }
      try pairs.server.stop(.immediate)
      try run("/bin/rm", "-rf", pairs.server.folder + "/data")
      try run("/bin/mv", saved, pairs.server.folder + "/data")
      try pairs.server.start()
    }
  }
}
