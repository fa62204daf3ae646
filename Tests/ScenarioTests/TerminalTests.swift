import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Nothing that comes from outside moves the terminal of an operator.
  @Suite struct TerminalTests {
    private static let hostile = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\n\u{85}\u{301}z"

    /// Returns whether a text has no character that a terminal obeys, except line feeds.
    static func isClean(_ text: String) -> Bool {
      !text.unicodeScalars.contains { scalar in
        (scalar.value < 0x20 && scalar != "\n") || (0x7f..<0xa0).contains(scalar.value)
          || (0x2028...0x202e).contains(scalar.value) || (0x2066...0x2069).contains(scalar.value)
      }
    }

    @Test func `names of tables and columns are shown, not obeyed`() throws {
      let bench = try DaemonBench()
      let name = Self.hostile
      _ = try bench.bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE \"\(name)\"(id INTEGER PRIMARY KEY, \"c\(name)\" TEXT);"
          + "INSERT INTO \"\(name)\" VALUES (1, '\(name)')")
      try bench.write(
        "[database.pos]\nurl = \"sqlite://\(bench.bench.path("source.db"))\"\n[capture.pos]\ndatabase = \"pos\"\n")
      try bench.start()
      let shown = { try bench.bench.run(Bench.cairn, ["trail", "show", "store-042.pos", "--state", "state"] + $0) }
      #expect(bench.wait { (try? shown([]))?.output.contains("owned") == true }, "\(bench.log)")
      for more in [[], ["--json"]] {
        let outcome = try shown(more)
        #expect(outcome.status == 0 && outcome.output.contains("owned"), "\(outcome)")
        #expect(Self.isClean(outcome.output) && Self.isClean(outcome.errors), "\(more)")
        // Every line is one of Cairn's: a name does not begin another.
        let lines = outcome.output.split(separator: "\n")
        #expect(lines.allSatisfy { more.isEmpty ? $0.contains("00000001:") : $0.hasPrefix("{") }, "\(lines)")
      }
      for words in [["status"], ["status", "--json"]] {
        let outcome = try bench.bench.run(
          Bench.cairn, words + ["--socket", bench.bench.path("control")])
        #expect(Self.isClean(outcome.output) && Self.isClean(outcome.errors), "\(outcome)")
      }
      #expect(bench.log.utf8.allSatisfy { $0 >= 0x20 || $0 == 0x0a })
      #expect(bench.end() == 0)
    }

    /// An attacker between the nodes may show any certificate.
    @Test func `the name in an unverified certificate is shown, not obeyed`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      let openssl = "/usr/bin/openssl"
      let made = try net.bench.run(
        openssl,
        [
          "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-utf8",
          "-subj",
          "/CN=x\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}z", "-keyout", net.bench.path("m.key"), "-out",
          net.bench.path("m.crt"),
        ])
      #expect(made.status == 0, "\(made.errors)")
      let other = try net.bench.run(
        openssl,
        [
          "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
          "/CN=shop", "-keyout", net.bench.path("o.key"), "-out", net.bench.path("o.crt"),
        ])
      #expect(other.status == 0, "\(other.errors)")
      let server = try net.bench.start(
        "server", openssl,
        ["s_server", "-accept", "\(port)", "-cert", net.bench.path("m.crt"), "-key", net.bench.path("m.key"), "-quiet"])
      try FileManager.default.createDirectory(atPath: net.bench.path("shop"), withIntermediateDirectories: true)
      let conf = """
        [node]
        name = "shop"
        state = "\(net.bench.path("state-shop"))"
        [pump.p]
        trail = "hq.x"
        from = "https://127.0.0.1:\(port)"
        tls = { certificate = "../o.crt", key = "../o.key", peers = "../o.crt" }

        """
      try Data(conf.utf8).write(to: URL(fileURLWithPath: net.bench.path("shop/cairn.toml")))
      let shop = try net.start("shop", net.bench.path("shop"))
      #expect(net.wait { (try? net.cairn(shop, "status").output.contains("owned")) == true }, "\(net.logs)")
      for words in [["status"], ["status", "--json"]] {
        let outcome = try net.bench.run(
          Bench.cairn, words + ["--socket", net.bench.path("run-shop/control")])
        #expect(
          outcome.output.contains("owned") && Self.isClean(outcome.output) && Self.isClean(outcome.errors), "\(outcome)"
        )
      }
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "shop"])
      #expect(Self.isClean(checked.output) && Self.isClean(checked.errors), "\(checked)")
      #expect(Self.isClean(net.log(shop)))
      net.endAll()
      withExtendedLifetime(server) {}
    }
  }
}
