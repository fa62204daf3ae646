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

    private func line(_ bench: Bench, _ file: String, _ sql: String) throws -> String {
      try bench.sqlite(file, sql).trimmingCharacters(in: .newlines)
    }

    @Test(arguments: builds)
    func `a daemon goes on with suspended tables, transactions in quarantine and conflicts`(build: String) throws {
      let node = try DaemonBench()
      let bench = node.bench
      try unpack(build, bench)
      let server = try PostgresServer.shared
      let name = "copy_" + UUID().uuidString.prefix(8).lowercased()
      let url = try server.createDatabase(name)
      defer { try? server.dropDatabase(name) }
      try server.psql(file: bench.path("copy.sql"), name)
      let conf = bench.text("conf/cairn.toml").replacingOccurrences(of: "@HERE@", with: bench.folder)
        .replacingOccurrences(of: "@SERVER@", with: url)
      try Data(conf.utf8).write(to: URL(fileURLWithPath: bench.path("conf/cairn.toml")))
      func both(_ sql: String) throws -> [String] { [try line(bench, "copy.db", sql), try server.psql(sql, name)] }
      func reaches(_ sql: String, _ answer: String) -> Bool {
        node.wait(seconds: 60) { (try? both(sql)) == [answer, answer] }
      }
      func cairn(_ words: String...) throws -> Outcome {
        try bench.run(Bench.cairn, words + ["--config", "conf"])
      }

      try node.start()
      _ = try bench.sqlite("source.db", "INSERT INTO own VALUES (3, 'after the upgrade')")
      #expect(reaches("SELECT a FROM own WHERE id = 3", "after the upgrade"), "\(node.log)")
      #expect(try both("SELECT a FROM own WHERE id = 1") == ["from the source", "from the source"])
      for apply in ["copy", "server"] {
        let conflicts = try cairn("conflicts", "list", "--database", apply).output
        #expect(conflicts.contains("written here") || conflicts.contains("own"), "\(conflicts)")
        #expect(try cairn("quarantine", "list", "--database", apply).output.contains("waits for #1"))
        #expect((node.worker("apply.\(apply)")?["quarantined"] as? Int) == 2, "\(node.worker("apply.\(apply)") ?? [:])")
      }
      // The table is still suspended, and continues as its hint says.
      #expect(try both("SELECT count(*) FROM mine") == ["2", "2"])
      _ = try bench.sqlite("source.db", "INSERT INTO mine VALUES (3, 'three', 3)")
      _ = try both("ALTER TABLE mine ADD COLUMN b INTEGER")
      #expect(reaches("SELECT sum(b) FROM mine", "5"), "\(node.log)")
      _ = try both("DROP INDEX strict")
      for apply in ["copy", "server"] {
        let retried = try cairn("quarantine", "retry", "1", "--database", apply)
        #expect(retried.status == 0, "\(retried)")
      }
      #expect(reaches("SELECT n FROM item WHERE id = 2", "5"), "\(node.log)")
      #expect(node.wait(seconds: 90) { (try? node.cairn("status").status) == 0 }, "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test(arguments: builds)
    func `a two-way replication goes on with a row that waits for its unique value`(build: String) throws {
      let bench = try Bench()
      try unpack(build, bench)
      // The files name the folder in which they were made.
      let here = URL(fileURLWithPath: bench.folder).standardizedFileURL.path
      let names = bench.text("pair/replication")
      let made = try #require(names.firstMatch(of: /from (.*)\/left\.db/)?.1)
      try Data(names.replacing(made, with: here).utf8).write(
        to: URL(fileURLWithPath: bench.path("pair/replication")))
      for file in ["left.db", "right.db"] {
        _ = try bench.sqlite(file, "UPDATE cairn_control SET place = replace(place, '\(made)', '\(here)')")
      }
      func rows() throws -> [String] {
        try ["left.db", "right.db"].map { try line(bench, $0, "SELECT group_concat(id || code || n) FROM card") }
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
        #expect(try line(bench, file, "SELECT count(*) FROM cairn_candidate") == "0", "\(file)")
      }
    }
  }
}
