import Changes
import SQLiteFormat
import TestServers
import Testing

@testable import SQLiteKit

/// The decoder finds the rows that SQLite returns, in files of all formats.
@Suite struct TreeTests {
  @Test(arguments: Seeds.range(reduced: 16))
  func `all rows of a random file are those that SQLite returns`(seed: UInt64) throws {
    let file = try RandomDatabase(.init(seed))
    for step in 0..<3 {
      for _ in 0..<20 { try file.write() }
      if file.kind.autoVacuum == 2, step == 1 { try file.database.execute("PRAGMA incremental_vacuum(5)") }
      if step == 2, seed % 3 == 0 { try file.database.execute("VACUUM") }
      let decoded = try DecodedDatabase(try file.bytes())
      #expect(decoded.layout.pageSize == file.kind.pageSize)
      #expect(decoded.layout.usable == file.kind.pageSize - Int(file.kind.reserved))
      #expect(decoded.header.hasPointerMap == (file.kind.autoVacuum > 0))
      #expect(file.kind.isLegacy == (decoded.header.schemaFormat < 4))
      try file.compare(decoded, at: "step \(step)")
    }
  }

  @Test(arguments: [UInt64(1), 3])
  func `values of 100 kB and more are on overflow pages`(seed: UInt64) throws {
    var kind = RandomDatabase.Kind(seed)
    kind.valueMax = 120_000
    let file = try RandomDatabase(kind)
    for length in [0, 1, 100, 479, 480, 65_500, 100_000, 1_000_000] {
      try file.database.run("INSERT INTO item(image) VALUES (zeroblob(?))", [.integer(Int64(length))])
    }
    for _ in 0..<20 { try file.write() }
    try file.compare(try DecodedDatabase(try file.bytes()), at: "large")
  }

  /// Each length of a payload around the limits of a page: a cell is local, or splits at SQLite's own place.
  @Test(arguments: [512, 1024, 4096])
  func `a payload of each length is found`(pageSize: Int) throws {
    var kind = RandomDatabase.Kind(1)
    (kind.pageSize, kind.reserved, kind.encoding) = (pageSize, 0, "UTF-8")
    let file = try RandomDatabase(kind)
    let step = pageSize / 512
    try file.database.transaction {
      for length in stride(from: 0, to: 3 * pageSize, by: step) {
        try file.database.run(
          "INSERT INTO item(image) VALUES (randomblob(?))", [.integer(Int64(length))])
        try file.database.run(
          "INSERT INTO place VALUES (?, ?, randomblob(?))",
          [.text("t"), .integer(Int64(length)), .integer(Int64(length))])
      }
    }
    try file.compare(try DecodedDatabase(try file.bytes()), at: "lengths")
  }
}
