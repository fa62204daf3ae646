import Applying
import CairnCapture
import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Testing
import Trails

/// Statements that a program executes through the API, executed once more at a target.
struct ReplayedStatementTests {
  private func counts(_ till: Till, _ path: String, _ policy: ReplayPolicy = .statements) throws -> StatementCounts {
    var options = SQLiteApply.Options()
    (options.replay, options.localWrites) = (policy, LocalWritesPlan(.refuse))
    let progress = ApplyProgress()
    let apply = try SQLiteApply(
      path: path, trail: till.folder("trail"), name: TrailName(origin: "till-7", name: "pos"), options: options,
      progress: progress)
    let drain = StopSignal()
    drain.set()
    try apply.run(stop: StopSignal(), drain: drain)
    return progress.snapshot.statements
  }

  /// SQLite ends a statement at a value that is too long, and keeps the rows before it.
  @Test func `a statement that ends within its rows leaves each of them once`() throws {
    let till = try Till(
      "CREATE TABLE u(id INTEGER PRIMARY KEY, b TEXT)", "CREATE TABLE log(a TEXT)", "CREATE TABLE gone(a TEXT)")
    try till.take()
    let path = till.folder("replayed.db")
    _ = try counts(till, path)
    try till.shop.transaction { shop in
      for id in 1...6 {
        let text = String(repeating: "x", count: id == 5 ? 300_000 : id)
        try shop.execute("INSERT INTO u VALUES (?, ?)", id, text)
        try shop.execute("INSERT INTO gone VALUES (?)", text)
      }
    }
    try till.shop.transaction { shop in
      try shop.execute("INSERT INTO log SELECT b FROM u")
      try shop.execute("UPDATE log SET a = a || 'y'")
      try shop.execute("DELETE FROM gone WHERE length(a || 'z') > 2")
    }
    try till.take()
    let counts = try counts(till, path)
    let (source, target) = (try Database(path: till.folder("shop.db")), try Database(path: path))
    for query in ["SELECT length(a) FROM log ORDER BY 1", "SELECT a FROM gone ORDER BY 1"] {
      #expect(try source.query(query) == target.query(query), "\(query): \(counts.summary ?? "")")
    }
    #expect(try target.query("SELECT count(*) FROM log") == [[.integer(6)]])
  }

  @Test func `statements of the API do at the target what they did at the source`() throws {
    let till = try Till(
      "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER, weight REAL, at TEXT)",
      "CREATE TABLE tag(word TEXT PRIMARY KEY, item INTEGER) WITHOUT ROWID")
    try till.take()
    let path = till.folder("replayed.db")
    _ = try counts(till, path)
    try till.shop.transaction { shop in
      try shop.execute(
        "INSERT INTO item(id, name, stock, weight) VALUES (1, 'a', 1, 2), (2, 'b', 2, 1.5), (?, 'c', 0, 4)", 3)
      // Two of three rows stay as they are.
      try shop.execute("UPDATE item SET stock = max(stock, 1), weight = weight * 2 WHERE id > ?", 1)
      try shop.execute("UPDATE item SET stock = max(stock, 1)")
      try shop.execute("UPDATE item SET at = CURRENT_TIMESTAMP WHERE id = 1")
      try shop.execute("REPLACE INTO item(id, name) VALUES (2, 'again')")
      try shop.execute("INSERT INTO tag SELECT name, id FROM item")
      try shop.execute(
        "INSERT INTO tag VALUES ('a', 9), ('z', 9) ON CONFLICT(word) DO UPDATE SET item = item + excluded.item")
      try shop.execute("DELETE FROM tag WHERE item IN (SELECT id FROM item WHERE name = 'c')")
      try shop.execute("UPDATE item SET name = lower(randomblob(4)) WHERE id = 3")
    }
    try till.take()
    let counts = try counts(till, path)
    #expect(counts.reasons["randomblob() gives another value each time"] == 1)
    #expect(counts.reasons["they did something else at the target"] == nil)
    #expect(counts.replayed >= 4, "\(counts.summary ?? "")")
    let (source, target) = (try Database(path: till.folder("shop.db")), try Database(path: path))
    for table in ["item", "tag"] {
      #expect(try target.query("SELECT * FROM \(table)") == source.query("SELECT * FROM \(table)"))
    }
  }

  @Test(arguments: [ReplayPolicy.statements, .auto])
  func `those that change the schema are counted as what they are`(_ policy: ReplayPolicy) throws {
    let till = try Till("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try till.take()
    let path = till.folder("replayed.db")
    _ = try counts(till, path, policy)
    try till.shop.execute("-- more of them\nCREATE TABLE more(id INTEGER PRIMARY KEY)")
    try till.shop.execute("ALTER TABLE item ADD COLUMN note TEXT")
    try till.shop.execute("INSERT INTO more VALUES (1)")
    try till.take()
    let counts = try counts(till, path, policy)
    #expect(counts.reasons["it changes the schema, which goes by its own record"] == 2)
    #expect(counts.replayed == (policy == .auto ? 0 : 1) && counts.asRows == (policy == .auto ? 3 : 2))
    #expect(try Database(path: path).query("SELECT item.id, note FROM item, more").isEmpty)
  }
}
