import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Audits of databases of one node: a planted difference is found within 60 seconds, and `--repair` mends it. Those
  /// of sources at another node are in `AfarCompareTests`.
  @Suite struct AuditTests {
    private static let schema = """
      CREATE TABLE item(id TEXT PRIMARY KEY, v TEXT);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      INSERT INTO item SELECT 'key ' || i, 'row ' || i FROM n
      """
    private static let planted = "UPDATE item SET v = 'forged' WHERE id = 'key 7'; DELETE FROM item WHERE id = 'key 9'"

    /// Writes to a file without firing a trigger.
    private func plant(_ bench: Bench, _ file: String) throws {
      let written = try bench.run("/usr/bin/sqlite3", ["-cmd", ".dbconfig enable_trigger off", file, Self.planted])
      #expect(written.status == 0, "\(written)")
    }

    private func findAndMend(_ node: DaemonBench, _ apply: String) throws {
      #expect(node.waitForLog("[drift-found] table item differs", seconds: 60), "\(node.log)")
      #expect((node.worker("apply.\(apply)")?["detail"] as? String)?.hasPrefix("drift in 1 table") == true)
      let found = try node.cairn("compare", apply)
      #expect(found.status == 1 && found.output.contains("1 missing, 0 extra, 1 different"), "\(found)")
      let mended = try node.cairn("compare", apply, "--repair")
      #expect(mended.status == 0 && mended.output.contains("2 repaired"), "\(mended)")
      let equal = try node.cairn("compare", apply)
      #expect(equal.status == 0, "\(equal)")
      #expect(node.end() == 0)
    }

    @Test(arguments: [false, postgresProblem == nil]) func `a daemon audits a one-way apply by default`(
      toPostgres: Bool
    ) throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", Self.schema)
      guard toPostgres else {
        try node.write(node.pair())
        try node.start()
        #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "500"), "\(node.log)")
        _ = try node.bench.sqlite("target.db", Self.planted)
        return try findAndMend(node, "copy")
      }
      let server = try PostgresServer.shared
      let database = "audit_" + UUID().uuidString.prefix(8).lowercased()
      let url = try server.createDatabase(database)
      defer { try? server.dropDatabase(database) }
      let file = "url = \"sqlite://\(node.bench.path("target.db"))\""
      try node.write(node.pair().replacingOccurrences(of: file, with: "url = \"\(url)\""))
      try node.start()
      #expect(node.wait { (try? server.psql("SELECT count(*) FROM item", database)) == "500" }, "\(node.log)")
      try server.psql(Self.planted, database)
      try findAndMend(node, "copy")
    }

    /// As programs fill a BLOB: a row of zeros, then writes into it that fire no trigger. A capture that runs would
    /// notice them.
    @Test(arguments: [false, postgresProblem == nil])
    func `the audit finds incremental blob writes at the source, and repair mends them`(toPostgres: Bool) throws {
      let node = try DaemonBench()
      let bench = node.bench
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, v BLOB); INSERT INTO item VALUES (1, x'07')"
      )
      let server = try toPostgres ? PostgresServer.shared : nil
      let database = "blob_" + UUID().uuidString.prefix(8).lowercased()
      defer { try? server?.dropDatabase(database) }
      let file = "url = \"sqlite://\(bench.path("target.db"))\""
      let url = try server?.createDatabase(database)
      try node.write(node.pair().replacingOccurrences(of: file, with: url.map { "url = \"\($0)\"" } ?? file))
      func target(_ id: Int) -> String? {
        guard let server else {
          return try? bench.sqlite("target.db", "SELECT lower(hex(v)) FROM item WHERE id = \(id)")
        }
        return try? server.psql("SELECT encode(v, 'hex') FROM item WHERE id = \(id)", database) + "\n"
      }
      try node.start()
      #expect(node.wait { target(1) == "07\n" }, "\(node.log)")
      #expect(node.end() == 0)
      let program = """
        import sqlite3
        db = sqlite3.connect("source.db", isolation_level=None)
        db.execute("INSERT INTO item VALUES (2, zeroblob(5))")
        with db.blobopen("item", "v", 2) as blob: blob.write(b"HELLO")
        with db.blobopen("item", "v", 1) as blob: blob.write(b"\\x08")
        """
      let written = try bench.run(Bench.python, ["-c", program])
      #expect(written.status == 0, "\(written)")
      try node.start()
      #expect(node.wait { target(2) == "0000000000\n" }, "\(node.log)")
      #expect(node.waitForLog("[drift-found] table item differs", seconds: 60), "\(node.log)")
      let mended = try node.cairn("compare", "copy", "--repair")
      #expect(mended.status == 0 && mended.output.contains("2 repaired"), "\(mended)")
      #expect(target(1) == "08\n" && target(2) == "48454c4c4f\n")
      // Later writes find the rows as the source had them.
      _ = try bench.sqlite("source.db", "UPDATE item SET v = x'09' WHERE id = 1; DELETE FROM item WHERE id = 2")
      #expect(node.wait { target(1) == "09\n" && target(2) == (toPostgres ? "\n" : "") }, "\(node.log)")
      #expect(node.worker("apply.copy")?["state"] as? String == "running", "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test func `a daemon audits a two-way apply with the setting`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", Self.schema)
      try node.write(
        node.pair(
          """
          audit = "1MiB/s"
          [capture.copy]
          database = "copy"
          copy = false
          [apply.pos]
          trail = "store-042.copy"
          database = "pos"
          """))
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "500"), "\(node.log)")
      #expect(node.wait(for: "capture.copy", "running"), "\(node.log)")
      #expect(node.end() == 0)
      // A running capture would notice the write, and copy the rows.
      try plant(node.bench, "target.db")
      try node.start()
      try findAndMend(node, "copy")
    }

    @Test func `a two-way command audits with the option`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite("source.db", Self.schema)
      let pair = ["--from", "sqlite:source.db", "--to", "sqlite:target.db", "--state", "state"]
      #expect(try bench.run(Bench.cairn, ["replicate", "--two-way", "--once"] + pair).status == 0)
      try plant(bench, "target.db")
      let cairn = try bench.start(
        "cairn", Bench.cairn, ["replicate", "--two-way", "--audit", "1MiB"] + pair)
      let limit = Date().addingTimeInterval(60)
      while Date() < limit, !bench.text("cairn.err").contains("drift-found") { usleep(100_000) }
      #expect(bench.text("cairn.err").contains("table item differs from the source"), "\(bench.text("cairn.err"))")
      let mended = try bench.run(Bench.cairn, ["compare", "--repair"] + pair)
      #expect(mended.status == 0, "\(mended)")
      let equal = try bench.run(Bench.cairn, ["compare"] + pair)
      #expect(equal.status == 0, "\(equal)")
      #expect(bench.stop(cairn) == 0, "\(bench.text("cairn.err"))")
    }
  }
}
