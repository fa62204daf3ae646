import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Nodes in networks of their own, with links that fail; `Tests/Tools/network_faults.py` has the cases and judges.
  @Suite struct NetworkFaultTests {
    /// In reduced size those that differ most; the way is drawn.
    private static let cases: [[String]] =
      isSoak
      ? [[]]
      : [
        ["link-cut", "lossy-link"], ["receiver-killed", "sender-killed"], ["disk-full", "restored-backup"],
        ["expired", "wrong-authority", "wrong-name", "revoked", "token-twice"], ["ring"],
      ]

    @Test(arguments: cases)
    func `nothing is lost or doubled on a network that fails, and one line reports each failure`(names: [String]) throws
    {
      let bench = try Bench()
      let seed = drawSeed("network")
      var words = ["--cairn", Bench.cairn, "--cairnd", DaemonBench.cairnd, "--seed", "\(seed)"]
      words += names.flatMap { ["--case", $0] }
      words += isSoak ? ["--seconds", "10"] : ["--seconds", "1", "--way", seed % 2 == 0 ? "push" : "pull"]
      let outcome = try bench.run(
        Bench.python, [Bench.tool("network_faults.py")] + words, seconds: isSoak ? 3600 : 300)
      print(outcome.output)
      #expect(outcome.status == 0, "\((outcome.output + outcome.errors).suffix(6000))")
    }
  }
}
