import CSQLite
import Changes
import Foundation
import TestServers
import Testing

@testable import SQLiteKit

/// Schemas of a file that take much memory, made by a program that writes to the file.
@Suite(.serialized) struct LargeSchemaTests {
  private let folder = FileManager.default.temporaryDirectory.path + "/cairn-schema-\(UUID().uuidString)"
  private var path: String { folder + "/pos.db" }

  private func prepared<T>(_ body: (Database) throws -> T) throws -> T {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let program = try Database(ofProgram: path)
    try program.executeScript("CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    return try body(program)
  }

  /// Writes rows of sqlite_master, without a look at what they define. `number` is the number of a row.
  private func forge(_ program: Database, _ count: Int, type: String = "table", _ text: String) throws {
    let root = type == "table" ? "(SELECT rootpage FROM sqlite_master WHERE name = 'item')" : "1000 + number"
    try program.executeScript(
      """
      PRAGMA writable_schema = ON;
      WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < \(count))
        INSERT INTO sqlite_master SELECT '\(type)', 't' || number, \(type == "table" ? "'t' || number" : "'item'"), \(root),
          \(text) FROM n;
      """)
    let version = try program.integer("PRAGMA schema_version") ?? 0
    try program.executeScript("PRAGMA schema_version = \(version + 1)")
  }

  private static func list(_ bytes: Int) -> String {
    "'CREATE TABLE t' || number || '(a CHECK (a NOT IN (' || replace(hex(zeroblob(\(bytes / 2))), '00', '7,') || '7)))'"
  }

  private func reason(_ body: () throws -> Void) throws -> String? {
    do { try body() } catch let error as SQLiteError {
      #expect(error.asCairnError.code == .databaseUnsafe, "\(error)")
      guard case .schema(let reason)? = error.refusal else { return nil }
      return reason
    } catch let error as CairnError {
      #expect(error.code == .databaseUnsafe, "\(error)")
      return error.message
    }
    return nil
  }

  @Test func `definitions that take much memory end the reading of a file`() throws {
    try prepared { program in
      let open = try Database(path: path)
      #expect(try open.integer("SELECT count(*) FROM item") == 1)
      try forge(program, 10, Self.list(900_000))
      for isOpen in [false, true] {
        sqlite3_memory_highwater(1)
        let found = try reason { try (isOpen ? open : Database(path: path)).execute("SELECT * FROM item") }
        #expect(found == "its definitions take more than 128 MiB of memory", "\(isOpen)")
        #expect(sqlite3_memory_highwater(0) < 300 << 20, "\(isOpen)")
        #expect(open.schemaBytes < 1 << 20)
      }
      try program.executeScript("DELETE FROM sqlite_master WHERE name LIKE 't%'; PRAGMA schema_version = 99")
      #expect(try open.integer("SELECT count(*) FROM item") == 1, "the file is read again")
    }
  }

  @Test func `many definitions of medium size end the reading of a file`() throws {
    try prepared { program in
      try forge(program, 200, Self.list(30_000))
      sqlite3_memory_highwater(1)
      let found = try reason { try Database(path: path).execute("SELECT * FROM item") }
      #expect(found == "its definitions take more than 128 MiB of memory")
      #expect(sqlite3_memory_highwater(0) < 300 << 20)
    }
  }

  @Test func `a definition of more than 1 MiB is not parsed`() throws {
    try prepared { program in
      try forge(program, 1, Self.list(4_000_000))
      sqlite3_memory_highwater(1)
      let found = try reason { try Database(path: path).execute("SELECT * FROM item") }
      #expect(found == "a definition has more than 1 MiB")
      #expect(sqlite3_memory_highwater(0) < 100 << 20)
    }
  }

  @Test func `definitions that are long comments end the reading of a file`() throws {
    try prepared { program in
      let open = try Database(path: path)
      #expect(try open.integer("SELECT count(*) FROM item") == 1)
      try forge(program, 60, "'CREATE TABLE t' || number || '(a /*' || hex(zeroblob(400000)) || '*/)'")
      for isOpen in [false, true] {
        let found = try reason { try (isOpen ? open : Database(path: path)).execute("SELECT * FROM item") }
        #expect(found == "its definitions have more than 32 MiB", "\(isOpen)")
      }
      try program.executeScript("DELETE FROM sqlite_master WHERE name LIKE 't%'; PRAGMA schema_version = 99")
      #expect(try open.integer("SELECT count(*) FROM item") == 1, "the file is read again")
    }
  }

  @Test func `rows without a definition end the reading of a file`() throws {
    try prepared { program in
      try program.executeScript(
        """
        CREATE TABLE u(a UNIQUE); PRAGMA writable_schema = ON;
        WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < 600000)
          INSERT INTO sqlite_master SELECT m.type, m.name, m.tbl_name, m.rootpage, NULL FROM n, sqlite_master AS m
          WHERE m.name = 'sqlite_autoindex_u_1';
        PRAGMA schema_version = 77
        """)
      let found = try reason { try Database(path: path).execute("SELECT * FROM item") }
      #expect(found == "its definitions have more than 32 MiB")
    }
  }

  @Test func `a connection that sees many changes of a schema reads on`() throws {
    try prepared { program in
      try program.execute("CREATE TABLE wide(a /*\(String(repeating: "-", count: 900_000))*/)")
      let open = try Database(path: path)
      for number in 0..<60 {
        try program.execute("CREATE TABLE more_\(number)(a)")
        #expect(try open.integer("SELECT count(*) FROM item") == 1)
      }
    }
  }

  @Test func `definitions whose texts do not fit into memory together are not listed`() throws {
    try prepared { program in
      try forge(
        program, 60, type: "index",
        "'CREATE INDEX t' || number || ' ON item(id) /*' || hex(zeroblob(400000)) || '*/'")
      // Each index has a page of its own.
      let pages = 1100
      try program.executeScript("CREATE TABLE padding(a); INSERT INTO padding VALUES (zeroblob(\(pages * 4096)))")
      let database = try Database(path: path)
      let found = try reason { _ = try database.userTables() }
      #expect(found?.contains("its definitions have more than 32 MiB") == true, "\(found ?? "listed")")
    }
  }

  @Test func `thousands of ordinary tables, and lists of hundreds of values, are read`() throws {
    try prepared { program in
      let list = (0..<800).map { "'s\($0)'" }.joined(separator: ", ")
      try program.transaction {
        try program.execute("CREATE TABLE listed(a CHECK (a IN (\(list))))")
        for number in 0..<3000 {
          try program.execute(
            """
            CREATE TABLE order_\(number)(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC DEFAULT 0,
              quantity INTEGER CHECK (quantity > 0), state TEXT CHECK (state IN ('a', 'b', 'c')), parent INTEGER)
            """)
        }
      }
      let database = try Database(path: path)
      #expect(try database.userTables().count == 3002)
      #expect(database.schemaBytes < 32 << 20)
    }
  }
}
