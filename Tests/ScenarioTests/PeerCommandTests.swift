import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn peer`, as a program that works on files.
  @Suite struct PeerCommandTests {
    private let bench: Bench

    init() throws {
      bench = try Bench()
      try write(
        "conf/cairn.toml",
        "[node]\nname = \"hq\"\nstate = \"\(bench.path("state"))\"\n[receive]\nlisten = \"0.0.0.0:7421\"\n")
      try FileManager.default.createDirectory(atPath: bench.path("state"), withIntermediateDirectories: true)
    }

    private func write(_ path: String, _ text: String) throws {
      let url = URL(fileURLWithPath: bench.path(path))
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: url)
    }

    private func peer(_ words: String...) throws -> Outcome {
      try bench.run(Bench.cairn, ["peer"] + words + ["--config", "conf"])
    }

    @Test func `an invitation is a line, a stanza and a row until it is taken back`() throws {
      #expect(try peer("list").output.hasPrefix("no peers"))
      var outcome = try peer("invite", "store-042", "--address", "hq.example", "--pull", "a-*, b-*.x", "--write")
      #expect(outcome.status == 0, "\(outcome.errors)")
      let words = outcome.output.split(separator: "\n")[0].split(separator: " ")
      #expect(words.dropLast() == ["cairn", "peer", "join"])
      #expect(words.last?.hasPrefix("hq.example:7421/") == true)
      let stanza = try String(contentsOfFile: bench.path("conf/conf.d/peer-store-042.toml"), encoding: .utf8)
      #expect(stanza == "[peer.store-042]\nmay = { push = [\"store-042.*\"], pull = [\"a-*\", \"b-*.x\"] }\n")
      outcome = try peer("list")
      #expect(outcome.output.contains("store-042  invited"))
      #expect(try peer("list", "--json").output.contains("\"state\":\"invited\""))
      #expect(try peer("invite", "store-042", "--write").status == 78)
      // A trail that is not here would break the conf: nothing of it stays.
      #expect(try peer("invite", "store-043", "--pull", "hq.none", "--write").status == 78)
      #expect(try FileManager.default.contentsOfDirectory(atPath: bench.path("conf/conf.d")) == ["peer-store-042.toml"])
      // A conf that waits for the stanza is no obstacle to it.
      try write(
        "conf/conf.d/apply.toml",
        "[database.x]\nurl = \"sqlite://\(bench.path("x.db"))\"\n[apply.x]\ntrail = \"store-044.pos\"\ndatabase = \"x\"\ntables = [\"*\"]\n"
      )
      // Nor is a conf that does not load an obstacle to locking out a peer.
      outcome = try peer("list")
      #expect(outcome.status == 0 && outcome.output.contains("store-042  invited"))
      #expect(outcome.errors.contains("[conf-reference]") && outcome.errors.contains(bench.path("state")))
      #expect(try peer("invite", "store-044", "--write").status == 0)
      #expect(try peer("revoke", "store-042").status == 0)
      #expect(try peer("list").output.contains("store-042  not invited"))
      outcome = try peer("revoke", "store-042")
      #expect(outcome.status == 64)
      #expect(outcome.errors.contains("[peer.store-042]"))
    }

    @Test(arguments: [([], 3600), (["--ttl", "2d"], 172_800)] as [([String], Double)])
    func `an invitation ends after an hour, or the time of --ttl`(option: [String], seconds: Double) throws {
      let words = ["peer", "invite", "store-042", "--address", "hq.example", "--write", "--json", "--config", "conf"]
      let before = Date().addingTimeInterval(-1)
      let outcome = try bench.run(Bench.cairn, words + option)
      #expect(outcome.status == 0, "\(outcome)")
      let told = try #require(outcome.output.components(separatedBy: "\"expires\":\"").dropFirst().first)
      let time = told.prefix(19).replacingOccurrences(of: " ", with: "T") + "Z"
      let expires = try #require(ISO8601DateFormatter().date(from: time), "\(outcome)")
      #expect(expires >= before.addingTimeInterval(seconds) && expires <= Date().addingTimeInterval(seconds))
    }

    @Test func `the operator is asked to remove a section only if the conf has it`() throws {
      for isGranted in [true, false] {
        #expect(try peer("invite", "store-042", "--address", "hq.example", "--write").status == 0)
        let section = bench.path("conf/conf.d/peer-store-042.toml")
        if !isGranted { try FileManager.default.removeItem(atPath: section) }
        var outcome = try peer("revoke", "store-042")
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.errors.contains("also remove [peer.store-042]") == isGranted, "\(outcome)")
        outcome = try peer("revoke", "store-042")
        #expect(outcome.status == 64, "\(outcome)")
        #expect(outcome.errors.contains("remove [peer.store-042]") == isGranted, "\(outcome)")
        #expect(outcome.errors.contains("'cairn peer list'") == !isGranted, "\(outcome)")
        if isGranted { try FileManager.default.removeItem(atPath: section) }
      }
    }

    @Test func `several peers that the conf waits for are invited one after the other`() throws {
      try write(
        "conf/conf.d/applies.toml",
        """
        [database.x]
        url = "sqlite://\(bench.path("x.db"))"
        [apply.b]
        trail = "b.pos"
        database = "x"
        tables = ["*"]
        [apply.c]
        trail = "c.pos"
        database = "x"
        tables = ["*"]
        """)
      for name in ["b", "c"] {
        let outcome = try peer("invite", name, "--address", "hq.example", "--write")
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      #expect(try bench.run(Bench.cairn, ["check", "--config", "conf"]).status == 0)
    }

    @Test func `a node whose tables are still to come passes the check`() throws {
      func check(_ applies: String) throws -> Outcome {
        try write(
          "conf/conf.d/pos.toml",
          """
          [database.x]
          url = "sqlite://\(bench.path("fresh.db"))"
          [capture.pos]
          database = "x"
          \(applies)
          """)
        return try bench.run(Bench.cairn, ["check", "--config", "conf"])
      }
      let applies = """
        [apply.b]
        trail = "b.pos"
        database = "x"
        tables = ["*"]
        [peer.b]
        may = { push = ["b.*"], pull = ["hq.pos"] }
        """
      // With the certificate to listen with.
      #expect(try peer("invite", "other", "--address", "hq.example").status == 0)
      var outcome = try check(applies)
      #expect(outcome.status == 0 && (outcome.output + outcome.errors).contains("does not exist yet"), "\(outcome)")
      #expect(try check("").errors.contains("database-missing"))
      _ = try bench.sqlite("fresh.db", "PRAGMA user_version = 1")
      outcome = try check(applies)
      #expect(outcome.status == 0 && (outcome.output + outcome.errors).contains("has no table yet"), "\(outcome)")
      #expect(try check("").errors.contains("no-tables"))
      // One whose folder is not there is a slip of the pen.
      try write(
        "conf/conf.d/pos.toml",
        "[database.x]\nurl = \"sqlite:///no/such/x.db\"\n[capture.pos]\ndatabase = \"x\"\n" + applies)
      #expect(try bench.run(Bench.cairn, ["check", "--config", "conf"]).errors.contains("database-missing"))
    }

    @Test func `an impossible request is refused before anything is made`() throws {
      for (words, part) in [
        (["invite", "hq"], "this node"), (["invite", "a b"], "is not the name of a node"), (["invite"], "missing"),
        (["invite", "x", "--ttl", "5"], "--ttl"), (["invite", "x", "--address", "http://y"], "is not an address"),
        (["invite", "x", "--push", ""], "empty"), (["join", "hq:1/2/3"], "this is not a line of an invitation"),
        (["list", "--write"], "for 'cairn peer invite'"), (["invit", "x"], "did you mean 'invite'"),
      ] {
        let outcome = try bench.run(Bench.cairn, ["peer"] + words + ["--config", "conf"])
        #expect(outcome.status == 64, "\(words) \(outcome.errors)")
        #expect(outcome.errors.contains(part), "\(words) \(outcome.errors)")
      }
      #expect(try FileManager.default.contentsOfDirectory(atPath: bench.path("state")) == [])
    }

    @Test func `an authority of the operator's signs for itself`() throws {
      try write("conf/conf.d/receive.toml", "")
      try write(
        "conf/cairn.toml",
        """
        [node]
        name = "hq"
        state = "\(bench.path("state"))"
        [receive]
        listen = "0.0.0.0:7421"
        tls = { certificate = "a.crt", key = "a.key", peers = "ca.crt" }
        """)
      let outcome = try peer("invite", "store-042")
      #expect(outcome.status == 78)
      #expect(outcome.errors.contains("common name 'store-042'"))
    }
  }
}
