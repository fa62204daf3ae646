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
      ("nothing to hide", "nothing to hide"), ("caught up after 12.5 s", "caught up after #.# s"),
      ("table item, row id='b2': gone", "table item, row id=…"), ("row 4711 differs", "row # differs"),
      ("id = 7; stock = 10 -> 9", "id =…"), ("Key (id)=(7) already exists.", "Key …"),
      ("invalid input syntax for type integer: \"abc\"", "invalid input syntax for type integer: …"),
      // A trigger of the application writes what it likes.
      ("postgresql://hq/pos: customer Ann is blocked", "postgresql://hq/pos: …"),
      ("run 'cairn copy pos --tables item', then 'cairn status'", "run … ('cairn copy', 'cairn status')"),
      ("", ""), ("'", "…"), ("((", "…"), ("a:", "a:"), ("a=", "a…"), ("a =b", "a =…"),
    ])
  func `values in a message are hidden`(text: String, masked: String) {
    #expect(MaskedText.masked(text) == masked)
  }

  private static let values = [
    "SECRET", "O'Brien SECRET", "x') SECRET (y", "a\" SECRET \"b", "a\nSECRET", "a\r\nSECRET", "\u{301}SECRET",
    "'\u{301} SECRET", ")\u{301} SECRET", "cairn copy SECRET", "x', run 'cairn copy SECRET", "'', ''SECRET",
    "] SECRET [",
    "\u{2028}SECRET", "\u{201d} SECRET", "<3>cairnd: SECRET", "a\n<3>cairnd: SECRET", "\\' SECRET", "\u{0}SECRET",
    "}) SECRET", "SECRET' exists", "'cairn copy' SECRET", "'cairn copySECRET'",
  ]
  private static let messages = [
    "row email='VALUE' exists", "table item, row id='7', name='VALUE': gone", "value \"VALUE\" does not fit",
    "Key (email)=(VALUE) already exists.", "Failing row contains (1, VALUE, 5).", "row `VALUE` differs",
    "Schlüssel \u{bb}(email)=(VALUE)\u{ab} existiert", "row “VALUE” differs", "row „VALUE“ differs",
    // A long message is cut within its value.
    "row email='VALUE", "Key (email)=(VALUE", "postgresql://hq/pos: VALUE", "row id=VALUE",
  ]

  @Test(arguments: values) func `no value shows, whatever it has of quotes, brackets and line breaks`(_ value: String) {
    for message in Self.messages.map({ $0.replacing("VALUE", with: value) }) {
      let masked = MaskedText.masked(message)
      #expect(!masked.contains("SECRET"), "\(masked)")
      // The daemon writes a message as one line.
      for line in ["<3>cairnd: apply.pos: [row-exists] ", "2026-11-28T14:00:00+0100 host cairnd[7]: "] {
        let masked = MaskedLog.masked((line + message).oneLine)
        #expect(!masked.contains("SECRET") && masked.hasPrefix(line.dropLast()), "\(masked)")
      }
      let status = JSONObject([("waits", .list([.object(JSONObject([("message", .text(message))]))]))])
      #expect(!MaskedText.masked(status).line.contains("SECRET"))
    }
    // A log of another program, with the rest of a value in a line of its own.
    for line in value.split(separator: "\n") where !line.hasPrefix("<3>cairnd: ") {
      #expect(!MaskedLog.masked(String(line)).contains("SECRET"))
    }
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
        {"node":"store-042","rows":9,"workers":[{"detail":"key …","waits":[{"table":"item7","message":"row #","hint":"see …"}]}]}
        """)
  }

  @Test(
    arguments: [
      (
        "2026-11-28T14:00:00+0100 host cairnd[712]: apply.pos7: [row-missing] id='x' 5",
        "2026-11-28T14:00:00+0100 host cairnd[712]: apply.pos#: [row-missing] id=…"
      ),
      (
        "2026-11-28T14:00:00+0100 host systemd[1]: cairnd.service: Main process exited, code=killed",
        "2026-11-28T14:00:00+0100 host systemd[1]: cairnd.service: Main process exited, code=…"
      ),
      ("<3>cairnd: row 7", "<3>cairnd: row #"), ("cairnd: row 7", "cairnd: row #"), ("cairnd:", "cairnd:"),
      ("<3>cairnd: apply.pos: [row-missing]", "<3>cairnd: apply.pos: [row-missing]"),
      ("<3>cairnd: apply.pos: [secret] x", "<3>cairnd: apply.pos: …"),
      ("another line with 7 and 'x'", "…"), ("    the rest of a value", "…"), ("", ""),
      ("value 'cairnd: secret' 7", "…"), ("cairnd", "…"), ("cairnd[7", "…"), ("<3", "…"), ("<3>", "…"), ("2026", "…"),
      ("2026-11-28T14:00:00+0100 ", "…"), ("2026-11-28T14:00:00+0100 host", "…"),
      ("2026-11-28T14:00:00+0100 host ", "…"),
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
