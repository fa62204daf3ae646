import Foundation
import Testing

@testable import SQLiteKit

/// The log of a captured program's file is written back beside its commits, and what needs the file for itself has it.
@Suite struct CheckpointerTests {
  private let path = FileManager.default.temporaryDirectory.path + "/cairn-checkpointer-\(UUID().uuidString).db"

  private func opened() throws -> ProgramDatabase {
    let program = try ProgramDatabase(path: path, busyTimeoutMilliseconds: 1000)
    try program.database.executeScript(
      "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY, name)")
    program.checkpointBeside()
    return program
  }

  private func removed<T>(_ body: () throws -> T) rethrows -> T {
    defer { for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) } }
    return try body()
  }

  /// 100 pages or so.
  private func write(_ program: ProgramDatabase) throws {
    try program.database.execute("INSERT INTO item(name) SELECT randomblob(4000) FROM generate_100")
  }

  private func bytes(_ suffix: String = "") -> Int {
    (try? FileManager.default.attributesOfItem(atPath: path + suffix)[.size] as? Int) ?? 0
  }

  @Test func `when the program pauses, the file soon has all, and the log begins again`() throws {
    try removed {
      let program = try opened()
      try program.database.executeScript(Self.hundred)
      for _ in 0..<30 {
        try write(program)
        program.settle()
      }
      #expect(bytes() > 2000 * 4096)
      // It was written over from its beginning whenever all of it was in the file.
      #expect(bytes("-wal") < 2 * Int(Checkpointer.pagesStep) * 4120)
    }
  }

  @Test func `a program that never pauses has a log that ends`() throws {
    try removed {
      let program = try opened()
      try program.database.executeScript(Self.hundred)
      for _ in 0..<200 { try write(program) }
      #expect(bytes("-wal") < (Int(Checkpointer.pagesMax) + 1000) * 4120)
      #expect(try program.database.integer("SELECT count(*) FROM item") == 20_000)
    }
  }

  @Test func `a reader who stays keeps the log, and loses nothing`() throws {
    try removed {
      let program = try opened()
      try program.database.executeScript(Self.hundred)
      try write(program)
      let reader = try Database(path: path)
      try reader.executeScript("BEGIN; SELECT count(*) FROM item")
      for _ in 0..<50 { try write(program) }
      #expect(try reader.integer("SELECT count(*) FROM item") == 100)
      try reader.execute("COMMIT")
      #expect(try reader.integer("SELECT count(*) FROM item") == 5100)
      #expect(try program.database.first("PRAGMA integrity_check") == .text("ok"))
    }
  }

  @Test func `the end of the connection is the end of the log`() throws {
    try removed {
      for _ in 0..<5 {
        let program = try opened()
        try program.database.executeScript("DROP VIEW IF EXISTS generate_100; \(Self.hundred)")
        for _ in 0..<6 { try write(program) }
      }
      #expect(bytes("-wal") == 0)
      #expect(try Database(path: path).integer("SELECT count(*) FROM item") == 3000)
    }
  }

  @Test func `the journal mode can be changed at once`() throws {
    try removed {
      let program = try opened()
      try program.database.executeScript(Self.hundred)
      for _ in 0..<6 { try write(program) }
      program.settle()
      #expect(try program.database.first("PRAGMA journal_mode = DELETE") == .text("delete"))
    }
  }

  private static let hundred =
    "CREATE VIEW generate_100 AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n"
}
