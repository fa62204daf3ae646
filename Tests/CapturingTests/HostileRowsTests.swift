import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

/// Rows that the writer of a captured file has prepared: rows without end, of any size, and Cairn's own rows exchanged.
@Suite(.timeLimit(.minutes(20))) struct HostileRowsTests {
  private func started(_ folder: TempFolder, _ more: String = "") throws -> Replica {
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA journal_mode = DELETE; CREATE TABLE item(id INTEGER PRIMARY KEY, name);"
        + "INSERT INTO item VALUES (1, 'tea'); \(more)")
    try replica.takeAndReplay()
    return replica
  }

  private func repeatRows(of table: String, in path: String, levels: Int) throws {
    let root = try Database(path: path, mode: .readOnly)
      .integer("SELECT rootpage FROM sqlite_master WHERE name = ?", [.text(Array(table.utf8))])
    try TestServers.repeatRows(onPage: Int(root ?? 0), in: path, levels: levels)
  }

  @Test func `a circle of pages in a captured table ends its copy`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    try execute(
      replica.source, "DELETE FROM item; INSERT INTO item VALUES (5, zeroblob(500000)); VACUUM")
    try replica.take()
    replica.close()
    try repeatRows(of: "item", in: replica.source, levels: 2)
    do {
      let database = try Database(path: replica.source, mode: .readWrite)
      try Journal(database).askForCopy(of: "item")
    }
    #expect(code { try replica.take() } == .databaseDamaged)
    let size = try FileManager.default.contentsOfDirectory(atPath: replica.trail).reduce(0) {
      $0 + (try FileManager.default.attributesOfItem(atPath: replica.trail + "/" + $1)[.size] as? Int ?? 0)
    }
    #expect(size < 100 << 20)
  }

  @Test func `a circle of pages in a table of Cairn's does not fill the memory`() throws {
    let folder = try TempFolder()
    let path = folder("rows.db")
    try execute(
      path,
      "PRAGMA journal_mode = DELETE; CREATE TABLE cairn_unhooked(name); INSERT INTO cairn_unhooked VALUES (zeroblob(500000))"
    )
    try repeatRows(of: "cairn_unhooked", in: path, levels: 3)
    let database = try Database(path: path, mode: .readOnly)
    #expect(code { _ = try database.query("SELECT name FROM cairn_unhooked") } == .databaseUnsafe)
    // One row, of whatever size, is no such answer; nor are many that fit.
    database.answerBytesMax = 1000
    #expect(try database.query("SELECT name FROM cairn_unhooked LIMIT 1").count == 1)
    #expect(try database.first("SELECT length(name) FROM cairn_unhooked") == .integer(500_000))
    #expect(try database.query("VALUES (1), (2), (3)").count == 3)
    #expect(code { _ = try database.query("SELECT name FROM cairn_unhooked LIMIT 2") } == .databaseUnsafe)
  }

  @Test func `a layout that gets other columns between the two halves of an update is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, "CREATE TABLE wide(id INTEGER PRIMARY KEY, b, c, d, e)")
    let schema = { (table: String) in "(SELECT schema FROM cairn_layout WHERE instr(schema, CAST('\(table)' AS BLOB)))"
    }
    try execute(
      replica.source,
      "INSERT INTO cairn_layout VALUES (50, NULL, 1, \(Int64(1) << 60), NULL, NULL, \(schema("item")));"
        + "INSERT INTO cairn_journal(code) VALUES (0)")
    try replica.take()
    try execute(
      replica.source,
      """
      BEGIN; UPDATE cairn_layout SET schema = \(schema("wide")) WHERE id = 50;
      INSERT INTO cairn_journal(code, v0, v1) VALUES (402, 1, 2); INSERT INTO cairn_journal(code) VALUES (0);
      INSERT INTO cairn_journal(code, v0, v1, v2, v3, v4) VALUES (403, 1, 2, 3, 4, 5); COMMIT
      """)
    #expect(code { try replica.take() } == .databaseDamaged)
  }

  @Test func `layouts that follow each other in a circle are refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let schema = "(SELECT schema FROM cairn_layout WHERE id = 1)"
    try execute(
      replica.source,
      """
      BEGIN; INSERT INTO cairn_layout VALUES (5, 6, 1, 1, NULL, NULL, \(schema)), (6, 5, 1, 1, NULL, NULL, \(schema));
      INSERT INTO cairn_journal(code) VALUES (0); INSERT INTO cairn_journal(code, v0) VALUES (47, 1); COMMIT
      """)
    #expect(code { try replica.take() } == .databaseDamaged)
  }

  @Test func `a transaction that is larger than the trail may become is cut off`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    replica.trailOptions.transactionBytesMax = 1 << 20
    try execute(
      replica.source,
      "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
        + " INSERT INTO item SELECT i, randomblob(1000) FROM n")
    let before = try Trail.lastSourcePosition(folder: replica.trail)
    #expect(code { try replica.take() } == .diskBudget)
    #expect(try Trail.lastSourcePosition(folder: replica.trail) == before)
    replica.trailOptions.transactionBytesMax = 100 << 20
    try replica.takeAndReplay()
    #expect(try Database(path: replica.target, mode: .readOnly).integer("SELECT count(*) FROM item") == 3000)
  }

  /// The images that are kept equal those of a plain model, within the bounds.
  @Test(arguments: Seeds.range(reduced: 20)) func `the last images are kept by count and bytes`(seed: UInt64) {
    var random = Seeded(seed)
    var images = RecentImages<Int>(countMax: 8, bytesMax: 400)
    var model: [(key: Int, image: [UInt8])] = []
    for _ in 0..<2000 {
      let key = random.below(20)
      switch random.below(4) {
      case 0:
        let taken = images.take(key)
        let expected = model.first { $0.key == key }?.image
        model.removeAll { $0.key == key }
        #expect(taken == expected, "seed \(seed)")
      case 1 where random.below(50) == 0:
        images.removeAll()
        model = []
      default:
        let image = [UInt8](repeating: UInt8(random.below(256)), count: random.below(10) == 0 ? 900 : random.below(60))
        image.withUnsafeBytes { images.note(key, $0) }
        model.removeAll { $0.key == key }
        model.append((key, image))
      }
      for (index, one) in model.enumerated() {
        let found = images.image(one.key)
        #expect(found == nil || found == one.image, "seed \(seed)")
        if index >= model.count - 2 { #expect(found != nil, "seed \(seed)") }
      }
      let kept = model.filter { images.image($0.key) != nil }
      model = kept
      #expect(kept.count <= 8 && images.bytes == kept.reduce(0) { $0 + $1.image.count }, "seed \(seed)")
      #expect(images.bytes <= 400 || kept.count <= 2, "seed \(seed)")
    }
  }
}
