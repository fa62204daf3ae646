import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn skip` and `cairn take-source`, as operators meet them.
  @Suite struct RowCommandTests {
    /// A pair whose target another program has written to.
    private func start(_ more: String = "") throws -> DaemonBench {
      let node = try DaemonBench()
      let table = "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, n INTEGER)"
      _ = try node.bench.sqlite("source.db", "\(table); INSERT INTO item VALUES (1, 'tea', 0), (2, 'rice', 0)")
      try node.write(node.pair(more))
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "2"), "\(node.log)")
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      return node
    }

    private func row(_ node: DaemonBench) throws -> (position: String, hint: String) {
      let error = try #require(node.worker("apply.copy")?["error"] as? [String: Any])
      let row = try #require(error["row"] as? [String: Any], "\(error)")
      return (try #require(row["position"] as? String), try #require(error["hint"] as? String))
    }

    @Test func `a row that stops the apply is left out or taken, and all that is recorded`() throws {
      let node = try start()
      let bench = node.bench
      let early = try node.cairn("skip", "copy", "--at", "00000001:00000122")
      #expect(early.status == 64 && early.errors.contains("apply.copy is not stopped at a row"), "\(early)")
      let unknown = try node.cairn("skip", "cop")
      #expect(unknown.status == 64 && unknown.errors.contains("did you mean 'copy'?"), "\(unknown)")
      _ = try bench.sqlite("target.db", "UPDATE item SET name = 'mine'")
      _ = try bench.sqlite("source.db", "UPDATE item SET n = 1 WHERE id = 1")
      _ = try bench.sqlite("source.db", "UPDATE item SET n = 1 WHERE id = 2")
      #expect(node.wait(for: "apply.copy", "failed", code: "row-differs"), "\(node.log)")

      let first = try row(node)
      #expect(first.hint.contains("'cairn skip copy --at \(first.position)'"), "\(first)")
      #expect(first.hint.contains("'cairn take-source copy --at \(first.position)'"), "\(first)")
      let wrong = try node.cairn("skip", "copy", "--at", "00000001:00000001")
      #expect(wrong.status == 64 && wrong.errors.contains("is stopped at \(first.position), table item"), "\(wrong)")
      #expect(try node.cairn("skip", "copy", "--at", "tea").status == 64)
      let taken = try node.cairn("take-source", "copy", "--at", first.position)
      #expect(taken.status == 0 && taken.output.contains("takes the source's row: table item, row id=1"), "\(taken)")
      #expect(node.wait(for: "apply.copy", "failed", code: "row-differs"), "\(node.log)")
      #expect(node.wait { (try? row(node).position) != first.position }, "\(node.log)")
      // It is too late for the first row.
      #expect(try node.cairn("skip", "copy", "--at", first.position).status == 64)

      _ = node.end(SIGKILL)
      try node.start()
      #expect(node.wait(for: "apply.copy", "failed", code: "row-differs"), "\(node.log)")
      let skipped = try node.cairn("skip", "apply.copy", "--json")
      #expect(skipped.status == 0 && skipped.output.contains("\"event\":\"skip\""), "\(skipped)")
      _ = try bench.sqlite("source.db", "INSERT INTO item VALUES (3, 'salt', 1)")
      #expect(try bench.waitForTarget("SELECT group_concat(name) FROM item", "tea,mine,salt"), "\(node.log)")
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")

      let list = try bench.run(Bench.cairn, ["conflicts", "list", "--config", "conf", "--json"]).output
      #expect(list.contains("\"rule\":\"take-source by uid ") && list.contains("\"rule\":\"skip by uid "), "\(list)")
      #expect(node.log.contains("order 'skip copy --at "), "\(node.log)")
      let compared = try node.cairn("compare", "copy")
      #expect(compared.status == 1 && compared.output.contains("different id=2"), "\(compared)")
      #expect(node.end() == 0)
    }

    @Test func `without a daemon, the command says so`() throws {
      let node = try DaemonBench()
      try node.write(node.pair())
      let outcome = try node.cairn("take-source", "copy", "--at", "00000001:00000122")
      #expect(outcome.status == 69 && outcome.errors.contains("daemon-unreachable"), "\(outcome)")
    }
  }
}
