import Changes
import SQLiteKit
import TestServers
import Testing

@testable import Capturing

/// Triggers of an application that write to a table while a row of it is written.
@Suite(.timeLimit(.minutes(60))) struct NestedWriteTests {
  @Test(arguments: Seeds.range(reduced: 60))
  func `random triggers that write within a write leave the target like the source`(seed: UInt64) throws {
    var random = Seeded(seed)
    let program = Program(&random)
    let replica = Replica(try TempFolder())
    let source = try Database(ofProgram: replica.source)
    try source.executeScript(program.start)
    try replica.takeAndReplay()
    var done: [String] = []
    for round in program.rounds {
      for sql in round {
        done.append(sql)
        do { try source.executeScript(sql) } catch { done.append("-- \(error)".prefix(80).description) }
        if source.isInTransaction { try source.execute("COMMIT") }
      }
      do { try replica.takeAndReplay() } catch {
        Issue.record("seed \(seed): \(error) after \(program.start)\n\(done.joined(separator: ";\n"))")
        return
      }
      let differences = try replica.differences()
      if !differences.isEmpty {
        Issue.record("seed \(seed): \(differences) after \(program.start)\n\(done.joined(separator: ";\n"))")
        return
      }
    }
  }

  /// A random schema with triggers, and statements.
  private struct Program {
    private(set) var start: String
    private(set) var rounds: [[String]] = []

    private static let shapes = [
      "(k INTEGER PRIMARY KEY, x, y, z UNIQUE)", "(k INTEGER PRIMARY KEY, x, y, z)",
      "(k TEXT COLLATE NOCASE PRIMARY KEY, x, y, z UNIQUE)", "(k, x, y, z UNIQUE)", "(k UNIQUE, x, y, z UNIQUE)",
      "(k NOT NULL PRIMARY KEY, x, y, z UNIQUE) WITHOUT ROWID", "(k PRIMARY KEY, x, y, z) WITHOUT ROWID",
      "(k INTEGER PRIMARY KEY, x, y, z); CREATE UNIQUE INDEX wz ON w(z + 0) WHERE x < 5",
      "(k INTEGER PRIMARY KEY, x, y, z COLLATE NOCASE UNIQUE ON CONFLICT REPLACE)",
    ]

    init(_ random: inout Seeded) {
      func any(_ limit: Int) -> Int { random.below(limit) }
      func one(_ texts: [String]) -> String { texts[random.below(texts.count)] }
      let shape = one(Self.shapes)
      let isText = shape.contains("TEXT")
      func key() -> String { isText ? one(["'a'", "'A'", "'b'", "'B'", "'c'", "'d'", "'e'"]) : "\(random.below(8))" }
      let hasChild = any(4) == 0 && shape.contains("PRIMARY KEY")
      start = "PRAGMA recursive_triggers = \(any(2)); PRAGMA foreign_keys = \(any(2)); CREATE TABLE w\(shape); "
      if hasChild {
        start += """
          CREATE TABLE c(id INTEGER PRIMARY KEY, k REFERENCES w ON UPDATE CASCADE ON DELETE \(one(["CASCADE", "SET NULL"])));
          """
      }
      var triggers = ""
      let own = shape.contains("WITHOUT") ? "k IS NOT old.k" : "rowid <> old.rowid"
      for number in 0..<(1 + any(2)) {
        let event = one(["INSERT", "UPDATE OF y", "UPDATE", "DELETE"])
        let time = one(["BEFORE", "BEFORE", "AFTER"])
        let isDelete = event == "DELETE"
        let row = isDelete ? "old" : "new"
        let z = isDelete ? "(old.z + 20)" : "new.z"
        let fixed = isDelete ? (isText ? "'x'" : "55") : key()
        // A BEFORE trigger must not change the row for which it fires.
        let others = event == "INSERT" ? "" : " AND \(own)"
        let moved = isText ? "k || 'q'" : "k + 10"
        let body = one([
          "UPDATE w SET x = x + 1, k = \(moved) WHERE z = \(z)\(others)",
          "UPDATE w SET x = x + 1 WHERE z = \(z)\(others)",
          "UPDATE \(hasChild ? "" : "OR IGNORE") w SET x = x + 1, k = \(fixed) WHERE z = \(z)\(others)",
          "UPDATE w SET x = x + 1, z = \(z) WHERE z = \(any(8))\(others)",
          "UPDATE w SET x = x + 1, z = z + 1 WHERE z = \(z)\(others)",
          "DELETE FROM w WHERE z = \(z)\(others)",
          "DELETE FROM w WHERE z = \(z)\(others); INSERT INTO w SELECT \(fixed), 8, 0, \(z) WHERE \(row).y < 6",
          "INSERT INTO w SELECT \(fixed), 8, 0, \(z) WHERE \(row).y < 6",
          "INSERT OR IGNORE INTO w VALUES (\(fixed), 9, 1, \(z))",
          "INSERT INTO w VALUES (\(fixed), 9, 1, \(z)) ON CONFLICT(z) DO UPDATE SET x = 7",
        ])
        // Each body counts x up, so that no trigger fires itself without end.
        var condition = " WHEN \(row).x < \(2 + any(5))"
        if time == "BEFORE", event.hasPrefix("UPDATE") {
          condition += " AND new.z IS NOT old.z AND old.z IS NOT new.z + 1 AND old.k IS NOT \(fixed)"
        }
        triggers += "CREATE TRIGGER w\(number) \(time) \(event) ON w\(condition) BEGIN \(body); END; "
      }
      if hasChild, any(2) == 0 {
        // Another key and another value of z than those of the deleted row, whose delete the journal has later.
        triggers += """
          CREATE TRIGGER cd AFTER DELETE ON c
          BEGIN INSERT OR IGNORE INTO w VALUES (\(isText ? "'y'" : "77"), 3, 3, \(90 + any(8))); END;
          """
      }
      for number in 0..<4 {
        start += "INSERT OR IGNORE INTO w VALUES (\(key()), \(any(4)), \(any(4)), \(number + 3)); "
      }
      if hasChild { start += "INSERT OR IGNORE INTO c SELECT NULL, k FROM w; " }
      start += triggers
      for _ in 0..<3 {
        rounds.append(
          (0..<5).map { _ in
            let conflict = one(["OR REPLACE", "OR REPLACE", "OR IGNORE", ""])
            let values = "(\(key()), \(any(6)), \(any(6)), \(any(8)))"
            let statements = [
              "INSERT \(conflict) INTO w VALUES \(values)",
              "INSERT \(conflict) INTO w VALUES \(values), (\(key()), 1, 2, \(any(8)))",
              "UPDATE \(conflict) w SET y = \(any(6)), z = \(any(8)) WHERE z = \(any(8))",
              "UPDATE \(conflict) w SET y = \(any(6)), k = \(key()) WHERE z = \(any(8))",
              "UPDATE \(conflict) w SET y = \(any(6)), z = z + 1",
              "UPDATE \(conflict) w SET y = y + 1, k = \(key()), z = \(any(8)) WHERE k = \(key())",
              "INSERT INTO w VALUES \(values) ON CONFLICT(z) DO UPDATE SET y = 3, z = \(any(8))",
              "INSERT \(conflict) INTO w VALUES \(values) ON CONFLICT(k) DO UPDATE SET y = 3, k = \(key())",
              "DELETE FROM w WHERE z = \(any(8))",
            ]
            let first = one(statements)
            return any(3) == 0 ? "BEGIN; \(first); \(one(statements)); COMMIT" : first
          })
      }
    }
  }
}
