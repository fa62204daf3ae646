import Foundation
import TestServers
import Testing

/// Replications that an earlier build left go on with this one. `Tests/Tools/old_state.sh` made their files; a build that
/// changes what it keeps gets files of its own beside these.
extension DaemonScenarios {
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct UpgradeTests {
    static let builds = ["0.2.0-a"]

    /// Unpacks what a build left into a bench's folder.
    private func unpack(_ build: String, _ bench: Bench) throws {
      let files = Bench.tool("old_states/\(build).tar.gz")
      let outcome = try bench.run("/usr/bin/env", ["tar", "-xzf", files])
      try #require(outcome.status == 0, "\(outcome.errors)")
    }

    @Test(arguments: builds)
    func `a two-way replication goes on with a row that waits for its unique value`(build: String) throws {
      let bench = try Bench()
      try unpack(build, bench)
      func rows() throws -> [String] {
        try ["left.db", "right.db"].map { try bench.sqlite($0, "SELECT group_concat(id || code || n) FROM card") }
      }
      func replicate() throws -> Outcome {
        let ends = ["--from", "sqlite:left.db", "--to", "sqlite:right.db"]
        return try bench.run(Bench.cairn, ["replicate"] + ends + ["--two-way", "--state", "pair", "--once"])
      }
      #expect(try rows() == ["1a2,20x2", "1a2,20x2"])
      for file in ["left.db", "right.db"] {
        let conflicts = try bench.run(Bench.cairn, ["conflicts", "list", "--database", "sqlite:\(file)"]).output
        #expect(conflicts.split(separator: "\n").count >= 2 && conflicts.contains("card"), "\(conflicts)")
        let waiting = try bench.run(Bench.cairn, ["conflicts", "list", "--waiting", "--database", "sqlite:\(file)"])
        #expect(waiting.output.contains("10"), "\(waiting)")
      }
      _ = try bench.sqlite("left.db", "UPDATE card SET n = 3 WHERE id = 1")
      _ = try bench.sqlite("right.db", "DELETE FROM card WHERE id = 20")
      let outcome = try replicate()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try rows() == ["1a3,10x1", "1a3,10x1"])
      for file in ["left.db", "right.db"] {
        #expect(try bench.sqlite(file, "SELECT count(*) FROM cairn_candidate") == "0", "\(file)")
      }
    }
  }
}
