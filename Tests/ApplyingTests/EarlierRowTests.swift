import Changes
import Conflicts
import PostgresKit
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// The marks that a waiting row stores of rows of lower rank that hold its unique values.
struct EarlierRowTests {
  enum Engine: CaseIterable { case sqlite, postgres }
  static let engines: [Engine] = PostgresServer.isAvailable ? Engine.allCases : [.sqlite]
  private static let long = String(repeating: "k", count: 100_000)

  /// A table with a row of a long key, and one that has another value.
  private func run(_ engine: Engine, _ body: (Bench) throws -> Void) throws {
    let ddl = """
      CREATE TABLE item(id VARCHAR(200000) PRIMARY KEY, name VARCHAR(9) UNIQUE, code VARCHAR(9) UNIQUE);
      INSERT INTO item VALUES ('\(Self.long)', NULL, 'b'), ('w', 'a', NULL)
      """
    switch engine {
    case .sqlite:
      let database = try Database(path: ":memory:", mode: .create)
      let rows = SQLiteDisplacedRows(database: database)
      try rows.install()
      try database.executeScript(ddl)
      try body(
        Bench(
          store: rows, namespace: "", table: "cairn_candidate", install: rows.install, run: database.executeScript,
          number: { Int(try database.integer($0) ?? 0) }))
    case .postgres:
      let target = try PostgresTarget()
      let connection = try PostgresConnection(target.url)
      let rows = PostgresDisplacedRows(connection)
      try target.psql("CREATE SCHEMA cairn")
      try rows.install()
      try target.psql(ddl)
      try body(
        Bench(
          store: rows, namespace: "public", table: "cairn.candidate", install: rows.install,
          run: { _ = try target.psql($0) }, number: { Int(try target.psql($0)) ?? 0 }))
    }
  }

  /// A target of one engine.
  private struct Bench {
    var store: any DisplacedRowStore
    var namespace: String
    var table: String
    var install: () throws -> Void
    var run: (String) throws -> Void
    var number: (String) throws -> Int

    func row(_ id: String) -> ContestedRow {
      let row = ConflictRow(["id", "name", "code"], [.text(id), .text("a"), .text("b")])
      return ContestedRow(namespace: namespace, table: "item", key: ConflictRow([row.columns[0]]), row: row)
    }

    /// Decides about the waiting rows. Row `w` was written last, and the long one first unless that is forgotten.
    func judge(isLongKnown: Bool = true) throws -> Bool {
      func judge(_ store: some DisplacedRowStore) throws -> Bool {
        try DisplacedRowContest(
          store,
          .init(
            renew: { _ in .asItWas }, ranked: { $0 },
            lastWrite: { row, _ in
              if row.key["id"] == .text("w") { return row.rank(stamp(9)) }
              return isLongKnown ? row.rank(stamp(1)) : nil
            }, noteReturn: { _ in }, log: { _, _, _, _ in })
        ).judge()
      }
      return try judge(store)
    }

    func stamp(_ clock: UInt64) -> VersionStamp { VersionStamp(clock: clock, origin: "n0.shop", number: clock) }
  }

  @Test(arguments: engines) func `many rows that wait store no long key of another row, and all is counted`(
    engine: Engine
  ) throws {
    try run(engine) { bench in
      for id in 0..<50 { try bench.store.add(DisplacedRow(bench.row("n\(id)"), bench.stamp(5))) }
      try #expect(!bench.judge())
      let stored = try bench.number(
        """
        SELECT sum(length(schema_name || table_name || key || content || origin || earlier)) FROM \(bench.table)
        """)
      #expect(stored < 50 * 300)
      try #expect(bench.number("SELECT count(*) FROM \(bench.table) WHERE length(earlier) = 32") == 50)
      try #expect(bench.store.byteCounts()["n0.shop"] ?? 0 >= Int64(stored) - 50 * 6)
      // The long row's write is forgotten, but not that it came earlier.
      try bench.run("DELETE FROM item WHERE id = 'w'")
      try #expect(bench.judge(isLongKnown: false))
      try #expect(bench.number("SELECT count(*) FROM item WHERE id = '\(Self.long)'") == 0)
      try #expect(bench.number("SELECT count(*) FROM item WHERE name = 'a' AND code = 'b'") == 1)
    }
  }

  @Test(arguments: engines) func `whole keys that an old version stored are shortened, and count as before`(
    engine: Engine
  ) throws {
    try run(engine) { bench in
      for id in ["n1", "n2", "n3"] { try bench.store.add(DisplacedRow(bench.row(id), bench.stamp(5))) }
      let key = bench.row(Self.long).key.json
      let keys = key + "\n" + bench.row("x").key.json
      try bench.run("UPDATE \(bench.table) SET earlier = '\(keys)' WHERE key LIKE '%n1%' OR key LIKE '%n3%'")
      try bench.install()
      try #expect(bench.number("SELECT count(*) FROM \(bench.table) WHERE length(earlier) = 65") == 2)
      try bench.install()
      try #expect(bench.number("SELECT count(*) FROM \(bench.table) WHERE length(earlier) = 65") == 2)
      try bench.run("DELETE FROM item WHERE id = 'w'; DELETE FROM \(bench.table) WHERE key LIKE '%n2%'")
      try #expect(bench.judge(isLongKnown: false))
      try #expect(bench.number("SELECT count(*) FROM item WHERE id = '\(Self.long)'") == 0)
    }
  }

  @Test(arguments: engines) func `an entry that cannot be read ends no reading of the others`(engine: Engine) throws {
    try run(engine) { bench in
      for id in ["n1", "n2", "n3"] { try bench.store.add(DisplacedRow(bench.row(id), bench.stamp(5))) }
      try bench.run("UPDATE \(bench.table) SET key = '{ }x' WHERE key LIKE '%n1%'")
      try bench.run("UPDATE \(bench.table) SET content = 'x' WHERE key LIKE '%n2%'")
      var found: [Value?] = []
      try bench.store.forEach { found.append($0.row.key["id"]) }
      #expect(found == [.text("n3")])
    }
  }
}
