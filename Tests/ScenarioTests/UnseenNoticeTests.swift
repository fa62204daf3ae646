import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The notices of `cairn check`, `cairn replicate` and the daemon about writes that fire no trigger.
  @Suite struct UnseenNoticeTests {
    private static let unseen = "a write made with triggers switched off may stay unnoticed"
    private static let short = "no audit: writes with triggers switched off may stay unnoticed"

    private func bench() throws -> Bench {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "CREATE TABLE item(id INTEGER PRIMARY KEY, picture BLOB); CREATE TABLE plain(a INTEGER PRIMARY KEY)"
      )
      return bench
    }

    @Test func `check names tables with BLOB columns, and writes that stay unnoticed`() throws {
      let bench = try bench()
      let checked = try bench.run(Bench.cairn, ["check", "--from", "sqlite:source.db"])
      let blobs = "note: incremental blob I/O (sqlite3_blob_write) fires no trigger"
      #expect(checked.status == 0)
      let line = checked.output.split(separator: "\n").first { $0.hasPrefix(blobs) }
      #expect(line?.hasSuffix("(tables with BLOB columns: item)") == true, "\(checked.output)")
      #expect(checked.output.contains("note: " + Self.unseen))
      _ = try bench.sqlite("source.db", "DROP TABLE item")
      #expect(try !bench.run(Bench.cairn, ["check", "--from", "sqlite:source.db"]).output.contains(blobs))
    }

    @Test func `replicate says that writes may stay unnoticed, and takes no audit that would have no end`() throws {
      let bench = try bench()
      #expect(try bench.replicateOnce().errors.contains("cairn: " + Self.unseen))
      let audited = try bench.replicateOnce(["--audit", "1MiB"])
      #expect(audited.status == 64 && audited.errors.contains("'cairn compare'"), "\(audited)")
    }

    @Test(arguments: [true, false]) func `a daemon says it for a source without audit`(isAudited: Bool) throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY)")
      try node.write(node.pair(isAudited ? "" : "audit = \"off\""))
      let checked = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(checked.output.contains(Self.unseen) != isAudited, "\(checked.output)")
      try node.start()
      #expect(node.wait(for: "capture.pos", "running") && node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(node.wait(seconds: isAudited ? 1 : 20) { node.log.contains(Self.unseen) } != isAudited, "\(node.log)")
      let detail = node.worker("capture.pos")?["detail"] as? String
      #expect((detail ?? "").contains(Self.short) != isAudited, "\(detail ?? "-")")
      #expect(node.end() == 0)
    }
  }
}
