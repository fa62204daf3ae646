import Foundation
import TestServers
import Testing

extension Scenarios {
  /// That the benchmark works; figures are no matter of tests.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct BenchmarkTests {
    @Test func `each pair of engines is a line of JSON with figures`() throws {
      let bench = try Bench()
      let program = URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path + "/cairn-bench"
      let outcome = try bench.run(program, ["--workloads", "W1,W7", "--rounds", "1", "--scale", "0.002"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      let lines = try outcome.output.split(separator: "\n").map { line in
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      }
      let names = lines.map { "\($0["workload"] ?? "") \($0["pair"] ?? "")" }
      let pairs = ["postgres-postgres", "postgres-sqlite", "sqlite-postgres", "sqlite-sqlite"]
      #expect(names == pairs.map { "W1 \($0)" } + ["W7 sqlite"])
      for line in lines {
        let cairn = try #require(line["cairn"] as? [String: Any])
        #expect((cairn["median"] as? Double ?? 0) > 0, "\(line)")
        let ratios = try #require(line["ratios"] as? [String: [String: Double]])
        #expect(!ratios.isEmpty && ratios.values.allSatisfy { $0["median"] ?? 0 > 0 }, "\(line)")
        #expect((line["machine"] as? [String: Any])?["cairn"] is String)
      }
    }
  }
}
