import Changes
import Foundation
import SystemKit
import TestServers
import Testing

@testable import SQLiteKit

/// Files that a user has prepared who may write to the folder of a database that Cairn opens.
@Suite struct HostileFileTests {
  private let folder = FileManager.default.temporaryDirectory.path + "/cairn-hostile-\(UUID().uuidString)"
  private var path: String { folder + "/pos.db" }
  private var victim: String { folder + "/state/revoked" }

  private func prepared<T>(mode: String = "DELETE", _ body: () throws -> T) throws -> T {
    try FileManager.default.createDirectory(atPath: folder + "/state", withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try Data("0a0b0c\n".utf8).write(to: URL(fileURLWithPath: victim))
    try Database(ofProgram: path).executeScript(
      "PRAGMA journal_mode = \(mode); CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1, 'tea')"
    )
    return try body()
  }

  /// Returns the refusal that reading the database ends with; nil if there is none.
  private func refusal(_ open: () throws -> Database) -> FileRefusal? {
    do {
      _ = try open().query("SELECT * FROM item")
      return nil
    } catch let error as SQLiteError {
      if error.refusal != nil { #expect(error.asCairnError.code == .databaseUnsafe) }
      return error.refusal
    } catch {
      Issue.record("\(error)")
      return nil
    }
  }

  @Test func `SQLite itself deletes the file that a forged journal names, so the forgery is one`() throws {
    try prepared {
      try ForgedJournal.write(for: path, naming: victim)
      _ = try Database(ofProgram: path).query("SELECT * FROM item")
      #expect(!Folder.exists(victim))
    }
  }

  @Test(arguments: ["DELETE", "WAL"], [Database.Mode.readOnly, .readWrite, .create])
  func `a journal that names another file deletes nothing`(mode: String, opening: Database.Mode) throws {
    try prepared(mode: mode) {
      try ForgedJournal.write(for: path, naming: victim)
      // Who may not write does not roll back.
      #expect(refusal { try Database(path: path, mode: opening) } == (opening == .readOnly ? nil : .otherFile(victim)))
      #expect(Folder.exists(victim))
      #expect(Folder.exists(path + "-journal"), "the journal is the program's to roll back")
    }
  }

  @Test func `a journal that is forged while the connection is open deletes nothing`() throws {
    try prepared {
      let database = try Database(path: path)
      _ = try database.query("SELECT * FROM item")
      for name in ["state/revoked", "pos.db", "other.db-journal", "other.db-wal", "pos.db-journal-journal"] {
        let named = folder + "/" + name
        if !Folder.exists(named) { try Data("x".utf8).write(to: URL(fileURLWithPath: named)) }
        try ForgedJournal.write(for: path, naming: named)
        if name == "pos.db" {
          // Its own name: SQLite reads it as a list of journals, and there is none.
          _ = refusal { database }
        } else {
          #expect(refusal { database } == .otherFile(named))
        }
        #expect(Folder.exists(named), "\(name)")
      }
      try FileManager.default.removeItem(atPath: path + "-journal")
      #expect(try database.integer("SELECT count(*) FROM item") == 1)
    }
  }

  @Test func `a journal of a program that crashed is rolled back as ever`() throws {
    try prepared {
      let script = """
        import os, sqlite3, sys
        c = sqlite3.connect(sys.argv[1], isolation_level=None)
        c.execute('PRAGMA cache_size = 1')
        c.execute('BEGIN')
        c.executemany('INSERT INTO item VALUES (?, ?)', ((n, 'x' * 3000) for n in range(2, 200)))
        os._exit(0)
        """
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
      process.arguments = ["-c", script, path]
      try process.run()
      process.waitUntilExit()
      try #require(Folder.exists(path + "-journal"))
      #expect(try Database(path: path).integer("SELECT count(*) FROM item") == 1)
      #expect(!Folder.exists(path + "-journal"))
    }
  }

  @Test func `a link in the place of the file is refused, links among its folders are not`() throws {
    try prepared {
      let files = FileManager.default
      try files.createSymbolicLink(atPath: folder + "/link.db", withDestinationPath: path)
      #expect(refusal { try Database(path: folder + "/link.db") } != nil)
      try files.createSymbolicLink(atPath: folder + "/none.db", withDestinationPath: folder + "/made.db")
      #expect(refusal { try Database(path: folder + "/none.db", mode: .create) } != nil)
      #expect(!Folder.exists(folder + "/made.db"))
      try files.createDirectory(atPath: folder + "/far", withIntermediateDirectories: true)
      try files.createSymbolicLink(atPath: folder + "/near", withDestinationPath: folder + "/far")
      try Database(path: folder + "/near/new.db", mode: .create).execute("CREATE TABLE t(a)")
      #expect(Folder.exists(folder + "/far/new.db"))
    }
  }

  @Test(.timeLimit(.minutes(20)), arguments: ["", "-wal", "-journal", "-shm"], ["fifo", "link", "hard", "folder"])
  func `something else in the place of the file or a companion is refused at once`(suffix: String, what: String) throws
  {
    // A folder and a hard link in the place of the database are what they were: SQLite's business.
    if suffix.isEmpty, ["hard", "folder"].contains(what) { return }
    try prepared(mode: suffix == "-journal" ? "DELETE" : "WAL") {
      let (place, files) = (path + suffix, FileManager.default)
      try? files.removeItem(atPath: place)
      switch what {
      case "fifo": #expect(mkfifo(place, 0o666) == 0)
      case "link": try files.createSymbolicLink(atPath: place, withDestinationPath: victim)
      case "hard": try files.linkItem(atPath: victim, toPath: place)
      default: try files.createDirectory(atPath: place, withIntermediateDirectories: false)
      }
      for mode in [Database.Mode.readOnly, .readWrite] {
        #expect(refusal { try Database(path: path, mode: mode) } != nil, "\(mode)")
      }
      #expect(try String(contentsOfFile: victim, encoding: .utf8) == "0a0b0c\n")
    }
  }

  @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
  func `a companion of a user who may not write the database is refused`() throws {
    try prepared {
      let stranger: uid_t = 54_321
      chmod(path, 0o640)
      try ForgedJournal.write(for: path, naming: "")
      chown(path + "-journal", stranger, stranger)
      #expect(refusal { try Database(path: path) } == .owner(FileIdentity.canonical(path) + "-journal"))
      // Programs of one group that share the database are owners of its companions in turn.
      chown(path, 0, stranger)
      chmod(path, 0o660)
      #expect(refusal { try Database(path: path) } == nil)
    }
  }

  @Test func `no statement reaches another file`() throws {
    try prepared {
      let other = folder + "/other.db"
      try Database(ofProgram: other).executeScript("CREATE TABLE secret(a)")
      let database = try Database(path: path)
      #expect(throws: SQLiteError.self) { try database.execute("ATTACH \(other.quotedText) AS o") }
      #expect(throws: SQLiteError.self) { try database.execute("VACUUM INTO \((folder + "/copy.db").quotedText)") }
      #expect(!Folder.exists(folder + "/copy.db"))
      #expect(throws: SQLiteError.self) { try database.execute("SELECT load_extension('x')") }
      try? database.execute("PRAGMA writable_schema = ON")
      #expect(throws: SQLiteError.self) { try database.execute("UPDATE sqlite_master SET sql = 'x'") }
      // It may be put in order, as ever.
      try database.execute("VACUUM")
    }
  }

  @Test func `the settings for hostile files are on, and those of a program's own connection are SQLite's`() throws {
    try prepared {
      let (ours, theirs) = (try Database(path: path), try Database(ofProgram: path))
      // SQLite 3.38 to 3.40 take their JSON functions for unsafe in a schema that is not trusted.
      let trusted = Database.misjudgesJSON ? 1 : 0
      for (pragma, ourValue, theirValue) in [
        ("trusted_schema", trusted, 1), ("cell_size_check", 1, 0), ("mmap_size", 0, 0),
      ] {
        #expect(try ours.integer("PRAGMA \(pragma)") == Int64(ourValue), "\(pragma)")
        #expect(try theirs.integer("PRAGMA \(pragma)") == Int64(theirValue), "\(pragma)")
      }
      // A connection that reads the tables of a hostile file trusts none of them; the guard denies to ask.
      ours.forbidForeignCode()
      #expect(ours.trustsSchema == false)
    }
  }

  @Test func `a column that was dropped is no text of its name`() throws {
    try prepared {
      let program = try Database(ofProgram: path)
      try program.executeScript("CREATE TABLE dropped(a, b); INSERT INTO dropped VALUES (1, 2)")
      for mode in [Database.Mode.readOnly, .readWrite] {
        let ours = try Database(path: path, mode: mode)
        let before = try ours.prepare("SELECT \"a\", \"b\" FROM \"dropped\" WHERE \"b\" IS NOT NULL")
        #expect(try before.step() && before.integer(1) == 2)
        before.reset()
        try program.execute("ALTER TABLE dropped DROP COLUMN b")
        #expect(throws: SQLiteError.self) { try before.step() }
        #expect(throws: SQLiteError.self) { try ours.query("SELECT \"b\" FROM dropped") }
        try program.execute("ALTER TABLE dropped ADD COLUMN b DEFAULT 2")
      }
    }
  }

  @Test func `views and triggers with texts in double quotes are in the way of no change`() throws {
    try prepared {
      let program = try Database(ofProgram: path)
      try program.executeScript(
        """
        CREATE TABLE t(a, b); CREATE VIEW v AS SELECT a, "text" FROM t WHERE a <> "none";
        CREATE TRIGGER g AFTER UPDATE ON t WHEN NEW.a = "text" BEGIN DELETE FROM t WHERE a = "none"; END
        """)
      let database = try Database(path: path)
      try database.define("ALTER TABLE t RENAME COLUMN a TO z", tables: ["t"])
      try database.define("ALTER TABLE t RENAME TO fresh", tables: ["t", "fresh"])
      try database.define("ALTER TABLE fresh DROP COLUMN b", tables: ["fresh"])
      #expect(throws: SQLiteError.self) { try database.query("SELECT \"b\" FROM fresh") }
      // A session that writes as a program does fires its trigger.
      database.trustSchema()
      try database.execute("UPDATE fresh SET z = 1")
      #expect(try program.query("SELECT * FROM v") == [])
    }
  }

  @Test func `all functions but those of Cairn's own statements are denied, also where the library lists none`() throws
  {
    try prepared {
      let database = try Database(path: path)
      let all = try Database(ofProgram: path).query("SELECT DISTINCT name FROM pragma_function_list").map(\.[0].string)
      try #require(all.count > 80)
      database.forbidForeignCode()
      var denied = 0
      for name in Set(all + ForbiddenCode.denied) where !ForbiddenCode.functions.contains(name.asciiLowercased.nameKey)
      {
        for arguments in ["", "1", "1, 2", "1, 2, 3"] {
          do { _ = try database.query("SELECT \(name.quotedName)(\(arguments))") } catch let error as SQLiteError {
            if case .foreignCode? = error.refusal { denied += 1 }
            continue
          }
          Issue.record("\(name)(\(arguments)) was run")
        }
      }
      #expect(denied > 300)
      for name in ForbiddenCode.functions { #expect(!ForbiddenCode.denied.contains(name.text)) }
      _ = try database.query("SELECT coalesce(max(id), 0), count(*), lower(name) FROM item WHERE name LIKE 'v%'")
      #expect(throws: SQLiteError.self) {
        try database.query("SELECT name LIKE '\(String(repeating: "%a", count: 20))' FROM item")
      }
    }
  }

  @Test func `a view that never ends is not read in the place of a table`() throws {
    try prepared {
      let database = try Database(path: path)
      database.forbidForeignCode()
      let count = try database.prepare("SELECT count(*) FROM item")
      #expect(try count.step())
      count.reset()
      try Database(ofProgram: path).executeScript(
        "DROP TABLE item; CREATE VIEW item(id) AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n"
      )
      do {
        _ = try count.step()
        Issue.record("the view was read")
      } catch let error as SQLiteError {
        #expect(error.refusal == .foreignCode("item"))
      }
      for statement in ["ATTACH ':memory:' AS m", "PRAGMA writable_schema = ON", "CREATE VIEW v AS SELECT 1"] {
        #expect(throws: SQLiteError.self) { try database.execute(statement) }
      }
    }
  }

  @Test(.timeLimit(.minutes(20))) func `views that call for hours to be prepared cost nothing`() throws {
    try prepared {
      let program = try Database(ofProgram: path)
      try program.execute("CREATE VIEW v0 AS SELECT id FROM item")
      for n in 1...100 { try program.execute("CREATE VIEW v\(n) AS SELECT id FROM v\(n - 1)") }
      let terms = [String](repeating: "v100", count: 60).joined(separator: ",")
      try program.execute(
        "CREATE VIEW top AS "
          + [String](repeating: "SELECT 1 FROM \(terms)", count: 100).joined(separator: " UNION ALL "))
      #expect(try Database(path: path).userTables().map(\.name) == ["item"])
    }
  }

  @Test func `tables are what SQLite's own list says they are`() throws {
    try prepared {
      let program = try Database(ofProgram: path)
      for text in [
        "CREATE TABLE plain(a)", "CREATE TABLE \"with)(\"(a /* ) WITHOUT ROWID */ PRIMARY KEY) WITHOUT ROWID -- STRICT",
        "CREATE TABLE 's t'(a TEXT DEFAULT ') STRICT') strict",
        "CREATE TABLE both(a INT PRIMARY KEY) STRICT, WITHOUT rowid",
        "CREATE TABLE copied AS SELECT * FROM plain", "CREATE VIRTUAL TABLE words USING fts5(a)",
        "CREATE VIRTUAL TABLE \"Old Words\" USING \"FTS4\"(a)", "CREATE VIRTUAL TABLE box USING rtree(id, x, y)",
        "CREATE TABLE words_more(a)", "CREATE TABLE plain_content(a)", "CREATE TEMP TABLE gone(a)",
        "CREATE VIEW look AS SELECT * FROM plain", "CREATE TABLE \"CREATE\"(a)", "CREATE TABLE strict(strict)",
      ] { try program.execute(text) }
      let expected = try program.query(
        """
        SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
        AND name NOT LIKE 'sqlite%' ORDER BY name
        """)
      let found = try Database(path: path).userTables().sorted { $0.name < $1.name }
      #expect(found.map { Value.text(Array($0.name.utf8)) } == expected.map { $0[0] })
      for (table, row) in zip(found, expected) {
        #expect((table.refusal != nil) == (row[1] == .text(Array("virtual".utf8))), "\(table.name)")
        #expect(table.schema.flags.contains(.withoutRowid) == (row[2] == .integer(1)), "\(table.name)")
        #expect(table.schema.flags.contains(.strict) == (row[3] == .integer(1)), "\(table.name)")
      }
    }
  }
}
