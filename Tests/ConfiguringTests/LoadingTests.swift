import Changes
import Configuring
import Conflicts
import Foundation
import Mapping
import Testing

@Suite struct LoadingTests {
  @Test(arguments: ["sub/../a.db", "link.db", "linked/a.db"])
  func `one file is one database, whatever path leads to it`(spelling: String) throws {
    let folder = FileManager.default.temporaryDirectory.path + "/cairn-loading-" + UUID().uuidString
    let files = FileManager.default
    try files.createDirectory(atPath: folder + "/sub", withIntermediateDirectories: true)
    defer { try? files.removeItem(atPath: folder) }
    try files.createSymbolicLink(atPath: folder + "/linked", withDestinationPath: folder)
    let text = """
      [node]
      name = "hq"
      [database.a]
      url = "sqlite://\(folder)/a.db"
      [database.b]
      url = "sqlite://\(folder)/\(spelling)"
      [capture.a]
      database = "a"
      [capture.b]
      database = "b"
      [apply.b]
      trail = "hq.a"
      database = "b"
      """
    try text.write(toFile: folder + "/cairn.toml", atomically: true, encoding: .utf8)
    if spelling != "linked/a.db" {
      _ = files.createFile(atPath: folder + "/a.db", contents: Data())
      try files.createSymbolicLink(atPath: folder + "/link.db", withDestinationPath: folder + "/a.db")
    }
    let messages = ConfFolder.load(folder) { _ in nil }.problems.map(\.error.message)
    #expect(messages.count == 2, "\(messages)")
    #expect(messages.contains { $0.contains("database b is captured already, by [capture.a]") }, "\(messages)")
    #expect(messages.contains { $0.contains("[apply.b] would write the database that its trail hq.a comes from") })
  }

  @Test(.enabled(if: geteuid() == 0, "needs root, to become another user"), arguments: [0o700, 0o755])
  func `a conf that this user may not read is no missing one`(_ mode: Int) async throws {
    let folder = FileManager.default.temporaryDirectory.path + "/cairn-loading-" + UUID().uuidString
    let files = FileManager.default
    try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? files.removeItem(atPath: folder) }
    try "[node]\nname = \"hq\"\n".write(toFile: folder + "/cairn.toml", atomically: true, encoding: .utf8)
    try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder + "/cairn.toml")
    try files.setAttributes([.posixPermissions: mode], ofItemAtPath: folder)
    await #expect(processExitsWith: .exitCode(7)) { [folder = folder as String] in
      guard setuid(65534) == 0 else { exit(1) }
      let problems = ConfFolder.load(folder) { _ in nil }.problems
      exit(
        problems.count == 1 && problems[0].isBarred && problems[0].message.hasPrefix("cannot be read: user ") ? 7 : 2)
    }
  }

  @Test(arguments: ["cairn.toml", "conf.d/pos.toml", "credentials/database.pos"])
  func `a conf or a password that every user may write is refused`(file: String) throws {
    let folder = FileManager.default.temporaryDirectory.path + "/cairn-loading-" + UUID().uuidString
    let files = FileManager.default
    defer { try? files.removeItem(atPath: folder) }
    for part in ["conf.d", "credentials"] {
      try files.createDirectory(atPath: folder + "/" + part, withIntermediateDirectories: true)
    }
    try "[node]\nname = \"hq\"\n".write(toFile: folder + "/cairn.toml", atomically: true, encoding: .utf8)
    try "".write(toFile: folder + "/conf.d/pos.toml", atomically: true, encoding: .utf8)
    try "secret\n".write(toFile: folder + "/credentials/database.pos", atomically: true, encoding: .utf8)
    let service = ["CREDENTIALS_DIRECTORY": folder + "/credentials"]
    #expect(!ConfFolder.load(folder) { service[$0] }.problems.contains { $0.code == .confUnsafe })
    try files.setAttributes([.posixPermissions: 0o666], ofItemAtPath: folder + "/" + file)
    let problems = ConfFolder.load(folder) { service[$0] }.problems.filter { $0.code == .confUnsafe }
    #expect(problems.count == 1 && problems[0].hint.contains("chmod o-w \(folder)/\(file)"), "\(problems)")
  }

  @Test(arguments: ["", "/conf.d", "/credentials"], [0o777, 0o1777])
  func `a folder into which every user may put a conf or a password is refused`(part: String, mode: Int) throws {
    let folder = FileManager.default.temporaryDirectory.path + "/cairn-loading-" + UUID().uuidString
    let files = FileManager.default
    defer { try? files.removeItem(atPath: folder) }
    for part in ["conf.d", "credentials"] {
      try files.createDirectory(atPath: folder + "/" + part, withIntermediateDirectories: true)
    }
    try "[node]\nname = \"hq\"\n".write(toFile: folder + "/cairn.toml", atomically: true, encoding: .utf8)
    try "".write(toFile: folder + "/conf.d/pos.toml", atomically: true, encoding: .utf8)
    try "secret\n".write(toFile: folder + "/credentials/database.pos", atomically: true, encoding: .utf8)
    let service = ["CREDENTIALS_DIRECTORY": folder + "/credentials"]
    try files.setAttributes([.posixPermissions: mode], ofItemAtPath: folder + part)
    let problems = ConfFolder.load(folder) { service[$0] }.problems.filter { $0.code == .confUnsafe }
    #expect(problems.count == 1 && problems[0].hint.contains("chmod o-w \(folder)\(part)"), "\(problems)")
    // A file by itself in a folder like /tmp has no other owner.
    let alone = ConfFolder.load(folder + "/cairn.toml") { _ in nil }.problems.filter { $0.code == .confUnsafe }
    #expect(alone.isEmpty == (part != "" || mode == 0o1777), "\(alone)")
  }

  @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
  func `a conf of another user is loaded with a notice`() throws {
    let folder = FileManager.default.temporaryDirectory.path + "/cairn-loading-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = folder + "/cairn.toml"
    try "[node]\nname = \"hq\"\n".write(toFile: path, atomically: true, encoding: .utf8)
    #expect(ConfFolder.load(folder) { _ in nil }.notices == [])
    chown(path, 54_321, 54_321)
    let notices = ConfFolder.load(folder) { _ in nil }.notices
    #expect(notices.count == 1 && notices[0].contains("number 54321"), "\(notices)")
  }

  @Test func `everything that a conf says arrives in its value`() throws {
    let conf = try Conf.load(
      """
      [node]
      name = "store-042"
      state = "/srv/cairn/"
      [database.pos]
      url = "sqlite:/srv/./pos/pos.db"
      keys = "shared"
      [database.erp]
      url = "postgresql://cairn@db.example/erp?sslmode=verify-full"
      [capture.pos]
      database = "pos"
      tables = ["*", "!tmp_*"]
      statements = false
      journal_rows = 10_000
      copy = false
      heartbeat = "1.5 min"
      purge = "500 ms"
      [apply.pos]
      trail = "store-042.pos"
      database = "erp"
      conflict = "priority:hq,store-042"
      conflicts = { Stock = "delta" }
      tracking = "column"
      deletes = "update"
      max_clock_skew = "5 s"
      on_error = "stop"
      local_writes = "allow"
      existing = "merge"
      names = "keep"
      misfits = ["stop", "orders.note=null"]
      ddl = "ignore"
      audit = "10MiB/s"
      [[apply.pos.table]]
      from = "orders"
      to = "sales.orders"
      where = "doc ->> '$.a' > 0 AND note <> '$${x}'"
      columns = { id = "id", amount = { expr = "round(total, 2)", type = "numeric(10,2)" }, store = { expr = "'042'", share = false }, "*" = "*", A = "b" }
      delete = "mark:deleted_at"
      local_writes = "undo"
      conflict = "stop"
      conflicts = { note = "merge-text", tags = "combine: / ", high = "sql:max(local, incoming)" }
      tracking = "row"
      deletes = "delete"
      [[apply.pos.table]]
      from = "log"
      mode = "history"
      [limits]
      disk = "20 GiB"
      retain = "2 weeks"
      give_up_slot = true
      [metrics]
      listen = "[::1]:7421"
      [control]
      socket = "/run/cairn/control"
      group = "operators"
      [log]
      level = "debug"
      """, credentials: ["erp": ConfCredential(path: "/run/credentials/database_erp", secret: "geheim")]
    ).get()
    var expected = Configuration(node: .init(name: "store-042", state: "/srv/cairn"))
    expected.databases = [
      .init(name: "erp", url: "postgresql://cairn@db.example/erp?sslmode=verify-full", secret: "geheim"),
      .init(name: "pos", url: "sqlite:///srv/pos/pos.db"),
    ]
    expected.databases[1].sharesKeys = true
    var capture = Configuration.Capture(name: "pos", database: "pos")
    (capture.tables, capture.statements, capture.journalRows) = (["*", "!tmp_*"], false, 10_000)
    capture.copiesRows = false
    (capture.heartbeat, capture.purge) = (.seconds(90), .milliseconds(500))
    expected.captures = [capture]
    var apply = Configuration.Apply(name: "pos", trail: "store-042.pos", database: "erp")
    (apply.existing, apply.names, apply.ddl, apply.auditBytesPerSecond) = (.merge, .keep, .ignore, 10 << 20)
    apply.conflicts = .init(
      rule: .priority(["hq", "store-042"]), columns: ["stock": .delta], tracking: .column, deletes: .updateWins)
    apply.maxClockSkew = .seconds(5)
    apply.localWrites = .allow
    apply.misfits = try MisfitPolicies(parsing: "stop,orders.note=null")
    var orders = TableRule(from: "orders")
    (orders.to, orders.filter) = ("sales.orders", "doc ->> '$.a' > 0 AND note <> '${x}'")
    orders.columns = [
      .init("id", "id"), .init("amount", "round(total, 2)", type: "numeric(10,2)"),
      .init("store", "'042'", isShare: false), .init("*", "*"), .init("A", "b"),
    ]
    orders.delete = .mark(column: "deleted_at")
    let conflicts = ConflictPlan.Part(
      rule: .stop,
      columns: ["note": .mergeText, "tags": .combine(separator: " / "), "high": .sql("max(local, incoming)")],
      tracking: .row, deletes: .deleteWins)
    apply.tableConflicts = [.init(from: "orders", to: "sales.orders", conflicts)]
    apply.tableLocalWrites = [.init(from: "orders", to: "sales.orders", .undo)]
    var log = TableRule(from: "log")
    log.mode = .history
    apply.rules = [orders, log]
    expected.applies = [apply]
    (expected.limits.diskBytes, expected.limits.retain, expected.limits.givesUpSlot) = (
      20 << 30, .seconds(1_209_600), true
    )
    expected.metrics = .init(host: "::1", port: 7421)
    (expected.control.socket, expected.control.group) = ("/run/cairn/control", "operators")
    expected.log.level = .debug
    #expect(conf == expected)
  }

  @Test func `a trail keeps history by time, by size or both`() throws {
    func history(_ keep: String, _ trail: String = "shop") throws -> [NameKey: Configuration.History] {
      let peer = "[peer.b]\nmay = { push = [\"b.*\"] }\n"
      return try Conf.load(Conf.good + peer + "[trail.\(trail)]\nkeep = \(keep)\n").get().histories
    }
    #expect(try history("\"7 days\"") == ["hq.shop": .init(age: .seconds(604_800))])
    #expect(try history("\"50 GiB\"", "\"b.pos\"") == ["b.pos": .init(bytes: 50 << 30)])
    let both = try history("[\"50 GiB\", \"36 h\"]")
    #expect(both == ["hq.shop": .init(age: .seconds(129_600), bytes: 50 << 30)])
    #expect(both["hq.shop"]?.text == "36 h, at most 50 GiB")
  }

  @Test func `sections may be spread over files, options not`() throws {
    let loaded = Conf.load(
      Conf.good, ("conf.d/10.toml", "[capture.shop]\ntables = [\"a\"]\n[[apply.erp.table]]\nfrom = \"a\"\n"),
      ("conf.d/20.toml", "[[apply.erp.table]]\nfrom = \"b\"\n"))
    let conf = try loaded.get()
    #expect(conf.captures.map(\.tables) == [["a"]])
    #expect(conf.applies.flatMap(\.rules).map(\.from) == ["a", "b"])
    let twice = Conf.load(Conf.good, ("conf.d/10.toml", "[node]\nname = \"b\"\n"))
    #expect(
      twice.problems.map(\.error.message) == [
        "conf.d/10.toml:2:1: 'name' of [node] is there already, at cairn.toml:2:1"
      ])
  }

  @Test func `all faults are reported at once, in the order of the files; a syntax error ends its file only`() {
    let loaded = Conf.load(
      Conf.good.replacing("\"hq\"", with: "\"HQ\"").replacing("\"shop\"", with: "\"shp\""),
      ("conf.d/10.toml", "[database.shp\n"), ("conf.d/20.toml", "[limits]\ndisk = 3\nretain = \"x\"\n"))
    // It is not known whether [database.shp] is in the file that could not be read.
    #expect(
      loaded.problems.map { "\($0.place) \($0.code.rawValue)" } == [
        "cairn.toml:2:8 conf-value", "conf.d/10.toml:1:14 conf-syntax", "conf.d/20.toml:2:8 conf-value",
        "conf.d/20.toml:3:10 conf-value",
      ])
    #expect(loaded.configuration == nil)
    let error = #expect(throws: CairnError.self) { try loaded.get() }
    #expect(error?.message.hasSuffix("; 3 more in this conf") == true)
    #expect(error?.context["line"] == "2")
  }

  @Test(arguments: [
    ("[node]\nname = \"hq\"\nstate = \"/a\"\n", "x = "), ("[node]\nstate = \"/a\"\n[capture.p", "[control]"),
    ("x = = 1\n [node]\nname = [\nstate = \"/a\" # here", "[limits]\ndisk = 1"),
    ("node = { name = \"hq\", state = \"/a\" }", "[[["),
  ])
  func `a broken conf still says where the daemon is`(main: String, more: String) {
    let loaded = Conf.load(main, ("conf.d/10.toml", more + "\n[control]\nsocket = \"/b\"\n"))
    #expect(loaded.configuration == nil)
    #expect(loaded.place.state == "/a" && loaded.place.socket == "/b", "\(loaded.place)")
  }

  @Test func `variables are put in, once`() throws {
    let text = Conf.good.replacing("\"hq\"", with: "\"${NODE}-1\"").replacing("hq.shop", with: "${NODE}-1.shop")
    let conf = try Conf.load(text, environment: ["NODE": "a"]).get()
    #expect(conf.node.name == "a-1")
    let nested = Conf.load(Conf.good.replacing("/srv/shop.db", with: "${DIR}/$$.db"), environment: ["DIR": "/${X}$"])
    #expect(nested.configuration?.databases.map(\.url).last == "sqlite:///${X}$/$.db")
  }

  @Test(arguments: [
    "[pump.a]\ntrail = \"till-*.shop\"\nfrom = \"https://till\"\n",
    "[receive]\nlisten = \"[::1]:7420\"\n[peer.till-7]\nmay = { push = [\"till-7.*\"] }\n",
  ])
  func `an apply of another node's trail needs no capture here, but a way for it to come`(_ way: String) throws {
    let conf = try Conf.load(Conf.good.replacing("\"hq.shop\"", with: "\"till-7.shop\"\ntables = [\"a\"]") + way).get()
    #expect(conf.applies.map(\.tables) == [["a"]])
    #expect(conf.applies.map(\.trail) == ["till-7.shop"])
    #expect(conf.receives("till-7.shop") && !conf.receives("till.shop"))
  }

  @Test func `a password is never shown, also not one from a variable`() {
    let text = Conf.good.replacing("cairn@db", with: "cairn:${PW}@db")
    let loaded = Conf.load(
      text, credentials: ["shop": ConfCredential(path: "/c/database_shop", secret: "geheim")],
      environment: ["PW": "geheim"])
    #expect(loaded.problems.map(\.code) == [.confSecret])
    #expect(!"\(loaded.problems) \(loaded.settings)".contains("geheim"))
    #expect(loaded.settings.contains { $0.value == "\"********\"" && $0.origin == .credential("/c/database_shop") })
  }

  @Test func `a conf is read from its folder, in the order of names, with its credentials`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "cairn-conf-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    func write(_ path: String, _ text: String) throws {
      let url = folder.appending(path: path)
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: url)
    }
    try write("cairn.toml", Conf.good)
    try write("conf.d/20-b.toml", "[[apply.erp.table]]\nfrom = \"b\"\n")
    try write("conf.d/100-a.toml", "[[apply.erp.table]]\nfrom = \"a\"\n")
    try write("conf.d/.hidden.toml", "[")
    try write("conf.d/note.txt", "[")
    try write("credentials/erp", "geheim\n")
    let conf = try ConfFolder.load(folder.path(), environment: { _ in nil }).get()
    #expect(conf.applies.flatMap(\.rules).map(\.from) == ["a", "b"])
    #expect(conf.database("erp")?.secret == "geheim")
    #expect(mkfifo(folder.appending(path: "conf.d/300-pipe.toml").path(), 0o600) == 0)
    let piped = ConfFolder.load(folder.path(), environment: { _ in nil }).problems.map(\.error.message)
    #expect(piped.count == 1 && piped[0].contains("no regular file"), "\(piped)")
    try FileManager.default.removeItem(at: folder.appending(path: "conf.d/300-pipe.toml"))
    try write("service/database_erp", "anders \n")
    try write("service/database.old", "x")
    let service = ConfFolder.load(folder.path()) { name in
      name == "CREDENTIALS_DIRECTORY" ? folder.appending(path: "service").path() : nil
    }
    #expect(try service.get().database("erp")?.secret == "anders ")
    #expect(service.notices.count == 1)
    try FileManager.default.createSymbolicLink(
      atPath: folder.path() + "/credentials/pos", withDestinationPath: folder.path() + "/nowhere")
    let barred = ConfFolder.load(folder.path(), environment: { _ in nil })
    #expect(barred.problems.isEmpty && barred.notices.count == 1 && barred.notices[0].contains("credentials/pos"))
    try write("conf.d/30.toml", "[")
    #expect(ConfFolder.load(folder.path(), environment: { _ in nil }).problems.count == 1)
    #expect(ConfFolder.load(folder.path() + "/none", environment: { _ in nil }).problems.map(\.code) == [.confMissing])
    try Data([0x23, 0xc3, 0xa9, 0x0a, 0x61, 0xff]).write(to: folder.appending(path: "latin.toml"))
    let latin = ConfFolder.load(folder.path() + "/latin.toml", environment: { _ in nil }).problems
    #expect(latin.map { "\($0.place.line) \($0.message)" } == ["2 this line is not UTF-8"])
    try Data(repeating: 0x0a, count: (1 << 20) + 1).write(to: folder.appending(path: "long.toml"))
    let long = ConfFolder.load(folder.path() + "/long.toml", environment: { _ in nil }).problems
    #expect(long.map(\.message) == ["cannot be read: it has more than 1 MiB"])
    let alone = ConfFolder.load(folder.path() + "/cairn.toml", environment: { _ in nil })
    #expect(try alone.get().applies.flatMap(\.rules).isEmpty)
  }

  @Test func `an apply whose rows may differ by the conf has no audit unless it asks for one`() {
    var apply = Configuration.Apply(name: "erp", trail: "hq.shop", database: "erp")
    #expect(!apply.mayDiffer)
    apply.existing = .overwrite
    #expect(!apply.mayDiffer)
    for change: (inout Configuration.Apply) throws -> Void in [
      { $0.localWrites = .allow }, { $0.existing = .keep }, { $0.existing = .merge },
      { $0.misfits = try MisfitPolicies(parsing: "null") },
    ] {
      var other = apply
      try? change(&other)
      #expect(other.mayDiffer)
    }
  }
}
