import Changes
import PostgresKit
import SQLiteKit
import TestServers

/// W2: the best rates of the engines with changes like those of pgbench, 1,000 per durable commit.
struct PgbenchCeilings {
  let stage: Stage
  let load: PgbenchLoad
  private static let transactions = 50_000
  private static let transactionsPerCommit = 250

  /// The three updates and the insert of one transaction of pgbench.
  private struct Transaction {
    let account, teller, branch, delta: Int
  }

  private var transactions: [Transaction] {
    var random = Seeded(2)
    return (0..<stage.options.scaled(Self.transactions)).map { _ in
      Transaction(
        account: .random(in: 1...100_000 * load.scale, using: &random),
        teller: .random(in: 1...10 * load.scale, using: &random),
        branch: .random(in: 1...load.scale, using: &random), delta: .random(in: -5000...5000, using: &random))
    }
  }

  /// Prepared statements of single rows in pipeline mode.
  func pipelined() throws -> Double {
    let server = try stage.server(.target)
    let connection = try PostgresConnection(server.createDatabase("ceiling"), application: "cairn-bench")
    try load.create(server, "ceiling")
    try connection.execute("SET search_path = public")
    let transactions = self.transactions
    stage.settle()
    let begun = Stopwatch()
    try connection.enterPipeline()
    for (name, _, sql) in Self.statements("$") { try connection.pipe(prepare: name, sql) }
    for (number, transaction) in transactions.enumerated() {
      if number % Self.transactionsPerCommit == 0 { try connection.pipe("BEGIN", []) }
      for (name, values, _) in Self.statements("$") {
        try Self.withParameters(values(transaction)) { try connection.pipe(prepared: name, $0) }
      }
      if number % 25 == 24 { try connection.pushPipeline() }
      if (number + 1) % Self.transactionsPerCommit == 0 || number + 1 == transactions.count {
        try connection.pipe("COMMIT", [])
        try connection.drain { _, _ in }
      }
    }
    try connection.exitPipeline()
    return Double(4 * transactions.count) / begun.seconds
  }

  /// Prepared statements in SQLite, in WAL mode with `synchronous = FULL`.
  func prepared() throws -> Double {
    let database = try Database(path: stage.freshFolder("ceiling") + "/ceiling.db", mode: .create)
    try database.executeScript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    try database.executeScript(
      """
      CREATE TABLE pgbench_accounts(aid INTEGER PRIMARY KEY, bid INTEGER, abalance INTEGER, filler TEXT);
      CREATE TABLE pgbench_tellers(tid INTEGER PRIMARY KEY, bid INTEGER, tbalance INTEGER, filler TEXT);
      CREATE TABLE pgbench_branches(bid INTEGER PRIMARY KEY, bbalance INTEGER, filler TEXT);
      CREATE TABLE pgbench_history(tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, mtime TEXT, filler TEXT);
      BEGIN;
      \(Self.rows(100_000 * load.scale, "pgbench_accounts SELECT n, 1, 0, '\(String(repeating: " ", count: 84))'"));
      \(Self.rows(10 * load.scale, "pgbench_tellers SELECT n, 1, 0, NULL"));
      \(Self.rows(load.scale, "pgbench_branches SELECT n, 0, NULL"));
      COMMIT
      """)
    let statements = try Self.statements("?").map { (try database.prepare($0.sql), $0.values) }
    let (begin, commit) = (try database.prepare("BEGIN IMMEDIATE"), try database.prepare("COMMIT"))
    let transactions = self.transactions
    stage.settle()
    let begun = Stopwatch()
    for (number, transaction) in transactions.enumerated() {
      if number % Self.transactionsPerCommit == 0 { while try begin.step() {} }
      for (statement, values) in statements {
        for (index, value) in values(transaction).enumerated() { try statement.bind(Int64(value), at: index + 1) }
        while try statement.step() {}
      }
      if (number + 1) % Self.transactionsPerCommit == 0 || number + 1 == transactions.count {
        while try commit.step() {}
      }
    }
    return Double(4 * transactions.count) / begun.seconds
  }

  /// Returns the statements. `sign` precedes the number of a parameter.
  private static func statements(_ sign: String) -> [(name: String, values: (Transaction) -> [Int], sql: String)] {
    let (one, two) = (sign + "1", sign + "2")
    return [
      (
        "account", { [$0.delta, $0.account] },
        "UPDATE pgbench_accounts SET abalance = abalance + \(one) WHERE aid = \(two)"
      ),
      (
        "teller", { [$0.delta, $0.teller] },
        "UPDATE pgbench_tellers SET tbalance = tbalance + \(one) WHERE tid = \(two)"
      ),
      (
        "branch", { [$0.delta, $0.branch] },
        "UPDATE pgbench_branches SET bbalance = bbalance + \(one) WHERE bid = \(two)"
      ),
      (
        "history", { [$0.teller, $0.branch, $0.account, $0.delta] },
        "INSERT INTO pgbench_history(tid, bid, aid, delta, mtime) VALUES (\(one), \(two), \(sign)3, \(sign)4, CURRENT_TIMESTAMP)"
      ),
    ]
  }

  private static func rows(_ count: Int, _ insert: String) -> String {
    "INSERT INTO \(insert) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < \(count)) SELECT n FROM c)"
  }

  private static func withParameters(_ values: [Int], _ body: ([PostgresParameter]) throws -> Void) rethrows {
    var text: [CChar] = []
    var starts: [Int] = []
    for value in values {
      starts.append(text.count)
      text.append(contentsOf: String(value).utf8CString)
    }
    try text.withUnsafeBufferPointer { buffer in
      guard let base = buffer.baseAddress else { return }
      try body(starts.map { base + $0 })
    }
  }
}
