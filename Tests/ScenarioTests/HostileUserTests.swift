import Foundation
import TestServers
import Testing

extension Scenarios {
  /// A user who writes hostile text into rows, keys and names: nothing of it may run, and all of it must arrive. (C1 of
  /// the threat model.)
  @Suite struct HostileUserTests {
    @Test(arguments: ["sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"])
    func `hostile text goes through copy, follow, compare, repair and trail show, and a canary lives`(pair: String)
      throws
    {
      if pair != "sqlite-sqlite", postgresProblem != nil { return }
      let bench = try Bench()
      defer { bench.killAll() }
      let outcome = try bench.run(
        Bench.python,
        [
          Bench.tool("hostile_user.py"), "--cairn", Bench.cairn,
          "--library", URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path + "/libCairnC.so", "--pair",
          pair, "--seed", "\(drawSeed(pair))",
          "--rounds", isSoak ? "100" : "1", "--rows", isSoak ? "60" : "25",
        ], seconds: isSoak ? 3600 : 120)
      #expect(outcome.status == 0, "\((outcome.output + outcome.errors).suffix(3000))")
    }
  }
}
