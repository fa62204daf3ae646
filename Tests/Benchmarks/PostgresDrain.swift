import PostgresKit
import SQLiteKit
import TestServers

/// One round of a backlog in PostgreSQL: it is written once, and each competitor drains it through its own slot.
final class PostgresDrain {
  private let stage: Stage
  private let load: any DrainLoad
  private let server: PostgresServer
  private let url: String
  private let source: PostgresConnection
  private var ends: [(pair: Pair, replication: Replication, idleSeconds: Double)] = []
  private var native: NativeReplication?
  private let stream: ReceivedStream
  private static let database = "bench"

  /// Makes source and targets, with all that capture needs.
  init(_ stage: Stage, _ pairs: [Pair], _ load: any DrainLoad) throws {
    (self.stage, self.load) = (stage, load)
    server = try stage.server(.source)
    url = try server.createDatabase(Self.database)
    try server.psql("CHECKPOINT")
    // Asynchronous commits make the program faster than the disk, and so the backlog longer.
    try server.psql("ALTER DATABASE \(Self.database) SET synchronous_commit = off")
    try load.create(server, Self.database)
    source = try PostgresConnection(url, application: "cairn-bench")
    try source.executeScript("SET search_path = public; SET synchronous_commit = on; \(NativeReplication.markSchema)")
    for pair in pairs {
      let replication = try Replication(
        stage, from: url, to: try Ends.target(stage, pair.to, "target_\(pair.to.rawValue)"), state: "state-\(pair.name)"
      )
      try replication.once()
      try Ends.vacuum(replication.to)
      ends.append((pair, replication, try replication.once().seconds))
    }
    if pairs.contains(where: { $0.to == .postgres }) {
      let target = try stage.server(.target)
      let targetURL = try target.createDatabase("native")
      try load.create(target, "native")
      try Ends.vacuum(targetURL)
      native = try NativeReplication(
        source: source, sourceURL: url, targetURL: targetURL, tables: load.tables.map(\.name))
    } else {
      try source.execute("CREATE PUBLICATION \(NativeReplication.publication) FOR ALL TABLES")
    }
    stream = try ReceivedStream(stage, source, url: url)
  }

  /// Runs a round. The competitor that starts alternates with the number of the round.
  func run(round: Int, _ reports: inout [Pair: Report]) throws {
    stage.note("writing the backlog")
    let before = try position("pg_current_wal_insert_lsn")
    let changes = try load.write(server, Self.database)
    let written = try position("pg_current_wal_insert_lsn")
    try source.execute("INSERT INTO mark VALUES (1)")
    let end = try position("pg_current_wal_lsn")
    let walBytes = Double(written.value - before.value)

    var competitors: [() throws -> Void] = []
    var streamRate = 0.0
    var results = reports
    for (pair, replication, idleSeconds) in ends {
      results[pair]?.changes = changes
      competitors.append {
        let tally = try TrailTally(self.stage, replication)
        let run = try replication.once(watch: tally.look)
        let rate = Double(changes) / run.seconds
        results[pair]?.add(.cairn, rate)
        results[pair]?.add(run)
        results[pair]?.add(fact: "idle_seconds", idleSeconds)
        results[pair]?.add(fact: "trail_bytes", try tally.bytes())
        results[pair]?.add(fact: "wal_bytes", walBytes)
        self.stage.note("\(pair.name): \(Int(rate)) changes/s")
      }
    }
    if let native {
      competitors.append {
        let rate = Double(changes) / (try native.drain())
        for pair in self.ends.map(\.pair) where pair.to == .postgres { results[pair]?.add(.native, rate) }
        self.stage.note("native: \(Int(rate)) changes/s")
      }
    }
    competitors.append { streamRate = Double(changes) / (try self.stream.drain(to: end)) }
    for number in competitors.indices {
      stage.settle()
      try competitors[(number + round) % competitors.count]()
    }
    for (pair, _, _) in ends { results[pair]?.add(ceiling: "pg_recvlogical", streamRate) }
    reports = results
    try judge()
    try native?.drop()
    try server.dropDatabase(Self.database)
  }

  private func position(_ function: String) throws -> LSN {
    guard let position = try source.first("SELECT \(function)()").flatMap({ LSN($0) }) else {
      throw TestFailure("the server tells no position of its log")
    }
    return position
  }

  /// Throws if a target is wrong, so that it never gives a figure.
  private func judge() throws {
    for table in load.tables {
      let expected = try Digest(source, table: table.name, columns: table.columns)
      func expect(_ found: Digest, _ where: String) throws {
        guard found == expected else {
          throw TestFailure("\(table.name) has \(expected) at the source, \(found) at the target of \(`where`)")
        }
      }
      for (pair, replication, _) in ends {
        try expect(try Ends.digest(replication.to, table.name, table.columns), pair.name)
      }
      if let native { try expect(try native.digest(table: table.name, columns: table.columns), "native replication") }
    }
  }
}
