import PostgresKit
import SQLiteKit
import TestServers

/// W15: programs at both ends write the same few rows while nothing replicates; then one
/// `cairn replicate --two-way --once` resolves the conflicts. Each incoming transaction is in conflict. The time of a
/// run without work is subtracted.
struct HotRows {
  let stage: Stage
  let pairs: [Pair]
  private static let rows = 5
  /// The number of transactions at one end before the other end continues.
  private static let transactionsInARow = 20

  func run() throws -> [Report] {
    var reports = pairs.map { Report(.hotRows, $0.name) }
    for round in 0..<stage.options.rounds {
      stage.note("W15, round \(round + 1) of \(stage.options.rounds)")
      for (index, pair) in pairs.enumerated() { try settle(pair, &reports[index]) }
    }
    return reports
  }

  private func settle(_ pair: Pair, _ report: inout Report) throws {
    let from = try Ends.source(stage, pair.from, rows: Self.rows)
    var replication = try Replication(stage, from: from, to: try Ends.target(stage, pair.to), state: "state")
    replication.isTwoWay = true
    try replication.once()
    let idle = Figures(values: try (0..<3).map { _ in try replication.once().seconds }).median
    let count = stage.options.scaled(2000)
    let ends = try [from, replication.to].map(Writer.init)
    for first in stride(from: 0, to: count, by: Self.transactionsInARow) {
      for end in ends {
        try end.execute((first..<min(count, first + Self.transactionsInARow)).map(Self.transaction).joined())
      }
    }
    stage.settle()
    let run = try replication.once()
    try Ends.judge(from, replication.to, pair)
    report.changes = 2 * count
    guard run.seconds > idle else { throw TestFailure("the backlog is too short: it took no longer than none at all") }
    let rate = Double(2 * count) / (run.seconds - idle)
    report.add(.cairn, rate)
    report.add(run)
    report.add(fact: "seconds", run.seconds)
    report.add(fact: "idle_seconds", idle)
    stage.note("\(pair.name): \(Int(rate)) transactions/s")
  }

  private static func transaction(_ number: Int) -> String {
    "BEGIN; UPDATE sale SET till = till + 1, price = price + 0.25 WHERE id = \(number % rows + 1); COMMIT;"
  }

  /// A program at one end.
  private enum Writer {
    case sqlite(Database)
    case postgres(PostgresConnection)

    init(_ url: String) throws {
      if url.hasPrefix("sqlite:") {
        self = .sqlite(try Database(path: Ends.path(url), mode: .create))
      } else {
        let connection = try PostgresConnection(url, application: "cairn-bench")
        try connection.executeScript("SET search_path = public; SET synchronous_commit = off")
        self = .postgres(connection)
      }
    }

    func execute(_ sql: String) throws {
      switch self {
      case .sqlite(let database): try database.executeScript(sql)
      case .postgres(let connection): try connection.executeScript(sql)
      }
    }
  }
}
