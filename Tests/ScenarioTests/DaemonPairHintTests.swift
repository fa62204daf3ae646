import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A loss at one end of a two-way pair of a daemon: the commands in the error's hint keep the other end's newer rows.
  @Suite struct DaemonPairHintTests {
    private static let rows = "SELECT id, v FROM t ORDER BY id"

    /// A daemon between the file `source.db` and another database, which holds what the file has sent before.
    private final class Pair {
      let node: DaemonBench
      let server: PostgresServer?
      private let database: String

      init(_ toPostgres: Bool) throws {
        node = try DaemonBench()
        server = toPostgres ? try PostgresServer.shared : nil
        database = "hint_" + UUID().uuidString.prefix(8).lowercased()
        let url = try server?.createDatabase(database) ?? "sqlite://\(node.bench.path("target.db"))"
        _ = try node.bench.sqlite(
          "source.db", "CREATE TABLE t(id TEXT PRIMARY KEY, v TEXT); INSERT INTO t VALUES ('1', 'first')")
        try node.write(
          """
          [database.a]
          url = "sqlite://\(node.bench.path("source.db"))"
          [database.b]
          url = "\(url)"
          [capture.a]
          database = "a"
          [capture.b]
          database = "b"
          copy = false
          [apply.to-b]
          trail = "store-042.a"
          database = "b"
          [apply.to-a]
          trail = "store-042.b"
          database = "a"
          """)
        try node.start()
        try #require(wait("1|first"), "\(node.log)")
        _ = node.end()
      }

      deinit {
        node.bench.killAll()
        if server != nil { try? server?.dropDatabase(database) }
      }

      func there(_ sql: String) throws -> String {
        try server?.psql(sql, database) ?? node.bench.sqlite("target.db", sql).trimmingCharacters(in: .newlines)
      }

      func here(_ sql: String) throws -> String {
        try node.bench.sqlite("source.db", sql).trimmingCharacters(in: .newlines)
      }

      /// Waits until both databases have these rows.
      func wait(_ rows: String) -> Bool {
        node.wait { (try? here(DaemonPairHintTests.rows)) == rows && (try? there(DaemonPairHintTests.rows)) == rows }
      }

      func hint(of worker: String) -> String {
        (node.worker(worker)?["error"] as? [String: Any])?["hint"] as? String ?? ""
      }

      /// Runs the copy that the hint names first, and then that of the trail.
      func copyAgain(_ hint: String) throws {
        #expect(hint.contains("run 'cairn copy to-a' first"), "\(hint)")
        for apply in ["to-a", "to-b"] {
          // The first copy of the new trail may be under way.
          var copied: Outcome?
          let isCopied = node.wait {
            copied = try? node.cairn("copy", apply, "--wait")
            return copied?.status == 0
          }
          #expect(isCopied, "\(apply): \(copied.map { "\($0)" } ?? "")")
        }
        #expect(wait("1|later\n2|taken\n3|there"), "\(node.log)")
        _ = try here("INSERT INTO t VALUES ('4', 'here')")
        _ = try there("UPDATE t SET v = 'new' WHERE id = '2'")
        #expect(wait("1|later\n2|new\n3|there\n4|here"), "\(node.log)")
        #expect(node.end() == 0)
      }
    }

    @Test(arguments: [false, postgresProblem == nil]) func `a restored source loses no row of the other end`(
      toPostgres: Bool
    ) throws {
      let pair = try Pair(toPostgres)
      let (node, path) = (pair.node, pair.node.bench.path("source.db"))
      try FileManager.default.copyItem(atPath: path, toPath: node.bench.path("backup.db"))
      try node.start()
      _ = try pair.here("INSERT INTO t VALUES ('2', 'taken'); UPDATE t SET v = 'later' WHERE id = '1'")
      #expect(pair.wait("1|later\n2|taken"), "\(node.log)")
      #expect(node.end() == 0)
      _ = try pair.there("INSERT INTO t VALUES ('3', 'there')")
      for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
      try FileManager.default.moveItem(atPath: node.bench.path("backup.db"), toPath: path)
      let checked = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(checked.errors.contains("run 'cairn copy to-a' first"), "\(checked)")
      try node.start()
      try #require(node.wait(for: "capture.a", "failed", code: "source-went-back"), "\(node.log)")
      let hint = pair.hint(of: "capture.a")
      #expect(node.end() == 0)
      #expect(try node.bench.run(Bench.cairn, ["detach", "sqlite:source.db"]).status == 0)
      try FileManager.default.removeItem(atPath: node.bench.path("state/store-042.a"))
      try node.start()
      try #require(node.wait(for: "apply.to-b", "failed", code: "checkpoint-foreign"), "\(node.log)")
      #expect(pair.hint(of: "apply.to-b").contains("if it is the target, run 'cairn copy to-a' first"))
      try pair.copyAgain(hint)
    }

    @Test(arguments: [false, postgresProblem == nil]) func `a lost state folder loses no row of the end that has more`(
      toPostgres: Bool
    ) throws {
      let pair = try Pair(toPostgres)
      let node = pair.node
      _ = try pair.there(
        "INSERT INTO t VALUES ('2', 'taken'), ('3', 'there'); UPDATE t SET v = 'later' WHERE id = '1'")
      try FileManager.default.removeItem(atPath: node.bench.path("state"))
      try node.start()
      try #require(node.wait(for: "apply.to-b", "failed", code: "checkpoint-foreign"), "\(node.log)")
      try pair.copyAgain(pair.hint(of: "apply.to-b"))
    }
  }
}
