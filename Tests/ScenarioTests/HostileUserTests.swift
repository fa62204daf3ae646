import Foundation
import TestServers
import Testing

extension Scenarios {
  /// A user who writes hostile text into rows, keys and names: nothing of it may run, and all of it must arrive. (C1 of
  /// the threat model.)
  @Suite struct HostileUserTests {
    @Test(
      .enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"),
      arguments: ["sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"])
    func `hostile text goes through copy, follow, compare, repair and trail show, and a canary lives`(pair: String)
      throws
    {
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

    /// Names of tables in which a mark of Cairn's own texts is beside a character that joins it.
    static let names = ["\u{301}b", "k,m", "x\r", "\u{fe0f}\u{200d}", "k,\u{301}", "[[\"a\"]]"]

    private static func toml(_ text: String) -> String {
      let escaped = text.unicodeScalars.map { scalar -> String in
        let digits = String(scalar.value, radix: 16)
        return "\\U" + String(repeating: "0", count: 8 - digits.count) + digits
      }
      return "\"" + escaped.joined() + "\""
    }

    private static func quoted(_ name: String) -> String {
      "\"" + name.replacingOccurrences(of: "\"", with: "\"\"") + "\""
    }

    @Test func `a list of tables with hostile names captures them, also after they were unhooked`() throws {
      let node = try DaemonBench()
      let bench = node.bench
      let names = ["a"] + Self.names
      for name in names {
        _ = try bench.sqlite(
          "source.db",
          "PRAGMA journal_mode = WAL; CREATE TABLE \(Self.quoted(name))(id INTEGER PRIMARY KEY); INSERT INTO \(Self.quoted(name)) VALUES (1)"
        )
      }
      let list = names.map(Self.toml).joined(separator: ", ")
      try node.write(
        node.pair().replacingOccurrences(of: "[capture.pos]", with: "[capture.pos]\ntables = [\(list)]"))
      try node.start()
      func expect(_ count: Int, _ what: String) throws {
        let sum = names.map { "(SELECT count(*) FROM \(Self.quoted($0)))" }.joined(separator: " || ',' || ")
        let counts = names.map { _ in "\(count)" }.joined(separator: ",")
        #expect(try bench.waitForTarget("SELECT \(sum)", counts), "\(what): \(node.log)")
      }
      try expect(1, "at first")
      for (round, way) in ["daemon", "file"].enumerated() {
        let place =
          way == "daemon" ? ["pos", "--socket", bench.path("control")] : ["sqlite:" + bench.path("source.db")]
        for command in ["unhook", "rehook"] {
          let done = try bench.run(Bench.cairn, [command] + place)
          #expect(done.status == 0, "\(done)")
        }
        let triggers = try bench.sqlite(
          "source.db", "SELECT count(DISTINCT tbl_name) FROM sqlite_schema WHERE type = 'trigger'")
        #expect(triggers == "\(names.count)\n", "after \(way)")
        for name in names {
          _ = try bench.sqlite("source.db", "INSERT INTO \(Self.quoted(name)) VALUES (\(round + 2))")
        }
        try expect(round + 2, way)
      }
      #expect(node.end() == 0)
    }

    @Test(arguments: names) func `a transaction of a table with a hostile name is put aside, and read again`(
      name: String
    )
      throws
    {
      let node = try DaemonBench()
      let bench = node.bench
      let table = Self.quoted(name)
      let create = "PRAGMA journal_mode = WAL; CREATE TABLE \(table)(id INTEGER PRIMARY KEY, n);"
      _ = try bench.sqlite("source.db", "\(create) INSERT INTO \(table) VALUES (1, 1)")
      try node.write(node.pair("on_error = \"quarantine\""))
      try node.start()
      let ids = "SELECT group_concat(id) FROM (SELECT id FROM \(table) ORDER BY id)"
      #expect(try bench.waitForTarget(ids, "1"), "\(node.log)")
      _ = try bench.sqlite("target.db", "DELETE FROM \(table)")
      _ = try bench.sqlite("source.db", "UPDATE \(table) SET n = 2 WHERE id = 1")
      _ = try bench.sqlite("source.db", "INSERT INTO \(table) VALUES (2, 1)")
      #expect(try bench.waitForTarget(ids, "2"), "\(node.log)")
      for round in 3...4 {
        let listed = try bench.run(Bench.cairn, ["quarantine", "list", "--config", "conf"])
        #expect(listed.status == 0 && listed.output.contains("#1"), "\(listed)")
        if round == 4 {
          #expect(node.end() == 0)
          try node.start()
        }
        _ = try bench.sqlite("source.db", "INSERT INTO \(table) VALUES (\(round), 1)")
        #expect(try bench.waitForTarget(ids, (2...round).map(String.init).joined(separator: ",")), "\(node.log)")
      }
      #expect(!node.log.contains("[database-damaged]"), "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
