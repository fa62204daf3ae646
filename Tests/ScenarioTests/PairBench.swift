import Foundation
import TestServers
import Testing

/// From which engine to which.
enum Pair: String, CaseIterable, CustomTestStringConvertible, Sendable {
  case sqliteToPostgres = "SQLite to PostgreSQL"
  case postgresToSQLite = "PostgreSQL to SQLite"
  case postgresToPostgres = "PostgreSQL to PostgreSQL"

  var testDescription: String { rawValue }
}

/// Returns a new seed each time, and prints it; CAIRN_SEED sets it to see a failure again.
func drawSeed(_ what: String) -> UInt64 {
  let given = ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) }
  let seed = given ?? UInt64.random(in: 1...1_000_000)
  print("seed \(seed), \(what)")
  return seed
}

/// A database at one end of a replication.
struct End {
  /// The file in the bench's folder, or the database at the server.
  let name: String
  let isPostgres: Bool
  let url: String
}

/// A source and a target, each of either engine, the programs that work on them, and nothing is left over.
final class PairBench {
  let bench: Bench
  let server: PostgresServer
  let from: End
  let to: End
  private var databases: [String]

  convenience init(_ pair: Pair, _ server: PostgresServer? = nil) throws {
    try self.init(fromPostgres: pair != .sqliteToPostgres, toPostgres: pair != .postgresToSQLite, server)
  }

  init(fromPostgres: Bool, toPostgres: Bool, _ server: PostgresServer? = nil) throws {
    bench = try Bench()
    let server = try server ?? PostgresServer.shared
    let id = UUID().uuidString.prefix(8).lowercased()
    func end(_ isPostgres: Bool, _ name: String) throws -> End {
      guard isPostgres else { return End(name: name + ".db", isPostgres: false, url: "sqlite:\(name).db") }
      let database = "\(name)_\(id)"
      return End(name: database, isPostgres: true, url: try server.createDatabase(database))
    }
    self.server = server
    from = try end(fromPostgres, "source")
    to = try end(toPostgres, "target")
    databases = [from, to].filter(\.isPostgres).map(\.name)
  }

  deinit {
    bench.killAll()
    for database in databases { try? server.dropDatabase(database) }
  }

  /// One more database at the server.
  func postgres(_ name: String) throws -> End {
    let database = "\(name)_\(UUID().uuidString.prefix(8).lowercased())"
    databases.append(database)
    return End(name: database, isPostgres: true, url: try server.createDatabase(database))
  }

  // MARK: The databases

  /// Returns the output of psql or sqlite3, without the last line break.
  @discardableResult func sql(_ end: End, _ sql: String) throws -> String {
    if end.isPostgres { return try server.psql(sql, end.name) }
    let output = try bench.sqlite(end.name, sql)
    return output.hasSuffix("\n") ? String(output.dropLast()) : output
  }

  /// The project's sample of the source's engine, and the table in which workloads mark their commits.
  func makeSample() throws {
    if from.isPostgres {
      try server.psql(file: Bench.root + "/docs/demo/sample-postgres.sql", from.name)
    } else {
      try bench.makeSample(from.name)
      // A date that is no date, which PostgreSQL would refuse.
      try sql(from, "UPDATE operator SET since = NULL WHERE since = ''")
    }
    try sql(from, "CREATE TABLE workload_marks(process INTEGER, seq INTEGER, PRIMARY KEY (process, seq))")
  }

  /// Waits until a query of the target gives `answer`; false when it does not within `seconds`.
  func waitForTarget(_ query: String, _ answer: String, seconds: Double = 30) -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      if (try? sql(to, query)) == answer { return true }
      usleep(20_000)
    }
    return false
  }

  // MARK: The programs

  var replicateArguments: [String] { ["replicate", "--from", from.url, "--to", to.url, "--state", "state"] }

  func once(_ more: [String] = [], seconds: Double = 180) throws -> Outcome {
    try bench.run(Bench.cairn, replicateArguments + ["--once"] + more, seconds: seconds)
  }

  func start(_ name: String = "cairn", _ more: [String] = []) throws -> Child {
    try bench.start(name, Bench.cairn, replicateArguments + more)
  }

  /// A program that writes at random to the source.
  func workload(_ process: Int, seed: UInt64, _ more: [String]) throws -> Child {
    let (tool, place) =
      from.isPostgres
      ? ("workload_pg.py", [from.url, "--truncate"]) : ("workload.py", [from.name, "--fitting", "--no-schema"])
    return try bench.start(
      "workload\(process)", Bench.python,
      [Bench.tool(tool)] + place + ["--seed", "\(seed)", "--process", "\(process)"] + more)
  }

  /// Empty when the ends are equal, else what differs: said by a program that knows nothing of Cairn.
  func differences(_ a: End? = nil, _ b: End? = nil, _ more: [String] = []) throws -> String {
    let ends = [a ?? from, b ?? to].map(\.url)
    let outcome = try bench.run(Bench.python, [Bench.tool("compare_engines.py")] + ends + more, seconds: 300)
    return outcome.status == 0 ? "" : String((outcome.output + outcome.errors).suffix(3000))
  }

  func expectEqual(
    _ a: End? = nil, _ b: End? = nil, _ more: [String] = [], sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let found = try differences(a, b, more)
    #expect(found == "", sourceLocation: sourceLocation)
  }

  /// Returns the output of a child, shortened, for the messages of expectations.
  func said(_ name: String) -> String { String((bench.text(name + ".out") + bench.text(name + ".err")).suffix(2000)) }
}
