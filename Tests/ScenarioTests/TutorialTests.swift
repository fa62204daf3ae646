import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The commands of the README, the tutorials and the guides, run one after the other as a reader would, with their
  /// output.
  @Suite struct TutorialTests {
    private static let pages = [
      "README.md", "docs/tutorials/first-pair.md", "docs/tutorials/two-machines.md", "docs/tutorials/two-way.md",
      "docs/tutorials/library.md", "docs/guides/add-a-table.md", "docs/guides/back-up.md",
      "docs/guides/certificates.md", "docs/guides/connect-nodes.md", "docs/guides/daily-work.md",
      "docs/guides/debug-lag.md", "docs/guides/embedding.md", "docs/guides/install.md", "docs/guides/monitor.md",
      "docs/guides/move-a-target.md", "docs/guides/packages.md", "docs/guides/remove-cairn.md",
      "docs/guides/review-security.md",
      "docs/guides/rotate-a-password.md", "docs/guides/size-a-machine.md", "docs/guides/skip-a-bad-row.md",
      "docs/guides/snapshots.md",
      "docs/guides/take-a-node-out.md", "docs/guides/topologies.md", "docs/guides/troubleshoot.md",
      "docs/guides/upgrade.md",
    ]
    /// The reasons why blocks of a page are only shown, in their order.
    private static let shown = [
      "README.md": ["builds Cairn"],
      "docs/guides/embedding.md": ["is a part of docs/examples/till", "is a part of docs/examples/till"],
      "docs/guides/install.md": [
        "builds and installs Cairn", "makes a group and a drop-in", "makes users and groups",
        "makes a role of the server",
        "edits a unit of systemd",
      ],
      "docs/guides/packages.md": ["builds and installs packages", "unpacks and installs Cairn"],
      "docs/guides/remove-cairn.md": ["uninstalls Cairn", "deletes folders and users of the machine"],
      "docs/guides/upgrade.md": ["builds and installs Cairn"],
    ]

    private func tried(_ page: String, _ server: PostgresServer? = nil) throws -> Outcome {
      let bench = try Bench()
      let programs = URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path
      let place = server.map { ["--postgres", $0.folder] } ?? []
      return try bench.run(
        Bench.python, [Bench.tool("tutorial.py"), page, "--bin", programs, "--library", programs] + place, seconds: 300,
        environment: server.map { ["PGPORT": "\($0.port)"] } ?? [:])
    }

    @Test(.enabled(if: PostgresServer.problem == nil), arguments: pages)
    func `every command of a page prints what the page says`(page: String) throws {
      // A server of its own: a page creates databases, and knows of no others.
      let outcome = try tried("\(Bench.root)/\(page)", PostgresServer())
      #expect(outcome.status == 0, "\(outcome.output.suffix(3000)) \(outcome.errors.suffix(1000))")
    }

    /// The runner itself: another output, another exit status and a page without commands are found.
    @Test(
      arguments: [
        ("$ echo one\ntwo", 1), ("$ echo one\none\n$ false", 1), ("$ printf 'a\\nb\\n'\na", 1), ("$ echo\n^C", 1),
        ("$ echo 2026-11-26T14:50Z, 12 ms\n2001-01-01T00:00Z, 3 ms\n$ echo a b c\na … c\n$ seq 9\n1\n…\n9", 0),
        ("$ sudo mkdir -p /etc/cairn\n$ sudo -u till bash -c 'echo /etc/cairn $PGUSER'\n/etc/cairn till", 0),
        ("$ ls /etc/cairn", 1), ("$ systemctl is-active cairnd\ninactive", 1), ("$ systemctl start other", 1),
        ("$ journalctl -u cairnd", 0),
      ])
    func `an output that differs is found`(block: String, status: Int32) throws {
      let bench = try Bench()
      let page = "# Page\n\n```console\n\(block)\n```\n"
      try Data(page.utf8).write(to: URL(fileURLWithPath: bench.path("page.md")))
      let outcome = try tried(bench.path("page.md"))
      #expect(outcome.status == status, "\(outcome)")
    }

    @Test func `a tutorial or guide that is not listed here is found`() throws {
      var files: Set<String> = []
      for folder in ["docs/tutorials", "docs/guides"] {
        for file in try FileManager.default.contentsOfDirectory(atPath: Bench.root + "/" + folder) {
          files.insert("\(folder)/\(file)")
        }
      }
      #expect(files == Set(Self.pages.dropFirst()))
      #expect(Self.shown.keys.allSatisfy { Self.pages.contains($0) })
    }

    @Test(arguments: pages)
    func `every block of a page is run, or has a reason here`(page: String) throws {
      let bench = try Bench()
      let outcome = try bench.run(Bench.python, [Bench.tool("tutorial.py"), "\(Bench.root)/\(page)", "--list"])
      let lines = outcome.output.split(separator: "\n").map(String.init)
      #expect(outcome.status == 0 && lines.count == 1 + Self.shown[page, default: []].count, "\(outcome)")
      #expect((Int(lines.first ?? "") ?? 0) > 0, "\(outcome)")
    }
  }
}
