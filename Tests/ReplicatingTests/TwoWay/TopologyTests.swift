import Changes
import Conflicts
import Foundation
import SystemKit
import TestServers
import Testing
import Trails

/// Random transactions at random nodes of every shape: each arrives everywhere once, and nothing comes back. When no
/// program writes, nothing goes to and fro. `CAIRN_SOAK` is the full size: all shapes with 2, 3 and 5 nodes, 10,000
/// transactions; `CAIRN_NODES=5` takes those with so many nodes.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .serialized)
struct TopologyTests {
  struct Case: CustomTestStringConvertible {
    var shape: Network.Shape
    var engines: String
    var testDescription: String { "\(shape.rawValue) \(engines)" }
  }

  static let cases = all.filter { nodes == nil || $0.engines.count == nodes }
  private static let nodes = ProcessInfo.processInfo.environment["CAIRN_NODES"].flatMap { Int($0) }
  private static let all =
    isSoak
    ? [
      Case(shape: .pair, engines: "sp"), Case(shape: .ring, engines: "sps"), Case(shape: .ring, engines: "spsps"),
      Case(shape: .star, engines: "pss"), Case(shape: .star, engines: "spsps"), Case(shape: .mesh, engines: "ssp"),
      Case(shape: .mesh, engines: "spsps"),
    ] : [Case(shape: .ring, engines: "sps"), Case(shape: .star, engines: "pss")]

  /// Tokens are written once each; in accounts all that was added counts. Two nodes rarely write to one at the same time.
  private static let accounts = isSoak ? 50_000 : 20
  private static let schema = """
    CREATE TABLE token(name TEXT PRIMARY KEY, account INTEGER);
    CREATE TABLE account(id INTEGER PRIMARY KEY, total INTEGER);
    INSERT INTO account VALUES \((1...accounts).map { "(\($0), 0)" }.joined(separator: ", "))
    """

  @Test("every transaction comes to every node once, and to nobody twice", arguments: cases)
  func everywhereOnce(_ topology: Case) throws {
    let (count, quiet) = isSoak ? (10_000, Int64(10_000)) : (200, Int64(2000))
    let network = try Network(topology.shape, topology.engines, schema: Self.schema) { _, table, _ in
      ConflictRules(columns: table == "account" ? [1: .delta] : [:])
    }
    for place in network.places where place.node.isPostgres {
      try place.node.execute("ALTER TABLE account REPLICA IDENTITY FULL")
    }
    var written = network.places.map { _ in UInt64(0) }
    var sum = 0
    for _ in 0..<count {
      let index = network.places.indices.randomElement() ?? 0
      let (account, amount) = (Int.random(in: 1...Self.accounts), Int.random(in: 1...9))
      let node = network.places[index].node
      try node.execute(
        """
        BEGIN\(node.isPostgres ? "" : " IMMEDIATE"); INSERT INTO token VALUES ('\(node.name) \(written[index])', \(account));
        UPDATE account SET total = total + \(amount) WHERE id = \(account); COMMIT
        """)
      written[index] += 1
      sum += amount
    }
    let last = Clock.monotonicMilliseconds
    try network.wait("all tokens", seconds: isSoak ? 1800 : 60) {
      try $0.node.rows("SELECT count(*) FROM token") == ["\(count)"]
    }
    let (tokens, accounts) = (try rows(network, "token"), try rows(network, "account"))
    let settled = Clock.monotonicMilliseconds
    for (index, place) in network.places.enumerated() {
      #expect(tokens[index] == tokens[0] && accounts[index] == accounts[0], "\(place.node.name)")
      #expect(try place.node.rows("SELECT sum(total) FROM account") == ["\(sum)"])
    }
    // Each apply's own count, too: every change of the trail, and none of them again.
    try network.wait("what applies count", seconds: 10) { place in
      place.applies.allSatisfy { $0.progress.snapshot.rows >= 2 * written[origin($0.trail)] }
    }
    Clock.sleep(milliseconds: Int(max(0, last + quiet - Clock.monotonicMilliseconds)))
    for (index, place) in network.places.enumerated() {
      for apply in place.applies {
        #expect(apply.progress.snapshot.rows == 2 * written[origin(apply.trail)], "\(place.node.name) \(apply.trail)")
      }
      let found = try changes(place.node.folder)
      #expect(found.tokens == written[index], "in the trail of \(place.node.name)")
      #expect(found.all == 2 * written[index], "in the trail of \(place.node.name)")
      // That nothing of the two tables is copied.
      #expect(found.others == 2, "in the trail of \(place.node.name)")
    }
    if isSoak {
      let conflicts = network.places.flatMap(\.applies).map(\.progress.snapshot.conflicts).reduce(0, +)
      print(
        "\(topology.testDescription): \(count) transactions, equal \(settled - last) ms after the last, \(conflicts) conflicts"
      )
    }
    try network.close()
  }

  private func origin(_ trail: TrailName) -> Int { Int(trail.origin.dropFirst()) ?? 0 }

  private func rows(_ network: Network, _ table: String) throws -> [[String]] {
    try network.places.map { try $0.node.rows("SELECT * FROM \(table)").sorted() }
  }

  /// The counts of what was captured into a trail.
  private func changes(_ folder: String) throws -> (tokens: UInt64, all: UInt64, others: UInt64) {
    let reader = try TrailReader.open(folder: folder, at: nil)
    var (tokens, all, others): (UInt64, UInt64, UInt64) = (0, 0, 0)
    while let record = try reader.next() {
      guard case .change(let change) = record else {
        if record.isOfChanges { others += 1 }
        continue
      }
      all += 1
      if reader.schema(change.schemaID)?.name == "token" { tokens += 1 }
    }
    return (tokens, all, others)
  }
}
