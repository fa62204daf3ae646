import Foundation
import TestServers
import Testing

/// `cairn setup`, at real files and a real server.
extension Scenarios {
  @Suite(.serialized) struct SetupTests {
    private func lines(_ outcome: Outcome, _ state: String) -> [String] {
      outcome.output.split(separator: "\n").filter { $0.hasPrefix("  " + state) }.map { line in
        line.dropFirst(11).description
      }
    }

    /// The user database is a copy in a mount namespace, so the machine's own is not touched.
    @Test(.enabled(if: geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/unshare")))
    func `a file is shared by a group, and a second run finds nothing to do`() throws {
      let bench = try Bench()
      let files = FileManager.default
      try files.createDirectory(atPath: bench.path("srv/pos"), withIntermediateDirectories: true)
      try files.createDirectory(atPath: bench.path("root/etc/systemd/system"), withIntermediateDirectories: true)
      try Data("[Service]\nUser=nobody\nProtectHome=yes\n".utf8)
        .write(to: URL(fileURLWithPath: bench.path("root/etc/systemd/system/cairnd.service")))
      let path = bench.path("srv/pos/p os.db")
      #expect(try bench.run("/usr/bin/sqlite3", [path, "PRAGMA journal_mode = WAL; CREATE TABLE t(a)"]).status == 0)
      try #require(chmod(path, 0o644) == 0)
      let script = """
        set -e; mkdir etc; cp -a /etc/passwd /etc/group /etc/shadow /etc/gshadow /etc/login.defs /etc/nsswitch.conf etc/
        mount --bind etc /etc; export CAIRN_TEST_UNIT_ROOT=$PWD/root; "$@"; getent group cairn_shared
        """
      func setup(_ more: [String]) throws -> Outcome {
        try? files.removeItem(atPath: bench.path("etc"))
        return try bench.run(
          "/usr/bin/unshare",
          ["-m", "bash", "-c", script, "_", Bench.cairn, "setup", "sqlite:\(path)", "--group", "cairn_shared"] + more)
      }
      let dry = try setup(["--program", "games"])
      #expect(dry.status == 2, "no group was made: \(dry.errors)")
      #expect(lines(dry, "missing").count == 6, "\(dry.output)")
      #expect(try files.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o644)
      let applied = try setup(["--program", "games", "--apply"])
      #expect(applied.status == 0 && applied.output.contains("nobody,games"), "\(applied.output) \(applied.errors)")
      #expect(lines(applied, "did").count == 6, "\(applied.output)")
      #expect(try files.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o664)
      let mode = try files.attributesOfItem(atPath: bench.path("srv/pos"))[.posixPermissions] as? Int ?? 0
      #expect(mode & 0o2070 == 0o2070)
      let drop = try String(
        contentsOfFile: bench.path("root/etc/systemd/system/cairnd.service.d/cairn-setup.conf"), encoding: .utf8)
      #expect(drop.contains("[Service]\nReadWritePaths=") && drop.contains("/srv/pos"))
      // A program that exchanges a companion for a link gets nothing of what the link names.
      let secret = bench.path("secret")
      try Data("x".utf8).write(to: URL(fileURLWithPath: secret))
      try #require(chmod(secret, 0o600) == 0)
      try files.createSymbolicLink(atPath: path + "-journal", withDestinationPath: secret)
      let linked = try setup(["--apply"])
      #expect(linked.status == 77 && linked.errors.contains("[database-unsafe]"), "\(linked.errors)")
      #expect(try files.attributesOfItem(atPath: secret)[.posixPermissions] as? Int == 0o600)
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"), arguments: ["source", "target"])
    func `a role that may nothing can replicate afterwards`(purpose: String) throws {
      let pair = try PairBench(purpose == "source" ? .postgresToSQLite : .sqliteToPostgres)
      let (end, role) = (purpose == "source" ? pair.from : pair.to, "setup_\(UUID().uuidString.prefix(8).lowercased())")
      let owner = role + "'s"
      try pair.server.psql(
        "CREATE ROLE \"\(owner)\"; ALTER DATABASE \(end.name) OWNER TO \"\(owner)\"; REVOKE CREATE ON SCHEMA public FROM PUBLIC"
      )
      defer {
        _ = try? pair.server.psql("DROP OWNED BY \"\(owner)\", \(role); DROP ROLE \"\(owner)\", \(role)", end.name)
      }
      if purpose == "source" {
        try pair.sql(
          pair.from,
          "SET ROLE \"\(owner)\"; CREATE TABLE item(id int PRIMARY KEY, n int); INSERT INTO item VALUES (1, 2)")
      } else {
        try pair.sql(pair.from, "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO item VALUES (1, 2)")
      }
      func setup(_ more: [String] = []) throws -> Outcome {
        try pair.bench.run(Bench.cairn, ["setup", end.url, "--role", role, "--\(purpose)"] + more)
      }
      let dry = try setup()
      #expect(dry.status == 0 && lines(dry, "missing").contains("role \(role) exists"), "\(dry.output) \(dry.errors)")
      #expect(try pair.server.psql("SELECT count(*) FROM pg_roles WHERE rolname = '\(role)'") == "0")
      let applied = try setup(["--apply"])
      #expect(applied.status == 0, "\(applied.output) \(applied.errors)")
      let again = try setup()
      #expect(lines(again, "missing").isEmpty && lines(again, "by-hand").isEmpty, "\(again.output)")
      let url = pair.server.url(end.name, user: role)
      let ends = purpose == "source" ? [url, pair.to.url] : [pair.from.url, url]
      let run = try pair.bench.run(
        Bench.cairn, ["replicate", "--from", ends[0], "--to", ends[1], "--once", "--state", "by-role"], seconds: 120)
      #expect(run.status == 0, "\(run.errors)")
      #expect(try pair.sql(pair.to, "SELECT * FROM item") == "1|2")
      #expect(try pair.bench.run(Bench.cairn, ["detach", end.url]).status == 0)
    }

    @Test func `a wrong word is refused with the next step`() throws {
      let bench = try Bench()
      for (words, said) in [
        (["setup"], "an argument is missing"), (["setup", "nothing"], "conf"),
        (["setup", "sqlite:a.db", "--role", "x"], "--role is for PostgreSQL"),
        (["setup", "sqlite:a.db", "--dry-run", "--apply"], "--apply does not go with --dry-run"),
        (["setup", "sqlite:a.db", "--user", "no-such-user"], "there is no user no-such-user"),
        (["setup", "sqlite:no/a.db", "--user", "root"], "there is no folder"),
        (["setup", "sqlite:a.db", "--user", "root", "--group", "x"], "add --target"),
        (["setup", "postgresql:///x?host=/nowhere"], "add --source, --target or both"),
        (["setup", "postgresql:///x?host=/nowhere", "--group", "x", "--target"], "--group is for SQLite"),
      ] {
        let outcome = try bench.run(Bench.cairn, words)
        #expect(outcome.status != 0 && outcome.errors.contains(said), "\(words): \(outcome.errors)")
      }
    }
  }
}
