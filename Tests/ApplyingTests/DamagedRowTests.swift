import Applying
import Changes
import Conflicts
import TestServers
import Testing

/// Rows of a trail that lack a value. A capture never writes one, a peer may: nothing of it may become NULL.
struct DamagedRowTests {
  private static let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, w TEXT)"
  private static let first: [[Value]] = [[1, "a", "b"]]

  private func check(_ error: CairnError?, _ column: String) {
    #expect(error?.code == .trailDamaged, "\(String(describing: error))")
    #expect(error?.message.contains("no value for column \(column) of table t") == true, "\(error?.message ?? "")")
  }

  @Test(arguments: [0, 1, 2]) func `a row to insert that lacks a value stops apply to SQLite`(lacking: Int) throws {
    let trail = try Handmade(TempFolder())
    try trail.begin(Self.table, "t", Self.first)
    var row: [Value?] = [2, "c", "d"]
    row[lacking] = nil
    try trail.transaction { try trail.change(.insert, .after, "t", [row]) }
    check(failure { try trail.replay() }, ["id", "v", "w"][lacking])
    #expect(try trail.rows("SELECT count(*) FROM t") == [[1]])
  }

  /// An update may say nothing about the row before it: that row has the key of the row after it.
  @Test(arguments: [LocalWrites.stop, .allow]) func `an update without the row before it finds its row by the key`(
    writes: LocalWrites
  ) throws {
    for row in [[1, "c", nil], [2, "c", "d"], [nil, "c", "d"]] as [[Value?]] {
      let trail = try Handmade(TempFolder())
      try trail.begin(Self.table, "t", Self.first)
      try trail.transaction { try trail.update("t", to: row) }
      var options = ApplyOptions()
      options.localWrites = LocalWritesPlan(writes)
      let error = failure {
        try SQLiteApply(path: trail.target, trail: trail.trail, name: trail.name, options: options).drain()
      }
      switch row[0] {
      case nil: check(error, "id")
      case 1:
        #expect(error == nil, "\(String(describing: error))")
        #expect(try trail.rows("SELECT * FROM t") == [[1, "c", "b"]])
      default: #expect(writes == .stop ? error?.code == .rowMissing : error == nil, "\(String(describing: error))")
      }
    }
    // Without a key, nothing says which row it was.
    let trail = try Handmade(TempFolder())
    try trail.begin("CREATE TABLE t(id INTEGER, v TEXT, w TEXT)", "t", Self.first)
    try trail.transaction { try trail.update("t", to: [1, "c", "d"]) }
    check(failure { try trail.replay() }, "id")
  }

  @Test func `a copied row that lacks a value stops apply to SQLite`() throws {
    let trail = try Handmade(TempFolder())
    try trail.shape(Self.table)
    try trail.transaction {
      try trail.create("t")
      try copy(trail, [2, nil, "d"])
    }
    check(failure { try trail.replay() }, "v")
    if try !trail.rows("SELECT 1 FROM sqlite_master WHERE name = 't'").isEmpty {
      #expect(try trail.rows("SELECT * FROM t").isEmpty)
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a copied row that lacks a value stops apply to PostgreSQL`() throws {
    let target = try PostgresTarget()
    try target.trail.shape(Self.table)
    try target.trail.transaction {
      try target.trail.create("t")
      try copy(target.trail, [2, nil, "d"])
    }
    check(failure { try target.replay() }, "v")
    if try target.psql("SELECT to_regclass('t')") != "" { #expect(try target.psql("SELECT * FROM t") == "") }
  }

  private func copy(_ trail: Handmade, _ row: [Value?]) throws {
    try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 1))
    try trail.refresh("t", .chunk(.keys(after: nil, through: nil)))
    try trail.row("t", row)
    try trail.refresh("t", .end(rows: 1))
  }

  /// The bounds of a chunk and the key of a row on request are looked up by their columns: fewer of them ended the daemon.
  @Test func `a key of a chunk with fewer columns than its table is damage`() throws {
    let bounds: [[Value?]] = [[], [1], [1, nil], [1, nil, nil, nil]]
    for range in bounds.flatMap({ [.keys(after: nil, through: $0), .keys(after: $0, through: nil), .row($0)] })
      as [Refresh.Range]
    {
      for isPostgres in [false, PostgresServer.isAvailable] {
        let trail = try Handmade(TempFolder())
        try trail.shape("CREATE TABLE t(v TEXT, w TEXT, id INTEGER PRIMARY KEY)")
        try trail.transaction {
          try trail.create("t")
          try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 1))
          try trail.refresh("t", .chunk(range))
          try trail.refresh("t", .end(rows: 0))
        }
        let error = failure {
          if isPostgres {
            try PostgresTarget().replay(trail, PostgresApply.Options())
          } else {
            try trail.replay()
          }
        }
        #expect(error?.code == .trailDamaged, "\(range), \(isPostgres): \(String(describing: error))")
      }
    }
  }

  /// An image with another number of values than its table has columns, and a change without one.
  @Test func `a row with too few or too many values is damage`() throws {
    let row: [Value?] = [1, "a", "b"]
    let images: [(Operation, ChangeFlags, [[Value?]])] = [
      (.insert, .after, [[]]), (.insert, .after, [[1]]), (.insert, .after, [row + [1]]), (.insert, .before, [row]),
      (.insert, [], []), (.update, [], []), (.update, .before, [row]), (.delete, [], []), (.delete, .after, [row]),
      (.update, [.before, .after], [[1], row]), (.update, [.before, .after], [row, [1]]), (.update, .after, [[1]]),
      (.delete, .before, [[1]]), (.delete, .before, [row + [.null]]),
    ]
    for (operation, flags, values) in images {
      let trail = try Handmade(TempFolder())
      try trail.begin(Self.table, "t", Self.first)
      try trail.transaction { try trail.change(operation, flags, "t", values) }
      let error = failure { try trail.replay() }
      #expect(error?.code == .trailDamaged, "\(operation) \(values): \(String(describing: error))")
      #expect(try trail.rows("SELECT * FROM t") == Self.first)
    }
  }

  /// A table that comes has no shape before, one that goes none after it. Apply to PostgreSQL tried such a record for ever.
  @Test func `a schema change that names the wrong tables is damage`() throws {
    for (action, before, after) in [
      (DDL.Action.create, UInt64(1), UInt64(1)), (.create, 1, 0), (.create, 0, 0), (.drop, 1, 1), (.drop, 0, 1),
      (.rename, 0, 1), (.rename, 1, 0), (.reshape, 0, 1), (.reshape, 1, 0),
    ] {
      let trail = try Handmade(TempFolder())
      try trail.begin(Self.table, "t", Self.first)
      try trail.transaction {
        try trail.insert("t", [2, "c", "d"])
        var record = ByteWriter()
        record.append(DDL(action: action, before: before, after: after))
        try trail.raw(kind: RecordKind.ddl, Array(record.bytes))
      }
      let error = failure { try trail.replay() }
      #expect(error?.code == .trailDamaged, "\(action) \(before) \(after): \(String(describing: error))")
      #expect(try trail.rows("SELECT * FROM t") == Self.first)
    }
  }

  @Test func `a table with a NUL in a name is refused by name`() throws {
    let trail = try Handmade(TempFolder())
    trail.shape(
      TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "t",
        columns: [
          .init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1),
          .init(name: "a\0", declaredType: "text"),
        ]))
    try trail.transaction { try trail.create("t") }
    let error = failure { try trail.replay() }
    #expect(error?.code == .tableRefused || error?.code == .schemaStopped, "\(String(describing: error))")
    #expect(error?.message.contains("NUL") == true, "\(error?.message ?? "")")
    #expect(try trail.rows("SELECT * FROM sqlite_master WHERE name = 't'").isEmpty)
  }
}
