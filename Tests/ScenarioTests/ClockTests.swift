import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The clock of the machine is set while a daemon runs.
  @Suite struct ClockTests {
    private static let day = 86_400

    /// A bench whose daemons have a clock that the returned function sets, by the seconds that it is ahead.
    private func bench() throws -> (node: DaemonBench, jump: (Int) throws -> Void, environment: [String: String]) {
      let node = try DaemonBench()
      let built = try node.bench.run(
        "/usr/bin/gcc", ["-shared", "-fPIC", "-O2", "-o", "libjump.so", "\(Bench.tool("clock"))/jump.c"])
      #expect(built.status == 0, "\(built.errors)")
      let path = node.bench.path("jump")
      func jump(_ seconds: Int) throws { try Data("\(seconds)".utf8).write(to: URL(filePath: path)) }
      try jump(0)
      return (node, jump, ["LD_PRELOAD": node.bench.path("libjump.so"), "CLOCK_JUMP": path])
    }

    @Test func `a larger max_clock_skew and a reload end the wait for a clock that was ahead`() throws {
      let (node, jump, environment) = try bench()
      _ = try node.bench.sqlite(
        "source.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY)")
      let both = """
        [capture.copy]
        database = "copy"
        copy = false
        [apply.pos]
        trail = "store-042.copy"
        database = "pos"

        """
      try node.write(node.pair(both))
      try node.start(environment: environment)
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "0"), "\(node.log)")
      #expect(node.wait { node.worker("apply.pos")?["caught_up"] as? Bool == true }, "\(node.log)")
      // The capture takes a row while the apply is stopped, and the clock is put right after that.
      #expect(try node.cairn("stop", "apply.copy").status == 0)
      #expect(node.wait(for: "apply.copy", "stopped"), "\(node.log)")
      try jump(3600)
      let taken = node.worker("capture.pos")?["rows"] as? Int ?? 0
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES ('tea')")
      #expect(node.wait { node.worker("capture.pos")?["rows"] as? Int ?? 0 > taken }, "\(node.log)")
      try jump(0)
      #expect(try node.cairn("start", "apply.copy").status == 0)
      let way = "a larger max_clock_skew and a reload end the wait"
      #expect(node.wait { (try? node.cairn("status"))?.output.contains(way) == true }, "\(node.log)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "0"))
      try node.write(node.pair("max_clock_skew = \"2 h\"\n" + both))
      #expect(try node.cairn("reload").output.contains("apply.copy"))
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      // The apply of the other trail may wait now: its clock is as far ahead.
      #expect(
        node.wait { (node.worker("apply.copy")?["detail"] as? String ?? "").contains(way) == false }, "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test func `a clock that jumps forward and back loses nothing, and gives up no reader`() throws {
      let (node, jump, environment) = try bench()
      _ = try node.bench.sqlite(
        "source.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
      try node.write(node.pair() + "[limits]\nretain = \"1 hour\"\n")
      try node.start(environment: environment)
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
