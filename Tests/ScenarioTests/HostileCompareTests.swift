import Foundation
import TestServers
import Testing

/// `cairn compare` of files whose writers have prepared their pages.
@Suite(.timeLimit(.minutes(20))) struct HostileCompareTests {
  @Test(arguments: ["source.db", "target.db"], ["id INTEGER PRIMARY KEY, v", "id, v"])
  func `a circle of pages in a compared file ends its comparison`(file: String, columns: String) throws {
    for (levels, value) in [(6, "'tea'"), (2, "zeroblob(500000)")] {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = DELETE; CREATE TABLE item(\(columns)); INSERT INTO item VALUES (5, \(value)); VACUUM")
      let copied = try bench.replicateOnce()
      try #require(copied.status == 0, "\(copied.errors)")
      _ = try bench.sqlite(file, "PRAGMA journal_mode = DELETE; VACUUM")
      let root = try bench.sqlite(file, "SELECT rootpage FROM sqlite_master WHERE name = 'item'")
      try repeatRows(
        onPage: try #require(Int(root.trimmingCharacters(in: .whitespacesAndNewlines))), in: bench.path(file),
        levels: levels)
      let began = Date()
      // The rows of the circle take far more memory than this.
      let compared = try bench.run(
        "/bin/bash",
        [
          "-c", "ulimit -v 2500000; exec \"$0\" compare --from sqlite:source.db --to sqlite:target.db --state state",
          Bench.cairn,
        ], seconds: 120)
      let said = compared.output + compared.errors
      #expect(compared.status > 1, "\(compared.status) \(said.suffix(1000))")
      #expect(said.contains("database-damaged") || said.contains("database-unsafe"), "\(said.suffix(1000))")
      #expect(Date().timeIntervalSince(began) < 60)
      #expect(!said.contains("ut of memory"), "\(said.suffix(1000))")
    }
  }
}
