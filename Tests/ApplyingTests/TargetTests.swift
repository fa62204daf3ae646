import Applying
import Changes
import Glibc
import Mapping
import SQLiteKit
import TestServers
import Testing

/// Targets that were there before, with a life of their own.
@Suite struct TargetTests {
  @Test func `triggers and foreign keys of the target do not fire`() throws {
    let made = try Handmade(TempFolder())
    try made.run(
      """
      PRAGMA foreign_keys = 1; CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE log(what);
      CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
      CREATE TRIGGER a AFTER INSERT ON p BEGIN INSERT INTO log VALUES ('insert'); END;
      CREATE TRIGGER b BEFORE DELETE ON p BEGIN SELECT RAISE(ABORT, 'never'); END;
      CREATE TRIGGER u AFTER UPDATE ON c BEGIN DELETE FROM p; END;
      """)
    try made.shape("CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p)")
    try made.transaction {
      for id in 1...3 as ClosedRange<Int64> { try made.insert("p", [.integer(id)]) }
      for id in 1...3 as ClosedRange<Int64> { try made.insert("c", [.integer(id), .integer(id)]) }
      try made.insert("c", [4, 99])
      try made.delete("p", [1])
      try made.update("p", [2], [20])
      try made.update("c", [3, 3], [nil, 2])
    }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM log") == [[0]])
    #expect(try made.rows("SELECT id FROM p ORDER BY id") == [[3], [20]])
    #expect(try made.rows("SELECT id, p FROM c ORDER BY id") == [[1, 1], [2, 2], [3, 2], [4, 99]])
  }

  private static let indexed = """
    CREATE TABLE doc(id INTEGER PRIMARY KEY, body UNIQUE); CREATE TABLE log(what);
    CREATE VIRTUAL TABLE doc_fts USING fts5(body, content='doc', content_rowid='id');
    CREATE TRIGGER doc_ai AFTER INSERT ON doc BEGIN INSERT INTO doc_fts(rowid, body) VALUES (new.id, new.body); END;
    CREATE TRIGGER doc_ad AFTER DELETE ON "doc" BEGIN INSERT INTO doc_fts(doc_fts, rowid, body) VALUES ('delete', old.id, old.body); END;
    CREATE TRIGGER doc_au AFTER UPDATE OF body ON main.doc BEGIN INSERT INTO doc_fts(doc_fts, rowid, body) VALUES ('delete', old.id, old.body);
      INSERT INTO doc_fts(rowid, body) VALUES (new.id, new.body); END;
    CREATE TRIGGER quiet AFTER INSERT ON doc BEGIN INSERT INTO log VALUES (new.id); END;
    """

  @Test func `triggers that keep an index for full-text search fire where the conf names them`() throws {
    let made = try Handmade(TempFolder())
    try made.run(Self.indexed)
    made.options.fireTriggers = ["doc_a*"]
    made.options.ddl = .follow
    try made.shape("CREATE TABLE doc(id INTEGER PRIMARY KEY, body UNIQUE)")
    try made.transaction {
      for id in 1...3 as ClosedRange<Int64> { try made.insert("doc", [.integer(id), .text(Array("alpha\(id)".utf8))]) }
    }
    try made.replay()
    try made.transaction {
      try made.update("doc", [1, .text(Array("alpha1".utf8))], [nil, .text(Array("beta".utf8))])
      try made.delete("doc", [2, .text(Array("alpha2".utf8))])
      try made.reshape("doc", "CREATE TABLE doc(id INTEGER PRIMARY KEY, body UNIQUE, more)")
      try made.insert("doc", [4, .text(Array("gamma".utf8)), .null])
    }
    try made.replay()
    // A copy brings the rows once more.
    try made.transaction {
      try made.copy("doc", [[1, .text(Array("beta".utf8)), .null], [5, .text(Array("delta".utf8)), .null]])
    }
    try made.replay()
    let found = "SELECT group_concat(rowid) FROM doc_fts WHERE doc_fts MATCH "
    #expect(try made.rows(found + "'beta OR delta'") == [[.text(Array("1,5".utf8))]])
    #expect(try made.rows(found + "'alpha1 OR alpha2 OR alpha3 OR gamma'") == [[.null]])
    #expect(try made.rows("SELECT count(*) FROM log") == [[0]])
    // The next write of the program would fail with a stale index: "database disk image is malformed".
    let program = try Database(ofProgram: made.target)
    try program.executeScript(
      "UPDATE doc SET body = 'epsilon' WHERE id = 5; INSERT INTO doc_fts(doc_fts) VALUES ('integrity-check')")
  }

  @Test func `apply and check report an index that goes stale`() throws {
    let made = try Handmade(TempFolder())
    try made.run(Self.indexed)
    try made.shape("CREATE TABLE doc(id INTEGER PRIMARY KEY, body UNIQUE)")
    try made.transaction { try made.insert("doc", [1, .text(Array("alpha".utf8))]) }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    let notices = progress.snapshot.notices
    #expect(
      notices.filter { $0.contains("doc_fts goes stale") && $0.contains("fire_triggers") }.count == 3, "\(notices)")
    let target = try Database(path: made.target)
    let all = try QuietTrigger.all(in: target, tables: ["DOC"], firing: ["*_ai"])
    #expect(all.map(\.trigger) == ["doc_ad", "doc_au", "quiet"] && all.last?.stale == ["log"])
    #expect(try QuietTrigger.all(in: target, tables: ["doc", "log"], firing: ["doc_*"]).isEmpty)
  }

  @Test func `nothing is committed to a target file that has lost its name`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    let apply = try made.open()
    #expect(rename(made.target, made.target + ".away") == 0)
    try made.transaction { try made.insert("t", [2]) }
    let error = try #require(failure { try apply.drain() })
    #expect(error.code == .databaseMissing && error.remedy == .retry, "\(error.message)")
    #expect(rename(made.target + ".away", made.target) == 0)
    try made.replay()
    #expect(try made.rows("SELECT id FROM t") == [[1], [2]])
  }

  @Test func `a target that knows nothing of a trail without its beginning is refused`() throws {
    let folder = try TempFolder()
    let made = try Handmade(folder, segmentBytes: 1)
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    for id in 2...4 as ClosedRange<Int64> { try made.transaction { try made.insert("t", [.integer(id)]) } }
    made.options.purgesTrail = true
    try made.replay()
    let apply = try SQLiteApply(
      path: made.target, trail: made.trail, name: made.name, options: made.options, progress: .init())
    try apply.drain()
    let error = try #require(
      failure {
        _ = try SQLiteApply(
          path: folder("other.db"), trail: made.trail, name: made.name, options: made.options, progress: .init())
      })
    #expect(error.code == .checkpointForeign && error.message.contains("purged"), "\(error.message)")
  }

  @Test func `the knowledge of an older version about tables is kept`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "t", [[1, "a"]])
    try made.run(
      """
      ALTER TABLE cairn_table RENAME TO newer;
      CREATE TABLE cairn_table(name TEXT PRIMARY KEY COLLATE NOCASE, created INTEGER, refreshing INTEGER,
        existing TEXT) WITHOUT ROWID;
      INSERT INTO cairn_table SELECT name, created, refreshing, existing FROM newer;
      DROP TABLE newer;
      """)
    try made.transaction { try made.insert("t", [2, "b"]) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[1, "a"], [2, "b"]])
    #expect(try made.rows("SELECT trail, name, created FROM cairn_table") == [["far.shop", "t", 1]])
  }

  @Test func `the target may order columns in another way, and have more of them`() throws {
    let made = try Handmade(TempFolder())
    try made.run("CREATE TABLE T(extra DEFAULT 'own', B TEXT, \"Id\" INTEGER PRIMARY KEY, more DEFAULT (1 + 1))")
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)", "t", [[1, "x"], [2, "y"]])
    try made.transaction {
      try made.update("t", [1, "x"], [nil, "z"])
      try made.insert("t", [3, "w"])
      try made.delete("t", [2, "y"])
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [["own", "z", 1, 2], ["own", "w", 3, 2]])
  }

  @Test(arguments: [
    ("CREATE TABLE t(id INTEGER PRIMARY KEY)", "no column b"),
    ("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT NOT NULL)", "column b is NOT NULL"),
    ("CREATE VIRTUAL TABLE t USING fts5(id, b)", "not an ordinary table"),
  ])
  func `a target table that cannot hold the rows is refused before the first of them`(sql: String, word: String) throws
  {
    let made = try Handmade(TempFolder())
    try made.run(sql)
    let error = try #require(
      failure { try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)", "t", [[1, "x"]]) })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains(word) && error.message.contains("table t"), "\(error.message)")
    #expect(error.hint.contains("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)"), "\(error.hint)")
  }

  @Test func `a target in UTF-16 refuses text that it cannot keep, by table, row and column`() throws {
    let made = try Handmade(TempFolder())
    try made.run("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)")
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)", "t", [[1, "Łódź 🚢"]])
    #expect(try made.rows("SELECT b FROM t") == [["Łódź 🚢"]])
    try made.transaction { try made.insert("t", [2, .text([0xc3, 0x28])]) }
    let error = try #require(failure { try made.replay() })
    for word in ["table t", "id=2", "column b", "UTF-8"] { #expect(error.message.contains(word), "\(error.message)") }
  }

  // MARK: Rows that were there: --existing

  private static let own: [[Value]] = [[1, "mine"], [9, "extra"]]

  private func existing(_ existing: ExistingRows, _ keyed: Bool = true) throws -> Handmade {
    let made = try Handmade(TempFolder())
    made.options.existing = existing
    let key = keyed ? " PRIMARY KEY" : ""
    try made.run(
      "CREATE TABLE t(id INTEGER\(key), v, own DEFAULT 'o'); INSERT INTO t(id,v) VALUES (1,'mine'),(9,'extra')")
    try made.begin("CREATE TABLE t(id INTEGER\(key), v)", "t", [[1, "one"], [2, "two"]], keyed ? .byKey : .whole)
    return made
  }

  @Test(arguments: [
    (ExistingRows.keep, [[1, "mine"], [2, "two"], [9, "extra"]] as [[Value]]),
    (.merge, [[1, "one"], [2, "two"], [9, "extra"]]),
    (.overwrite, [[1, "one"], [2, "two"]]),
  ])
  func `each answer about other rows does what it says`(existing: ExistingRows, expected: [[Value]]) throws {
    let made = try self.existing(existing)
    #expect(try made.rows("SELECT id, v FROM t ORDER BY id") == expected)
  }

  @Test func `keep goes on to keep rows of the target's own, and takes others`() throws {
    let made = try existing(.keep)
    try made.run("INSERT INTO t(id,v) VALUES (5,'own five')")
    try made.transaction {
      try made.insert("t", [5, "five"])
      try made.insert("t", [6, "six"])
      try made.update("t", [2, "two"], [nil, "zwei"])
      try made.delete("t", [77, "never there"])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, v FROM t ORDER BY id") == [
        [1, "mine"], [2, "zwei"], [5, "own five"], [6, "six"], [9, "extra"],
      ])
  }

  @Test func `merge lets the source win, and leaves columns that only the target has`() throws {
    let made = try existing(.merge)
    try made.run("UPDATE t SET own = 'kept'; INSERT INTO t(id,v,own) VALUES (5,'own five','kept')")
    try made.transaction {
      try made.insert("t", [5, "five"])
      try made.update("t", [1, "one"], [nil, "eins"])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, v, own FROM t WHERE id IN (1, 5) ORDER BY id") == [
        [1, "eins", "kept"], [5, "five", "kept"],
      ])
  }

  @Test(arguments: [
    (true, [[1, "uno"], [2, "two"], [9, "extra"]] as [[Value]]), (false, [[1, "uno"], [2, "two"]]),
  ])
  func `a copy that is asked for later merges where that holds, and overwrites otherwise`(
    holds: Bool, expected: [[Value]]
  ) throws {
    let made = try existing(.merge)
    made.options.existingHolds = holds
    try made.transaction {
      try made.refresh("t", .start(.asked, .byKey, estimatedRows: 2))
      try made.refresh("t", .chunk(.keys(after: nil, through: nil)))
      try made.row("t", [1, "uno"])
      try made.row("t", [2, "two"])
      try made.refresh("t", .end(rows: 2))
    }
    try made.replay()
    #expect(try made.rows("SELECT id, v FROM t ORDER BY id") == expected)
  }

  @Test(arguments: [ExistingRows.keep, .merge])
  func `rows without key cannot be kept or merged, which is said`(existing: ExistingRows) throws {
    let error = try #require(failure { _ = try self.existing(existing, false) })
    #expect(error.code == .targetDiffers && error.message.contains("table t"))
  }

  @Test func `rows without key are overwritten`() throws {
    #expect(try existing(.overwrite, false).rows("SELECT id, v FROM t ORDER BY id") == [[1, "one"], [2, "two"]])
  }

  @Test func `between the start and the end of a refresh changes are taken leniently, and strictly afterwards`() throws
  {
    let made = try Handmade(TempFolder())
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE)")
    try made.transaction {
      try made.create("t")
      try made.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 3))
      try made.refresh("t", .chunk(.keys(after: nil, through: [1, nil])))
      try made.row("t", [1, "one"])
    }
    try made.transaction {
      try made.update("t", [5, "five"], [nil, "FIVE"])
      try made.delete("t", [6, "six"])
      try made.insert("t", [5, "again"])
      try made.update("t", [1, "other"], [nil, "uno"])
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[1, "uno"], [5, "again"]])
    try made.transaction {
      try made.refresh("t", .chunk(.keys(after: [1, nil], through: nil)))
      try made.row("t", [5, "fifth"])
      try made.refresh("t", .end(rows: 2))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[1, "uno"], [5, "fifth"]])
    try made.transaction { try made.delete("t", [6, "six"]) }
    #expect(failure { try made.replay() }?.code == .rowMissing)
  }
}
