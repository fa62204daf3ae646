import Foundation
import TestServers
import Testing

/// The programs of `docs/examples`, built and run as a reader would.
@Suite(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"), .serialized)
struct ExampleTests {
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  /// The folder of the programs and libraries of this build: beside the test bundle.
  static let built: String = {
    let places =
      [Bundle.main.bundleURL] + Bundle.allBundles.map(\.bundleURL) + [URL(fileURLWithPath: CommandLine.arguments[0])]
    for place in places {
      var folder = place
      for _ in 0..<4 {
        if FileManager.default.isExecutableFile(atPath: folder.appendingPathComponent("ExampleTill").path) {
          return folder.path
        }
        folder = folder.deletingLastPathComponent()
      }
    }
    return root + "/.build/debug"
  }()

  private struct Ran {
    let status: Int32
    let output: String
    let errors: String
  }

  private func start(_ folder: TempFolder, _ program: String, _ words: [String], _ name: String = "run") throws -> Child
  {
    try Child(
      program, words, folder: folder.path, environment: ProcessInfo.processInfo.environment,
      output: folder("\(name).out"),
      errors: folder("\(name).err"))
  }

  private func text(_ folder: TempFolder, _ name: String) -> String {
    String(decoding: FileManager.default.contents(atPath: folder(name)) ?? Data(), as: UTF8.self)
  }

  private func run(_ folder: TempFolder, _ program: String, _ words: [String]) throws -> Ran {
    let child = try start(folder, program, words)
    child.wait(seconds: isSoak ? 1200 : 60)
    return Ran(status: child.terminationStatus, output: text(folder, "run.out"), errors: text(folder, "run.err"))
  }

  private func headquarters() throws -> SyncedTill.Server {
    try SyncedTill.Server(String(contentsOfFile: "\(Self.root)/docs/examples/till/schema.sql", encoding: .utf8))
  }

  /// The rows of the till's file, read by another program.
  private func rows(_ folder: TempFolder, _ sql: String) throws -> [String] {
    try run(folder, "/usr/bin/sqlite3", ["shop.db", sql]).output.split(separator: "\n").map(String.init)
  }

  @Test func `the code in the library's pages is that of the example`() throws {
    func read(_ path: String) throws -> String { try String(contentsOfFile: "\(Self.root)/\(path)", encoding: .utf8) }
    func lines(_ text: some StringProtocol) -> String {
      text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
    }
    let program = try lines(read("docs/examples/till/Sources/till/Till.swift"))
    let page = try read("Sources/Programs/CairnCapture/CairnCapture.docc/ATillThatSellsOffline.md")
    let blocks = page.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
    #expect(blocks.count >= 6)
    for block in blocks { #expect(program.contains(lines(block)), "\(block)") }
  }

  @Test func `the till sells without a line, and synchronises when there is one`() throws {
    let server = try PostgresServer()
    let url = try server.createDatabase("hq")
    try server.psql(file: "\(Self.root)/docs/examples/till/schema.sql", "hq")
    let folder = try TempFolder()
    let till = { (words: String...) in
      try run(folder, Self.built + "/ExampleTill", ["shop.db", url, "till-7"] + words)
    }
    #expect(try till("open").output == "open: 3 rows came down\n")
    try server.stop()
    #expect(try till("sell", "tea", "2").status == 0)
    #expect(try till("sync").output == "sync: no line; 1 transactions wait\n")
    try server.start()
    #expect(try till("sync").output == "sync: 2 rows up, 0 down, 0 conflicts\n")
    #expect(try server.psql("SELECT till, item, pieces FROM sale", "hq").contains("till-7|tea|2"))
    let gold = try till("sell", "gold", "1")
    #expect(gold.status == 1 && gold.output.contains("FOREIGN KEY"), "\(gold)")
  }

  @Test func `a till that is killed at any moment loses no sale, and both ends are equal in the end`() throws {
    let hq = try headquarters()
    let folder = try TempFolder()
    let words = ["shop.db", hq.url, "till-7"]
    let program = Self.built + "/ExampleTill"
    let seed = UInt64(ProcessInfo.processInfo.environment["CAIRN_SEED"] ?? "") ?? UInt64.random(in: 0...99999)
    print("kills of a till: CAIRN_SEED=\(seed)")
    var random = Seeded(seed)
    var sold: Set<String> = []
    for round in 0..<(isSoak ? 200 : 4) {
      // The first ones may hit the first copy.
      let till = try start(
        folder, program, words + [round < 2 ? "open" : "day", "100000"].prefix(round < 2 ? 1 : 2), "day")
      usleep(UInt32.random(in: 20_000...(round < 2 ? 300_000 : 900_000), using: &random))
      if round > 1 { #expect(till.isRunning, "round \(round): \(text(folder, "day.out").suffix(300))") }
      till.signal(SIGKILL)
      till.waitUntilExit()
      sold.formUnion(
        text(folder, "day.out").split(separator: "\n").filter { $0.hasPrefix("sold ") }.map { String($0.dropFirst(5)) })
      if round == 1 { #expect(try run(folder, program, words + ["open"]).status == 0) }
      // An application sells at headquarters as well.
      try hq.connection.execute("UPDATE item SET stock = stock - 1 WHERE name = 'tea'")
    }
    let last = try run(folder, program, words + ["sync"])
    #expect(last.status == 0, "\(last.output)")
    for table in ["item", "sale"] {
      let order = table == "item" ? "name, stock" : "id, till, item, pieces"
      let sql = "SELECT \(order) FROM \(table) ORDER BY 1"
      #expect(try rows(folder, sql) == hq.rows(sql))
    }
    #expect(try sold.isSubset(of: Set(hq.rows("SELECT id FROM sale"))))
    // The changes of all programs add up.
    let (count, kills) = (
      try hq.rows("SELECT coalesce(sum(pieces), 0) FROM sale WHERE item = 'tea'")[0], isSoak ? 200 : 4
    )
    #expect(try hq.rows("SELECT 100000 - stock - \(kills) FROM item WHERE name = 'tea'") == [count])
  }

  @Test(.enabled(if: isSoak, "builds all that the library needs once more"))
  func `the till builds as a package of its own, which sees only what is public`() throws {
    let folder = try TempFolder()
    let built = try start(
      folder, "/usr/bin/env",
      ["swift", "build", "--package-path", "\(Self.root)/docs/examples/till", "--scratch-path", folder("build")])
    built.wait(seconds: 3600)
    try #require(built.terminationStatus == 0, "\(text(folder, "run.out").suffix(2000))")
    let hq = try headquarters()
    let opened = try run(folder, folder("build/debug/till"), ["shop.db", hq.url, "till-7", "open"])
    #expect(opened.output == "open: 3 rows came down\n", "\(opened)")
  }

  @Test func `a program in C puts things on a shelf, and synchronises them`() throws {
    let hq = try SyncedTill.Server(
      "CREATE TABLE shelf(name text PRIMARY KEY, pieces bigint NOT NULL)", "INSERT INTO shelf VALUES ('salt', 1)")
    let folder = try TempFolder()
    let compiled = try run(
      folder, "/usr/bin/gcc",
      [
        "-std=c11", "-Wall", "-Wextra", "-Werror", "-I\(Self.root)/Sources/C/CCairn/include",
        "\(Self.root)/docs/examples/shelf/shelf.c", "-L\(Self.built)", "-lCairnC", "-Wl,-rpath,\(Self.built)",
        "-Wl,--allow-shlib-undefined", "-o", "shelf",
      ])
    try #require(compiled.status == 0, "\(compiled.errors)")
    let ran = try run(folder, folder("shelf"), ["shelf.db", hq.url, "shelf-1", "tea", "5"])
    #expect(ran.status == 0 && ran.output.hasSuffix("sent 1, received 0, there: 1\nsalt 1\ntea 5\n"), "\(ran)")
    #expect(try hq.rows("SELECT * FROM shelf ORDER BY name") == ["salt|1", "tea|5"])
    let wrong = try run(folder, folder("shelf"), ["shelf.db", "mysql://x", "shelf-1", "tea", "5"])
    #expect(wrong.status == 1 && wrong.errors.contains("write sqlite:relative.db"), "\(wrong)")
  }
}
