import Foundation
import TestServers
import Testing

/// `cairn snapshot create` as an operator uses it.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct SnapshotScenarioTests {
  private static let big = """
    PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE shop(id, name);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO item SELECT i, hex(randomblob(500)) FROM n; INSERT INTO shop VALUES (1, 'one'), (2, 'two')
    """

  private func files(_ bench: Bench) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: bench.folder).filter { $0.hasPrefix("now.db") }.sorted()
  }

  @Test func `a snapshot that is killed at any moment leaves nothing that the next one does not remove`() throws {
    let bench = try Bench()
    _ = try bench.sqlite("source.db", Self.big)
    let words = ["snapshot", "create", "sqlite:source.db", "--to", "now.db", "--replace"]
    let started = Date()
    #expect(try bench.run(Bench.cairn, words).status == 0)
    let duration = Date().timeIntervalSince(started)
    for round in 0..<12 {
      let process = try bench.start("killed", Bench.cairn, words)
      usleep(UInt32(duration * 1_000_000 * Double.random(in: 0...1.1)))
      process.signal(SIGKILL)
      bench.wait(process, seconds: 30)
      // The file is an earlier snapshot or the new one, each whole.
      let rows = try bench.sqlite("now.db", "PRAGMA integrity_check; SELECT count(*) FROM item")
      #expect(rows == "ok\n20000\n", "round \(round)")
    }
    let again = try bench.run(Bench.cairn, words)
    #expect(again.status == 0, "\(again.errors)")
    #expect(try files(bench) == ["now.db", "now.db.sha256"])
    #expect(try bench.run("/usr/bin/sha256sum", ["-c", "now.db.sha256"]).status == 0)
  }

  @Test func `the facts are JSON, and the position is in the file`() throws {
    let bench = try Bench()
    _ = try bench.sqlite("source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, v); INSERT INTO item VALUES (1, 2)")
    #expect(try bench.replicateOnce().status == 0)
    let outcome = try bench.run(
      Bench.cairn, ["snapshot", "create", "sqlite:source.db", "--to", "now.db", "--json", "--tables", "item"])
    #expect(outcome.status == 0, "\(outcome.errors)")
    let facts = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
    #expect(facts?["event"] as? String == "snapshot")
    #expect(facts?["tables"] as? [String] == ["item"])
    let position = (facts?["positions"] as? [[String: Any]])?.first
    #expect(position?["trail"] as? String == "local.source")
    #expect(position?["transaction"] as? Int ?? 0 > 0)
    let note = try bench.sqlite(
      "now.db", "SELECT trail, transaction_number, journal_row FROM cairn_snapshot; SELECT name FROM sqlite_schema")
    let numbers = "\(position?["transaction"] as? Int ?? 0)|\(position?["journal_row"] as? Int ?? 0)"
    #expect(note == "local.source|\(numbers)\nitem\ncairn_snapshot\n")
    // The target of the replication has a checkpoint, and its snapshot says so.
    let target = try bench.run(Bench.cairn, ["snapshot", "create", "sqlite:target.db", "--to", "then.db"])
    #expect(target.status == 0 && target.output.contains("of trail local.source, after transaction"), "\(target)")
  }

  @Test(
    arguments: [
      (["create"], "an argument is missing"), (["make", "sqlite:source.db"], "there is no 'cairn snapshot make'"),
      (["fetch", "hq"], "an argument is missing"), (["apply", "now.db", "x"], "one argument too many"),
      (["fetch", "north", "prices", "--to", "now.db", "--config", "conf"], "no pump of the conf leads to 'north'"),
      (["fetch", "http://hq.example", "prices", "--to", "now.db", "--config", "conf"], "is plain HTTP"),
      (["fetch", "https://hq/x", "prices", "--to", "now.db", "--config", "conf"], "is not the address of a peer"),
      (["fetch", "https://hq", "../x", "--to", "now.db", "--config", "conf"], "is not the name of a snapshot"),
      (["fetch", "https://hq", "prices", "--config", "conf"], "--to is missing"),
      (["apply", "now.db"], "no snapshot is pending"),
      (["create", "sqlite:source.db"], "--to is missing"),
      (["create", "sqlite:none.db", "--to", "now.db"], "there is no database"),
      (["create", "sqlite:source.db", "--to", "source.db", "--replace"], "the same database"),
      (["create", "sqlite:source.db", "--to", "no/now.db"], "folder of the snapshot does not exist"),
      (["create", "sqlite:source.db", "--to", "now.db", "--tables", "itm"], "did you mean 'item'?"),
      (["create", "sqlite:source.db", "--to", "now.db", "--where", "nme = 1"], "does not fit table item"),
      (["create", "other", "--to", "now.db", "--config", "conf"], "has no database or apply 'other'"),
      (["create", "both", "--to", "now.db", "--config", "conf"], "is a database and an apply"),
      (["create", "hq", "--to", "now.db", "--config", "conf"], "is a PostgreSQL database"),
    ] as [([String], String)])
  func `a wrong word is refused with the next step, and nothing is made`(_ words: [String], _ message: String) throws {
    let bench = try Bench()
    _ = try bench.sqlite("source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name)")
    try FileManager.default.createDirectory(atPath: bench.path("conf"), withIntermediateDirectories: true)
    try Data(
      """
      [node]
      name = "hq"
      state = "\(bench.path("state"))"
      [database.both]
      url = "sqlite://\(bench.path("source.db"))"
      [database.hq]
      url = "postgresql:///none"
      [capture.pos]
      database = "hq"
      [apply.both]
      trail = "hq.pos"
      database = "both"
      """.utf8
    ).write(to: URL(fileURLWithPath: bench.path("conf/cairn.toml")))
    let outcome = try bench.run(Bench.cairn, ["snapshot"] + words)
    #expect(outcome.status != 0)
    #expect(outcome.errors.contains(message), "\(outcome.errors)")
    #expect(outcome.errors.contains("hint: "), "\(outcome.errors)")
    #expect(try files(bench) == [])
  }

  @Test(.enabled(if: getuid() == 0, "mounting a tmpfs needs root"), arguments: [2, 10, 15])
  func `a full disk is an error that leaves nothing`(_ megabytes: Int) throws {
    let bench = try Bench()
    _ = try bench.sqlite(
      "source.db",
      "CREATE TABLE item(id INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
        + " i < 9000) INSERT INTO item SELECT i, hex(randomblob(500)) FROM n")
    try FileManager.default.createDirectory(atPath: bench.path("small"), withIntermediateDirectories: true)
    let size = "size=\(megabytes)m"
    guard try bench.run("/bin/mount", ["-t", "tmpfs", "-o", size, "tmpfs", bench.path("small")]).status == 0 else {
      return
    }
    defer { _ = try? bench.run("/bin/umount", [bench.path("small")]) }
    let words = ["snapshot", "create", "sqlite:source.db", "--to", "small/now.db"]
    let full = try bench.run(Bench.cairn, words)
    #expect(full.status == 74, "\(full.errors)")
    #expect(full.errors.contains("disk-full") && full.errors.contains("hint: free"), "\(full.errors)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: bench.path("small")) == [])
    #expect(try bench.run("/bin/mount", ["-o", "remount,size=60m", bench.path("small")]).status == 0)
    #expect(try bench.run(Bench.cairn, words).status == 0)
  }
}
