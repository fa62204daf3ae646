import Changes
import Foundation
import Testing
import Trails

@testable import Configuring
@testable import Deploying

/// The parts of a support bundle, and what a peer leaves in the conf.
@Suite(.timeLimit(.minutes(20))) struct SupportBundleTests {
  // MARK: Masks

  @Test(
    arguments: [
      ("nothing to hide", "nothing to hide"),
      ("table item, row id='b2': gone", "table item, row id='…': gone"),
      ("row id='it''s' stays hidden", "row id='…''…' stays hidden"),
      ("row 4711 differs", "row # differs"), ("id = 7; stock = 10 -> 9", "id = #; stock = # -> #"),
      ("Key (id)=(7) already exists.", "Key (…)=(…) already exists."),
      ("Failing row contains (1, tea (green), 5).", "Failing row contains (…)."),
      ("invalid input syntax for type integer: \"abc\"", "invalid input syntax for type integer: \"…\""),
      ("run 'cairn copy pos --tables item'", "run 'cairn copy pos --tables item'"),
      ("run 'cairn conflicts show 7'", "run 'cairn conflicts show 7'"),
      // A value that begins like a command.
      ("row name='cairn o'' brien; secret=x' gone", "row name='…''…' gone"),
      ("row name='cairn \"x\"'", "row name='…'"), ("an open 'quote, and more", "an open '…"),
      ("an open (part\nnext line", "an open (…\nnext line"), ("", ""), ("'", "'…"), ("((", "(…"),
    ])
  func `values in a message are hidden`(text: String, masked: String) {
    #expect(MaskedText.masked(text) == masked)
  }

  @Test func `the texts of a status are masked at every depth, and names and numbers stay`() {
    let wait = JSONObject([("table", .text("item7")), ("message", .text("row 7")), ("hint", .text("see 'x'"))])
    let status = JSONObject([
      ("node", .text("store-042")), ("rows", .integer(9)),
      ("workers", .list([.object(JSONObject([("detail", .text("key 'a'")), ("waits", .list([.object(wait)]))]))])),
    ])
    #expect(
      MaskedText.masked(status).line
        == """
        {"node":"store-042","rows":9,"workers":[{"detail":"key '…'","waits":[{"table":"item7","message":"row #","hint":"see '…'"}]}]}
        """)
  }

  @Test(
    arguments: [
      (
        "2026-11-28T14:00:00+0100 host cairnd[712]: apply.pos7: [row-missing] id='x' 5",
        "2026-11-28T14:00:00+0100 host cairnd[712]: apply.pos#: [row-missing] id='…' #"
      ),
      ("<3>cairnd: row 7", "<3>cairnd: row #"), ("another line with 7 and 'x'", "another line with # and '…'"),
      ("value 'cairnd: secret' 7", "value '…' #"), ("cairnd", "cairnd"), ("cairnd[7", "cairnd[#"),
    ])
  func `a line of the log keeps its head`(line: String, masked: String) {
    #expect(MaskedLog.masked(line) == masked)
  }

  // MARK: The archive

  @Test func `tar reads the archive, with names, sizes, rights and times`() throws {
    var archive = TarArchive()
    let long = String(repeating: "x", count: 100_000)
    try archive.add("bundle/empty.txt", "", at: 0)
    try archive.add("bundle/long.txt", long, at: 1_764_396_000)
    try archive.add("bundle/exact.txt", String(repeating: "y", count: 512), at: 1)
    let path = NSTemporaryDirectory() + "cairn-tar-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(archive.bytes).write(to: URL(fileURLWithPath: path))
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = [
      "-c",
      """
      import sys, tarfile
      for m in tarfile.open(sys.argv[1]):
        print(m.name, m.size, oct(m.mode), m.mtime, m.isreg(), tarfile.open(sys.argv[1]).extractfile(m).read()[:1])
      """, path,
    ]
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(
      output == """
        bundle/empty.txt 0 0o600 0 True b''
        bundle/long.txt 100000 0o600 1764396000 True b'x'
        bundle/exact.txt 512 0o600 1 True b'y'

        """)
  }

  @Test(arguments: ["", "a\nb", "caf\u{e9}", String(repeating: "n", count: 101)])
  func `a name that the format cannot have is refused`(name: String) {
    var archive = TarArchive()
    #expect(throws: CairnError.self) { try archive.add(name, "", at: 0) }
    #expect(archive.bytes.count == 1024)
  }

  // MARK: A peer

  @Test func `a file with only the section of the peer goes, other files are named`() throws {
    func setting(_ section: String, _ file: String?) -> Setting {
      Setting(
        section: section, key: "may", origin: file.map { .file(ConfPlace(file: $0, line: 1)) } ?? .byDefault,
        absence: "")
    }
    let settings = [
      setting("[peer.till]", "conf.d/peer-till.toml"), setting("[peer.till]", nil), setting("[node]", "cairn.toml"),
      setting("[peer.tillx]", "conf.d/peer-tillx.toml"),
    ]
    let trails = ["till.pos", "tillx.pos", "hq.pos"].compactMap { TrailName($0) }
    let alone = PeerRemoval("till", settings: settings, nil, trails: [])
    #expect(alone.files == ["conf.d/peer-till.toml"] && alone.left == [])
    let mixed = PeerRemoval("till", settings: settings + [setting("[peer.till]", "cairn.toml")], nil, trails: [])
    #expect(mixed.files == ["conf.d/peer-till.toml"])
    #expect(mixed.left == ["remove [peer.till] from cairn.toml, which has other sections too"])
    var conf = Configuration(node: .init(name: "hq", state: "/var/lib/cairn"))
    conf.applies = [
      .init(name: "pos", trail: "till.pos", database: "erp"), .init(name: "x", trail: "tillx.pos", database: "erp"),
    ]
    let url = try #require(PeerURL("https://till.example"))
    var pump = Configuration.Pump(name: "to-till", trails: TrailPatterns(["hq.*"]), way: .push, url: url)
    pump.peer = "till"
    conf.pumps = [pump]
    let removal = PeerRemoval("till", settings: settings, conf, trails: trails)
    #expect(
      removal.left == [
        "[pump.to-till] leads to node till",
        "[apply.pos] reads trail till.pos of the node: rows that it applied stay in the database",
        "trail till.pos is in the state folder: remove its folder when no apply needs it",
      ])
    #expect(
      PeerRemoval("store-9", settings: settings, conf, trails: trails)
        == PeerRemoval("x", settings: [], nil, trails: [])
    )
  }
}
