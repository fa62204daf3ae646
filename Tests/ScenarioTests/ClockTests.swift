import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The clock of the machine is set while a daemon runs.
  @Suite struct ClockTests {
    private static let day = 86_400

    @Test func `a clock that jumps forward and back loses nothing, and gives up no reader`() throws {
      let node = try DaemonBench()
      let built = try node.bench.run(
        "/usr/bin/gcc", ["-shared", "-fPIC", "-O2", "-o", "libjump.so", "\(Bench.tool("clock"))/jump.c"])
      #expect(built.status == 0, "\(built.errors)")
      func jump(_ seconds: Int) throws { try Data("\(seconds)".utf8).write(to: URL(filePath: node.bench.path("jump"))) }
      try jump(0)
      _ = try node.bench.sqlite(
        "source.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
      try node.write(node.pair() + "[limits]\nretain = \"1 hour\"\n")
      try node.start(environment: ["LD_PRELOAD": node.bench.path("libjump.so"), "CLOCK_JUMP": node.bench.path("jump")])
      var (written, jumps) = (0, 0)
      func write() throws {
        written += 1
        _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (\(written), 'at \(written)')")
        #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "\(written)"), "\(node.log)")
      }
      try write()
      for seconds in [Self.day, -2 * Self.day, 400 * Self.day, 0] {
        try jump(seconds)
        try write()
        jumps += 1
        #expect(
          node.wait { node.log.components(separatedBy: "the clock jumped").count == jumps + 1 }, "\(node.log)")
        usleep(1_200_000)
        try write()
        for name in ["capture.pos", "apply.copy"] {
          let worker = try #require(node.worker(name))
          #expect(worker["state"] as? String == "running", "\(worker)")
          #expect(worker["restarts"] as? Int == 0, "\(worker)")
        }
      }
      // A transaction's clock rises whatever the time of day does.
      let verified = try node.bench.run(Bench.cairn, ["trail", "verify", "--state", node.bench.path("state")])
      #expect(verified.status == 0, "\(verified.output)\(verified.errors)")
      let shown = try node.bench.run(Bench.cairn, ["trail", "show", "--state", node.bench.path("state")])
      let year = Calendar.current.component(.year, from: Date().addingTimeInterval(Double(400 * Self.day)))
      #expect(shown.output.contains(" \(year)-"), "the clock did not jump: \(shown.output.suffix(500))")
      #expect(node.end() == 0)
      #expect(!node.log.contains("copied again"), "\(node.log)")
      #expect(try node.bench.differences() == "")
    }
  }
}
