import Changes
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Tables that come into the publication while applications write to them.
  @Suite struct PublishTests {
    @Test(arguments: [
      "CREATE TABLE d(id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int)",
      "CREATE TABLE d(id int PRIMARY KEY DEFERRABLE, v int)",
      "CREATE TABLE d(id int, v int, g int GENERATED ALWAYS AS (id / 2) STORED, PRIMARY KEY (v, g))",
      "CREATE TABLE d(id int, v int, g int GENERATED ALWAYS AS (id) STORED PRIMARY KEY)",
    ])
    func `a key that names no row in the log is refused, and captured whole with REPLICA IDENTITY FULL`(
      _ schema: String
    ) throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY); \(schema); INSERT INTO d VALUES (1, 1), (2, 1)"
          .replacing("VALUES (1, 1), (2, 1)", with: "(id, v) VALUES (1, 1), (2, 1)"))
      #expect(origin.code { try origin.take() } == .tableRefused)
      try origin.run("UPDATE d SET v = 2 WHERE id = 1; UPDATE d SET v = 1 WHERE id = 1")
      try origin.run("ALTER TABLE d REPLICA IDENTITY FULL")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run("UPDATE d SET v = 5 WHERE id = 1; DELETE FROM d WHERE id = 2")
      try origin.take()
      #expect(
        try origin.lines(from: known)
          == ["update d | id=1 v=1 | id=1 v=5", "delete d id=2 v=1"])
    }
  }
}
