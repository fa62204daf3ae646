import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Schema changes under live writers, judged by programs that know nothing of Cairn.
  @Suite struct PairSchemaTests {
    @Test(arguments: ["sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"])
    func `schema and rows are equal after changes during which cairn is killed`(pair: String) throws {
      if pair != "sqlite-sqlite", postgresProblem != nil { return }
      let bench = try Bench()
      defer { bench.killAll() }
      // The reduced run makes the same changes every time, so that the same program gives the same result.
      let seed = isSoak ? drawSeed(pair) : 77
      let outcome = try bench.run(
        Bench.python,
        [
          Bench.tool("schema_soak.py"), "--cairn", Bench.cairn, "--pair", pair, "--kill", "--fast", "--count",
          isSoak ? "200" : "6", "--seed", "\(seed)",
        ],
        seconds: isSoak ? 3600 : 400)
      #expect(outcome.status == 0, "\((outcome.output + outcome.errors).suffix(3000))")
    }
  }
}
