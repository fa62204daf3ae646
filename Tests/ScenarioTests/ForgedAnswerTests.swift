import Changes
import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A node asks another one about its rows, over a connection on which all else is true and the answers are lies.
  @Suite struct ForgedAnswerTests {
    private let net: NetworkBench
    private let till: NetworkBench.Node
    private var lie: String { net.bench.path("lie") }

    /// Makes two nodes, the proxy between them, and some rows that differ.
    init() throws {
      net = try NetworkBench()
      let ports = try (0..<2).map { _ in try NetworkBench.freePort() }
      _ = try net.bench.sqlite(
        "pos.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE note(text TEXT, at INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO sale SELECT i, 'sale ' || i FROM n;
        INSERT INTO note SELECT text, id % 3 FROM sale WHERE id <= 40
        """)
      try Self.write(
        net, "hq",
        """
        [database.pos]
        url = "sqlite://\(net.bench.path("pos.db"))"
        [capture.pos]
        database = "pos"
        [receive]
        listen = "127.0.0.1:\(ports[0])"
        insecure = true
        [peer.till]
        may = { pull = ["hq.*"] }

        """)
      try Self.write(
        net, "till",
        """
        [database.till]
        url = "sqlite://\(net.bench.path("till.db"))"
        [pump.from-hq]
        trail = "hq.pos"
        from = "http://127.0.0.1:\(ports[1])"
        [apply.pos]
        trail = "hq.pos"
        database = "till"
        tables = ["*"]
        audit = "1MiB/s"

        """)
      try net.start("hq", net.bench.path("hq"))
      _ = try net.bench.start(
        "between", Bench.python, [Bench.tool("lying_proxy.py"), "\(ports[1])", "\(ports[0])", net.bench.path("lie")])
      till = try net.start("till", net.bench.path("till"))
      try #require(net.wait(for: "till.db", "SELECT count(*) FROM sale", "300", seconds: 60), "\(net.logs)")
      try #require(net.wait(for: "till.db", "SELECT count(*) FROM note", "40"), "\(net.logs)")
      _ = try net.bench.sqlite(
        "till.db",
        """
        UPDATE sale SET text = 'other' WHERE id = 8; DELETE FROM sale WHERE id = 10; INSERT INTO sale VALUES (900, 'x');
        DELETE FROM note WHERE text = 'sale 7'; INSERT INTO note VALUES ('more', 1)
        """)
    }

    private static func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    /// The kinds of questions (`docs/reference/protocol.md`, Questions about rows).
    private enum Kind: Int {
      case any = 0
      case tables, standing, progress, parts, scan, rows, counts
    }

    private func tell(_ kind: Kind, _ facts: String) throws {
      try Data("{\"kind\": \(kind.rawValue), \(facts)}".utf8).write(to: URL(fileURLWithPath: lie), options: .atomic)
    }

    /// A whole answer: an answer of Cairn that is no error, of a question that was answered wholly.
    private func body(_ write: (inout ByteWriter) -> Void) -> String {
      var writer = ByteWriter()
      for byte: UInt8 in [0, 0] { writer.append(byte) }
      write(&writer)
      return "\"body\": \"\(writer.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())\""
    }

    /// Compares in a process that gets a GiB of memory.
    private func compare() throws -> Outcome {
      try net.bench.run(
        "/usr/bin/prlimit", ["--data=1073741824", Bench.cairn, "compare", "pos", "--config", "till"])
    }

    private func expectRefusal(
      _ kind: Kind, _ facts: String, _ words: String = "an answer that cannot be read"
    ) throws {
      try tell(kind, facts)
      let outcome = try compare()
      let shown = "\(kind) \(facts.prefix(100)): \(outcome)"
      #expect(outcome.errors.contains(words) || outcome.output.contains(words), "\(shown)")
      #expect((2..<128).contains(outcome.status), "\(shown)")
      #expect(TerminalTests.isClean(outcome.output) && TerminalTests.isClean(outcome.errors), "\(shown)")
      #expect(till.daemon?.isRunning == true, "\(net.logs)")
    }

    /// The most memory that the daemon has taken, MiB.
    private var peakMiB: Int {
      let text = try? String(contentsOfFile: "/proc/\(till.daemon?.processIdentifier ?? 0)/status", encoding: .utf8)
      let line = text?.split(separator: "\n").first { $0.hasPrefix("VmHWM") }
      return (Int(line?.split(whereSeparator: { !$0.isNumber }).first ?? "") ?? 0) >> 10
    }

    private static let numbers: [UInt64] = [1 << 32, 1 << 60, 1 << 62 - 1]

    @Test func `each number, list and length out of bounds is refused by its name`() throws {
      let before = peakMiB
      // An answer that is none at all.
      try expectRefusal(.tables, "\"body\": \"\"", "not of Cairn")
      try expectRefusal(.tables, "\"body\": \"07\"", "not of Cairn")
      try expectRefusal(.tables, "\"body\": \"017b\"", "not of Cairn")
      let error =
        "{\"code\": \"\\u001b[31m\", \"message\": \"\\u001b]0;owned\\u0007\\u202e\\r\\nx\", \"hint\": \"\\u009b31m\"}"
      try expectRefusal(.tables, "\"body\": \"01\(error.utf8.map { String($0, radix: 16) }.joined())\"", "owned")
      try expectRefusal(.tables, "\"cut\": 2")
      try expectRefusal(.tables, "\"cut\": 40")
      try expectRefusal(.tables, "\"clear\": 3, \"bits\": 2")
      try expectRefusal(.tables, body { $0.append(99) })
      for number in Self.numbers {
        try expectRefusal(
          .tables,
          body {
            $0.append(Engine.sqlite.rawValue)
            $0.append(3)
            $0.appendVarint(number)
          })
        // The number of rows, and that of their bytes.
        try expectRefusal(
          .scan,
          body {
            $0.appendVarint(number)
            $0.appendVarint(7)
            $0.append(0)
            $0.append([UInt8](repeating: 0, count: 20_000))
          })
        try expectRefusal(
          .scan,
          body {
            $0.appendVarint(1)
            $0.appendVarint(number << 2)
            $0.append(0)
            $0.append([UInt8](repeating: 0, count: 100))
          })
        // A part of another engine; there may be many.
        try expectRefusal(
          .parts,
          body {
            $0.append(3)
            $0.appendVarint(number)
          })
        try expectRefusal(
          .rows,
          body {
            $0.append(1)
            $0.appendZigzag(1 << 40)
            $0.appendVarint(number)
          })
        try expectRefusal(
          .counts,
          body {
            $0.append(1)
            $0.appendZigzag(1 << 40)
            $0.appendVarint(number)
          })
      }
      // A key of two values, and a row of one.
      try expectRefusal(
        .scan,
        body {
          $0.appendVarint(1)
          $0.appendVarint(7)
          $0.append(1)
          $0.appendImage([.integer(1), .integer(2)])
          $0.append([UInt8](repeating: 0, count: 100))
        })
      try expectRefusal(
        .rows,
        body {
          $0.append(1)
          $0.appendZigzag(1 << 40)
          $0.appendVarint(1)
          $0.appendVarint(1)
          $0.appendImage([.integer(8)])
        })
      for text in ["1:18446744073709551615:", "10:1:", "1:10:x"] {
        try expectRefusal(
          .rows,
          body {
            $0.append(2)
            $0.appendString(text)
            $0.appendFixed(UInt64.max)
            $0.appendVarint(0)
          })
      }
      print("memory of the node that asks: \(before) MiB, then \(peakMiB) MiB")
      #expect(peakMiB < before + 200)
      // The truth is heard again.
      try FileManager.default.removeItem(atPath: lie)
      let outcome = try compare()
      #expect(outcome.status == 1 && outcome.output.contains("note"), "\(outcome)")
      net.endAll()
    }

    @Test func `other bytes and answers without an end stop neither node`() throws {
      let before = peakMiB
      try tell(.any, "\"seed\": 7")
      var statuses: [Int32: Int] = [:]
      for _ in 0..<(isSoak ? 300 : 25) {
        let outcome = try compare()
        statuses[outcome.status, default: 0] += 1
        #expect((0..<128).contains(outcome.status), "\(outcome)")
        #expect(!outcome.errors.contains("[bug]"), "\(outcome)")
        #expect(TerminalTests.isClean(outcome.output) && TerminalTests.isClean(outcome.errors), "\(outcome)")
      }
      print("comparisons with some lies ended with \(statuses)")
      #expect(till.daemon?.isRunning == true, "\(net.logs)")
      #expect(statuses.contains { $0.key > 1 }, "\(statuses)")
      try expectRefusal(.scan, "\"mebibytes\": 2000", "its answer is too large")
      print("memory of the node that asks: \(before) MiB, then \(peakMiB) MiB")
      #expect(peakMiB < before + 200)
      try FileManager.default.removeItem(atPath: lie)
      #expect(
        net.wait(seconds: 60) { (try? compare())?.status == 1 }, "\(net.logs)")
      net.endAll()
    }
  }
}
