import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn check --config DIR --security`, as a program.
  @Suite(.enabled(if: PostgresServer.problem == nil)) struct SecurityReviewTests {
    private let bench: Bench
    private let server: PostgresServer
    private let role = "review_" + UUID().uuidString.prefix(8).lowercased()

    init() throws {
      (bench, server) = (try Bench(), try PostgresServer.shared)
      try server.psql("CREATE ROLE \(role) LOGIN")
      for name in ["conf", "state/peers"] {
        try FileManager.default.createDirectory(atPath: bench.path(name), withIntermediateDirectories: true)
      }
      try chmod("state", 0o750)
      _ = try bench.sqlite("shop.db", "CREATE TABLE item(id INTEGER PRIMARY KEY)")
      try write("state/peers/node.key", "key", 0o600)
    }

    private func chmod(_ path: String, _ mode: Int) throws {
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: bench.path(path))
    }

    private func write(_ path: String, _ text: String, _ mode: Int) throws {
      try Data(text.utf8).write(to: URL(fileURLWithPath: bench.path(path)))
      try chmod(path, mode)
    }

    /// The conf with some of its lines replaced by others.
    private func conf(_ changes: [String: String] = [:]) throws {
      let text = """
        [node]
        name = "hq"
        state = "\(bench.path("state"))"
        [database.shop]
        url = "sqlite://\(bench.path("shop.db"))"
        [database.erp]
        url = "\(server.url("postgres", user: role))"
        [capture.shop]
        database = "shop"
        [apply.erp]
        trail = "hq.shop"
        database = "erp"
        [limits]
        disk = "20 GiB"
        [metrics]
        listen = "127.0.0.1:17421"

        """
      try write("conf/cairn.toml", changes.reduce(text) { $0.replacingOccurrences(of: $1.key, with: $1.value) }, 0o640)
    }

    /// The facts that are below the advice, without their hints; each must have one.
    private func weak(_ environment: [String: String] = [:]) throws -> (lines: [String], status: Int32) {
      let outcome = try bench.run(
        Bench.cairn, ["check", "--config", "conf", "--security"], environment: environment)
      let lines = outcome.output.split(separator: "\n").map(String.init)
      for (line, next) in zip(lines, lines.dropFirst()) where line.hasPrefix("WEAK  ") {
        #expect(next.hasPrefix("        hint: ") && next.count > 20, "\(line)")
      }
      return (lines.filter { $0.hasPrefix("WEAK  ") }.map { String($0.dropFirst(6)) }, outcome.status)
    }

    private func expect(
      _ parts: String..., changing changes: [String: String] = [:], location: SourceLocation = #_sourceLocation
    ) throws {
      try conf(changes)
      let (lines, status) = try weak()
      #expect(status == (parts.isEmpty ? 0 : 1), "\(lines)", sourceLocation: location)
      #expect(lines.count == parts.count, "\(lines)", sourceLocation: location)
      for part in parts { #expect(lines.contains { $0.contains(part) }, "\(part): \(lines)", sourceLocation: location) }
    }

    /// All lines of the review that contain a text.
    private func lines(_ part: String, changing changes: [String: String] = [:]) throws -> [String] {
      try conf(changes)
      let outcome = try bench.run(Bench.cairn, ["check", "--config", "conf", "--security"])
      return outcome.output.split(separator: "\n").map(String.init).filter { $0.contains(part) }
    }

    @Test func `each fact below the advice has its line, and a clean node has none`() throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      try expect()
      // The network.
      let listens = "[receive]\nlisten = \"127.0.0.1:17420\"\ninsecure = true\n[metrics]"
      try expect("receive: listens on 127.0.0.1:17420, plain HTTP", changing: ["[metrics]": listens])
      try expect("metrics: listens on 0.0.0.0:17421", changing: ["127.0.0.1:17421": "0.0.0.0:17421"])
      let peer =
        "[receive]\nlisten = \"127.0.0.1:17420\"\ninsecure = true\n[peer.store]\nmay = { push = [\"*\"] }\n[metrics]"
      try expect("receive: ", "peer store: may push *", changing: ["[metrics]": peer])
      // Limits.
      try expect("limits: trails may use the whole disk", changing: ["[limits]\ndisk = \"20 GiB\"": ""])
      // Files.
      try chmod("state/peers/node.key", 0o644)
      try expect("/state/peers/node.key belongs to")
      try chmod("state/peers/node.key", 0o600)
      try chmod("state", 0o755)
      try expect("/state belongs to")
      try chmod("state", 0o750)
      try chmod("shop.db", 0o666)
      try expect("/shop.db belongs to")
      try chmod("shop.db", 0o640)
      // Roles.
      try expect("database erp: role postgres at", changing: ["user=\(role)": "user=postgres"])
      try server.psql("ALTER ROLE \(role) CREATEROLE BYPASSRLS")
      try expect("database erp: role \(role) at")
      try server.psql("ALTER ROLE \(role) NOCREATEROLE NOBYPASSRLS")
      try expect()
    }

    /// An apply of the trail of another node, and a peer that may push it.
    private static func foreign(_ settings: String) -> [String: String] {
      [
        "trail = \"hq.shop\"": "trail = \"store.pos\"\n\(settings)",
        "[metrics]":
          "[receive]\nlisten = \"127.0.0.1:17420\"\ninsecure = true\n[peer.store]\nmay = { push = [\"store.*\"] }\n[metrics]",
      ]
    }

    @Test func `each fact about the trail of another node has its line`() throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      let plain = "receive: listens on 127.0.0.1:17420, plain HTTP"
      try expect(plain, changing: Self.foreign("tables = [\"sale\", \"item\"]"))
      for list in ["[\"*\"]", "[\"*.*\"]", "[\"*\", \"!salary\"]"] {
        try expect(
          plain, "apply erp: trail store.pos of another node may write tables *",
          changing: Self.foreign("tables = \(list)"))
      }
      let sale = "tables = [\"sale\"]\n"
      try expect(
        plain, "apply erp: executes statements of another node (replay = \"statements\")",
        changing: Self.foreign(sale + "replay = \"statements\""))
      try expect(
        plain, "apply erp: schema changes of another node: ddl = \"follow\"",
        changing: Self.foreign(sale + "ddl = \"follow\""))
      try expect(plain, changing: Self.foreign(sale + "ddl = \"stop\""))
      let advice = try lines("apply erp: schema changes of another node", changing: Self.foreign(sale))
      #expect(advice.count == 1 && advice[0].contains("write ddl = \"stop\""), "\(advice)")
      try expect(
        plain, "peer store: may fill the disk", "limits: trails may use the whole disk",
        changing: Self.foreign(sale).merging(["[limits]\ndisk = \"20 GiB\"": ""]) { $1 })
      let fires = try lines(
        "apply erp: triggers of other roles that fire: sale.note",
        changing: Self.foreign(sale + "fire_triggers = [\"sale.note\"]"))
      #expect(fires.count == 1)
    }

    /// Certificates of an authority of the operator's own.
    @Test func `each fact about certificates and authorities has its line`() throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      func certificate(_ name: String, days: Int) throws -> String {
        let made = try bench.run(
          "/usr/bin/openssl",
          [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "\(days)",
            "-subj", "/CN=\(name)", "-keyout", bench.path("conf/\(name).key"), "-out", bench.path("conf/\(name).crt"),
          ])
        try #require(made.status == 0, "\(made.errors)")
        try chmod("conf/\(name).key", 0o600)
        return bench.path("conf/\(name)")
      }
      let (long, short) = (try certificate("long", days: 400), try certificate("short", days: 10))
      func tls(_ own: String, _ authority: String) -> [String: String] {
        let files = "{ certificate = \"\(own).crt\", key = \"\(own).key\", peers = \"\(authority).crt\" }"
        return ["[metrics]": "[receive]\nlisten = \"127.0.0.1:17420\"\ntls = \(files)\n[metrics]"]
      }
      try expect(changing: tls(long, long))
      try expect("receive: certificate \(short).crt of 'short' ends on", changing: tls(short, long))
      try expect("receive: authority ", changing: tls(long, short))
      // An authority of Cairn.
      let state = bench.path("own")
      let own = [
        "state = \"\(bench.path("state"))\"": "state = \"\(state)\"",
        "[metrics]": "[receive]\nlisten = \"127.0.0.1:17420\"\n[metrics]",
      ]
      try conf(own)
      try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
      try chmod("own", 0o750)
      func peer(_ words: String...) throws {
        let done = try bench.run(Bench.cairn, ["peer"] + words + ["--config", "conf"])
        try #require(done.status == 0, "\(done)")
      }
      try peer("invite", "store", "--address", "127.0.0.1:17420")
      try expect(changing: own)
      #expect(try lines("receive: authority ", changing: own).count == 1)
      #expect(try lines("receive: the list of revoked certificates is readable", changing: own).count == 1)
      try peer("rotate", "--ca")
      try expect("receive: 1 old authority may still sign certificates of any peer", changing: own)
      try peer("rotate", "--drop")
      try expect(changing: own)
      try FileManager.default.removeItem(atPath: state + "/peers/revoked")
      try expect("receive: no certificate is accepted, as the list of revoked ones is unknown", changing: own)
    }

    @Test func `each fact about a database has its line`() throws {
      let name = "db_\(role)"
      try server.createDatabase(name)
      defer {
        _ = try? server.psql("DROP DATABASE \(name)")
        _ = try? server.psql("DROP ROLE \(role); DROP ROLE \(role)_low")
      }
      let erp = ["/postgres?": "/\(name)?"]
      try expect(changing: erp)
      // Schemas of another role.
      try server.psql("CREATE ROLE \(role)_low; CREATE SCHEMA cairn_ddl AUTHORIZATION \(role)_low", name)
      try expect("database erp: schema cairn_ddl belongs to role \(role)_low", changing: erp)
      try server.psql(
        """
        DROP SCHEMA cairn_ddl; CREATE SCHEMA app AUTHORIZATION \(role)_low; CREATE TABLE app.item(id int PRIMARY KEY);
        GRANT USAGE ON SCHEMA app TO \(role), \(role)_low; GRANT INSERT ON app.item TO \(role)
        """, name)
      try expect(changing: erp)
      try server.psql("GRANT CREATE ON DATABASE \(name) TO \(role)_low", name)
      try expect("database erp: role \(role)_low owns schema app and may create others", changing: erp)
      try server.psql("DROP SCHEMA app CASCADE; REVOKE CREATE ON DATABASE \(name) FROM \(role)_low", name)
      // Messages in the log of a source.
      let captured = erp.merging(["[apply.erp]": "[capture.erp]\ndatabase = \"erp\"\n[apply.erp]"]) { $1 }
      #expect(try lines("database erp: every role may send logical messages", changing: captured).count == 1)
      try server.psql(
        """
        DO $$ DECLARE f regprocedure; BEGIN
          FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
            EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC';
          END LOOP; END $$
        """, name)
      #expect(try lines("database erp: only roles with a grant may send", changing: captured).count == 1)
      // A link in place of a file.
      try FileManager.default.createSymbolicLink(
        atPath: bench.path("link.db"), withDestinationPath: bench.path("shop.db"))
      try expect(
        "/link.db is a symbolic link",
        changing: ["sqlite://\(bench.path("shop.db"))": "sqlite://\(bench.path("link.db"))"])
    }

    /// `make install` puts the unit below /usr/local.
    @Test func `the unit is found wherever systemd looks for it, and a limit that is none is marked`() throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      try conf()
      let files = FileManager.default
      func unit(_ path: String, _ text: String) throws {
        let file = URL(fileURLWithPath: bench.path("machine/\(path)"))
        try files.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
      }
      let (machine, folder) = (["CAIRN_TEST_UNIT_ROOT": bench.path("machine")], "/usr/local/lib/systemd/system")
      func told() throws -> (all: String, weak: [String]) {
        let all = try bench.run(Bench.cairn, ["check", "--config", "conf", "--security"], environment: machine).output
        return (all, try weak(machine).lines)
      }
      #expect(try told().all.contains("there is no unit cairnd.service"))
      try unit(folder + "/cairnd.service", "[Service]\nMemoryMax=50%\nTasksMax=4096\n")
      #expect(try told().all.contains("MemoryMax=50%") && told().weak.isEmpty)
      try unit("/etc/systemd/system/cairnd.service.d/a.conf", "[Service]\nMemoryMax = infinity\n")
      #expect(try told().weak == ["limits: the unit cairnd.service has MemoryMax=infinity"])
      try unit("/etc/systemd/system/cairnd.service.d/b.conf", "[Service]\nMemoryMax=2G\nTasksMax=infinity\n")
      #expect(try told().weak == ["limits: the unit cairnd.service has TasksMax=infinity"])
      // A unit, or a drop-in, in /etc takes the place of one of the same name elsewhere.
      try unit(folder + "/cairnd.service.d/b.conf", "[Service]\nTasksMax=infinity\n")
      try unit("/etc/systemd/system/cairnd.service.d/b.conf", "")
      try unit("/etc/systemd/system/cairnd.service.d/a.conf", "[Service]\nMemoryMax=\n")
      #expect(try told().weak == ["limits: the unit cairnd.service has no MemoryMax"])
      try unit("/etc/systemd/system/cairnd.service", "[Service]\nMemoryMax=1G\n")
      try files.removeItem(atPath: bench.path("machine/etc/systemd/system/cairnd.service.d/a.conf"))
      #expect(try told().all.contains("MemoryMax=1G") && told().weak.isEmpty)
    }

    /// Servers whose names lead nowhere: what is said of the way there needs no answer.
    @Test(arguments: [
      ("postgresql://ann@db.invalid/erp", true), ("postgresql://ann@db.invalid/erp?sslmode=require", true),
      ("postgresql://ann@db.invalid/erp?sslmode=verify-ca", true),
      ("postgresql://ann@db.invalid/erp?sslmode=verify-full&sslrootcert=/ca.crt", false),
      ("postgresql:///erp?user=ann&host=db.invalid", true),
      ("postgresql:///erp?hostaddr=192.0.2.1&connect_timeout=2", true),
      ("postgresql:///erp?user=ann&host=db.invalid&sslmode=verify-full&sslrootcert=/ca.crt", false),
    ]) func `a way to a server that proves nothing is marked, however it is written`(url: String, isWeak: Bool) throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      try conf([server.url("postgres", user: role): url])
      let lines = try weak().lines
      #expect(lines.contains { $0.hasPrefix("database erp: sslmode ") } == isWeak, "\(lines)")
      #expect(lines.contains { $0.hasPrefix("database erp: could not be checked") })
    }

    /// The warning comes before the connection, which leads nowhere.
    @Test(arguments: [("", true), ("?sslmode=require", true), ("?sslmode=verify-full&sslrootcert=/ca.crt", false)])
    func `replicate and the daemon warn of a way to a server that proves nothing`(query: String, isWeak: Bool) throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      let url = "postgresql://ann@db.invalid/erp\(query)"
      let files = try Bench()
      defer { files.killAll() }
      _ = try files.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      let arguments = ["replicate", "--from", "sqlite:source.db", "--to", url, "--state", "state", "--once"]
      let outcome = try files.run(Bench.cairn, arguments, seconds: 60)
      #expect(outcome.status != 0)
      let said = outcome.output + outcome.errors
      #expect(said.contains("the server does not prove which one it is") == isWeak, "\(said)")
      let daemon = try DaemonBench()
      defer { daemon.bench.killAll() }
      _ = try daemon.bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      let file = "sqlite://\(daemon.bench.path("target.db"))"
      try daemon.write(daemon.pair().replacingOccurrences(of: file, with: url))
      try daemon.start()
      for _ in 0..<200 where !daemon.log.contains("db.invalid") { usleep(100_000) }
      #expect(daemon.log.contains("db.invalid"))
      #expect(daemon.log.contains("the server does not prove which one it is") == isWeak, "\(daemon.log)")
      _ = daemon.end()
    }

    /// libpq takes what the URL leaves out from a file of services and from the environment.
    @Test(
      arguments: [
        ("?service=far", [:], true), ("?service=sure", [:], false), ("?service=far&sslmode=verify-full", [:], false),
        ("?service=sure&sslmode=require", [:], true), ("", ["PGSERVICE": "far"], true),
        ("", ["PGSERVICE": "sure"], false),
        ("", ["PGHOST": "db.invalid"], true), ("", ["PGHOST": "db.invalid", "PGSSLMODE": "verify-full"], false),
        ("?service=far", ["PGSSLMODE": "verify-full"], false), ("?service=near", [:], nil),
      ] as [(String, [String: String], Bool?)])
    func `a server that the url does not name is looked at, too`(
      query: String, environment: [String: String], isWeak: Bool?
    ) throws {
      defer { _ = try? server.psql("DROP ROLE \(role)") }
      let services = """
        [far]
        host=db.invalid
        [sure]
        host=db.invalid
        sslmode=verify-full
        sslrootcert=/ca.crt
        [near]
        host=\(bench.path("none"))

        """
      try write("services", services, 0o640)
      try conf([server.url("postgres", user: role): "postgresql://ann@/erp\(query)"])
      let lines = try weak(environment.merging(["PGSERVICEFILE": bench.path("services")]) { $1 }).lines
      let told = lines.first { $0.hasPrefix("database erp: sslmode ") }
      #expect((told != nil) == (isWeak ?? false), "\(lines)")
      #expect(told?.hasSuffix("server db.invalid") != false, "\(lines)")
    }
  }
}
