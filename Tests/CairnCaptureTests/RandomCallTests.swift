import CairnCapture
import Glibc
import SQLiteKit
import TestServers
import Testing

/// Whatever a program calls, and whatever fails of it: the file has what SQLite alone would have, and the target the same.
@Suite struct RandomCallTests {
  private indirect enum Call: CustomStringConvertible {
    case statement(String)
    case savepoint([Call], isUndone: Bool)
    case transaction([Call], isUndone: Bool)

    var description: String {
      switch self {
      case .statement(let sql): sql
      case .savepoint(let calls, let isUndone): "savepoint\(isUndone ? " undone" : "") \(calls)"
      case .transaction(let calls, let isUndone): "transaction\(isUndone ? " undone" : "") \(calls)"
      }
    }
  }
  private struct Undone: Error {}

  private static let schema = [
    "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, n INTEGER CHECK (n < 9))",
    "CREATE TABLE log(id INTEGER PRIMARY KEY, k TEXT)",
    "CREATE TRIGGER tl AFTER UPDATE ON t WHEN new.n = 5 BEGIN INSERT INTO log(k) VALUES (new.k); END",
    "CREATE TRIGGER tr BEFORE DELETE ON t WHEN old.n = 7 BEGIN SELECT RAISE(FAIL, 'seven stays'); END",
  ]

  // MARK: What is called

  private func statement(_ random: inout Seeded) -> Call {
    func draw(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    let clause = ["ABORT", "FAIL", "IGNORE", "REPLACE", "ROLLBACK"][min(4, draw(9) / 2)]
    func row() -> String { "(\(draw(8)), 'k\(draw(8))', \(draw(10)))" }
    return .statement(
      [
        "INSERT OR \(clause) INTO t VALUES \(row()), \(row()), \(row())",
        "INSERT OR \(clause) INTO t(k, n) VALUES ('k\(draw(8))', \(draw(10))) RETURNING id",
        "UPDATE OR \(clause) t SET n = n + 1 WHERE id > \(draw(8))",
        "UPDATE OR \(clause) t SET id = id + 1 WHERE id > \(draw(8))",
        "UPDATE OR \(clause) t SET k = 'k\(draw(8))' WHERE id IN (\(draw(8)), \(draw(8)))",
        "INSERT INTO t VALUES \(row()), \(row()) ON CONFLICT(k) DO UPDATE SET n = excluded.n + n",
        "DELETE FROM t WHERE n > \(draw(10))", "DELETE FROM t WHERE id = \(draw(8)) RETURNING n", "SELECT * FROM t",
        "INSERT INTO nothing VALUES (1)", "REPLACE INTO log SELECT id, k FROM t WHERE n < \(draw(9))",
      ][draw(11)])
  }

  private func calls(_ random: inout Seeded, depth: Int) -> [Call] {
    (0..<Int.random(in: 1...5, using: &random)).map { _ in
      guard depth < 3, Int.random(in: 0..<4, using: &random) == 0 else { return statement(&random) }
      let inner = calls(&random, depth: depth + 1)
      let isUndone = Int.random(in: 0..<3, using: &random) == 0
      return depth == 0 ? .transaction(inner, isUndone: isUndone) : .savepoint(inner, isUndone: isUndone)
    }
  }

  // MARK: Who is called

  private func run(_ call: Call, _ shop: CapturedDatabase) {
    switch call {
    case .statement(let sql): _ = try? shop.execute(sql)
    case .transaction(let calls, let isUndone):
      _ = try? shop.transaction { db in
        for call in calls { run(call, shop, db) }
        if isUndone { throw Undone() }
      }
    case .savepoint: break
    }
  }

  private func run(_ call: Call, _ shop: CapturedDatabase, _ open: CapturedTransaction) {
    switch call {
    // Both are the same transaction.
    case .statement(let sql): _ = sql.count % 2 == 0 ? try? open.execute(sql) : try? shop.execute(sql)
    case .savepoint(let calls, let isUndone):
      try? open.savepoint { db in
        for call in calls { run(call, shop, db) }
        if isUndone { throw Undone() }
      }
    case .transaction: break
    }
  }

  private func run(_ call: Call, _ plain: Database) {
    switch call {
    case .statement(let sql): try? plain.execute(sql)
    case .transaction(let calls, let isUndone):
      try? plain.execute("BEGIN")
      for call in calls where plain.isInTransaction { run(call, plain) }
      try? plain.execute(isUndone ? "ROLLBACK" : "COMMIT")
    case .savepoint(let calls, let isUndone):
      try? plain.execute("SAVEPOINT s")
      for call in calls where plain.isInTransaction { run(call, plain) }
      try? plain.executeScript(isUndone ? "ROLLBACK TO s; RELEASE s" : "RELEASE s")
    }
  }

  @Test func `the remaining rows are what SQLite leaves, and what the target gets`() throws {
    let first = getenv("CAIRN_SEED").flatMap { UInt64(String(cString: $0)) } ?? UInt64.random(in: 0...1_000_000_000)
    for seed in first..<first + (isSoak ? 2000 : 4) {
      var random = Seeded(seed)
      let till = try Till()
      let plain = try Database(path: till.folder("plain.db"), mode: .create)
      for sql in Self.schema {
        try till.shop.execute(sql)
        try plain.execute(sql)
      }
      for _ in 0..<3 {
        let calls = calls(&random, depth: 0)
        for call in calls {
          run(call, till.shop)
          run(call, plain)
        }
        try till.take()
        try till.replay()
        for table in ["t", "log"] {
          let (rows, wanted) = (try till.rows(table), try plain.query("SELECT * FROM \(table) ORDER BY 1, 2"))
          try #require(rows.source == wanted && rows.target == wanted, "seed \(seed): \(calls)")
        }
      }
    }
  }
}
