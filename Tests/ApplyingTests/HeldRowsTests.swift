import Applying
import Changes
import Mapping
import SystemKit
import TestServers
import Testing

/// Rows that are held because another row has their unique value, and what a source may do to their table meanwhile.
@Suite struct HeldRowsTests {
  /// A trail of PostgreSQL, and a target whose table checks its unique column at once.
  private func started(_ engine: TargetEngine, unique: String = "UNIQUE") throws -> EngineTarget {
    let target = try EngineTarget(engine)
    target.options.ddl = .follow
    target.made.shape(table("t", ["id", "v", "w"], at: target))
    try target.make("CREATE TABLE t(id integer PRIMARY KEY, v integer \(unique), w integer)")
    try target.made.transaction {
      try target.made.create("t")
      try target.made.copy("t", [[.exact("1"), .exact("1"), .exact("5")], [.exact("2"), .exact("2"), .exact("6")]])
    }
    try target.replay()
    return target
  }

  /// Only PostgreSQL has a constraint that the source lacks.
  private func table(_ name: String, _ columns: [String], at target: EngineTarget) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: name,
      columns: columns.map {
        .init(name: $0, declaredType: "integer", isNotNull: $0 == "id", keyOrdinal: $0 == "id" ? 1 : 0)
      }, uniques: target.engine != .postgres && columns.count > 1 ? [[1]] : [], createText: "CREATE TABLE …")
  }

  /// An update of the row with the key `id`; nil is a column that stays as it is.
  private func update(_ made: Handmade, _ id: String, _ values: String?..., of table: String = "t") throws {
    try made.update(table, to: ([id] + values).map { text in text.map { .exact($0) } })
  }

  static let changes = ["add column", "rename table", "rename column", "drop column", "drop", "drop and create"]

  @Test(arguments: TargetEngine.all, changes)
  func `values that swapped stay swapped when their table is altered next`(_ engine: TargetEngine, change: String)
    throws
  {
    let target = try started(engine)
    let made = target.made
    try made.transaction {
      try update(made, "1", "2", nil)
      try update(made, "2", "1", nil)
      switch change {
      case "add column":
        try made.reshape("t", table("t", ["id", "v", "w", "c"], at: target))
        try update(made, "1", nil, nil, "7")
      case "rename table":
        try made.reshape("t", table("u", ["id", "v", "w"], at: target), as: .rename, to: "u")
        try update(made, "1", nil, "7", of: "u")
      case "rename column":
        try made.reshape("t", table("t", ["id", "n", "w"], at: target))
        try update(made, "1", nil, "7")
      case "drop column":
        try made.reshape("t", table("t", ["id", "v"], at: target))
        try update(made, "1", "7")
      case "drop": try made.drop("t")
      default:
        try made.drop("t")
        made.shape(table("t", ["id", "v", "w"], at: target))
        try made.create("t")
      }
    }
    try target.replay()
    switch change {
    case "add column": #expect(try target.rows() == "1|2|5|7 2|1|6|")
    case "rename table": #expect(try target.rows("u") == "1|2|7 2|1|6")
    case "rename column": #expect(try target.rows() == "1|2|7 2|1|6")
    case "drop column": #expect(try target.rows() == "1|7 2|1")
    // The table is the operator's, so it stays.
    default: #expect(try target.rows() == "1|2|5 2|1|6")
    }
  }

  @Test(arguments: TargetEngine.all) func `rows held of a table that Cairn made are not in the table made after it`(
    _ engine: TargetEngine
  ) throws {
    let target = try started(engine)
    let made = target.made
    made.shape(table("own", ["id", "v"], at: target))
    try made.transaction {
      try made.create("own")
      try made.copy("own", [[.exact("1"), .exact("1")], [.exact("2"), .exact("2")]])
    }
    try target.replay()
    if engine != .memory { try target.run("CREATE UNIQUE INDEX own_extra ON own(v)") }
    try made.transaction {
      try update(made, "1", "2", of: "own")
      try update(made, "2", "1", of: "own")
      try made.drop("own")
      made.shape(table("own", ["id", "v"], at: target))
      try made.create("own")
      try made.insert("own", [.exact("3"), .exact("3")])
    }
    try target.replay()
    #expect(try target.rows("own") == "3|3")
  }

  /// A deferred constraint may be violated while the table, one of its columns or another table changes.
  @Test(arguments: TargetEngine.all, ["rename table", "rename column", "other table"])
  func `values swap around a schema change`(_ engine: TargetEngine, change: String) throws {
    let target = try started(engine)
    let made = target.made
    try made.transaction {
      try update(made, "1", "2", nil)
      switch change {
      case "rename table": try made.reshape("t", table("u", ["id", "v", "w"], at: target), as: .rename, to: "u")
      case "rename column": try made.reshape("t", table("t", ["id", "v", "n"], at: target))
      default:
        made.shape(table("o", ["id"], at: target))
        try made.create("o")
      }
      let name = change == "rename table" ? "u" : "t"
      try update(made, "1", nil, "7", of: name)
      try update(made, "2", "1", nil, of: name)
    }
    try target.replay()
    let name = change == "rename table" ? "u" : "t"
    #expect(try target.rows(name) == "1|2|7 2|1|6")
  }

  /// PostgreSQL lets a table be renamed, and its columns, while a deferred constraint is violated.
  @Test(arguments: suspending, ["rename column", "rename table"])
  func `values that swap around a change that suspends their table swap when the change is made`(
    at: (engine: TargetEngine, unique: String), change: String
  ) throws {
    let target = try started(at.engine, unique: at.unique)
    let made = target.made
    target.options.ddl = .stop
    let name = change == "rename table" ? "u" : "t"
    try made.transaction {
      try update(made, "2", nil, "8")
      try update(made, "1", "2", nil)
      if name == "u" {
        try made.reshape("t", table("u", ["id", "v", "w"], at: target), as: .rename, to: "u")
      } else {
        try made.reshape("t", table("t", ["id", "v", "n"], at: target))
      }
      try update(made, "2", "1", nil, of: name)
    }
    for _ in 0..<2 {
      let error = failure { try target.replay() }
      #expect(error?.code == .schemaStopped, "\(String(describing: error))")
      #expect(try target.rows(columns: 2) == "1|1 2|2")
    }
    target.options.ddl = .follow
    try target.replay()
    #expect(try target.rows(name) == "1|2|5 2|1|8")
  }

  static let suspending = TargetEngine.databases.flatMap { engine in
    (engine == .postgres ? ["UNIQUE", "UNIQUE DEFERRABLE"] : ["UNIQUE"]).map { (engine, $0) }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: ["rename", "drop", "column"])
  func `a deferrable constraint is checked after its table is altered`(change: String) throws {
    let target = try started(.postgres, unique: "UNIQUE DEFERRABLE")
    let made = target.made
    try made.transaction {
      try update(made, "1", "2", nil)
      try update(made, "2", "1", nil)
      switch change {
      case "rename": try made.reshape("t", table("u", ["id", "v", "w"], at: target), as: .rename, to: "u")
      case "column": try made.reshape("t", table("t", ["id", "n", "w"], at: target))
      default: try made.drop("t")
      }
    }
    try target.replay()
    let column = change == "column" ? "n" : "v"
    let name = change == "rename" ? "u" : "t"
    #expect(try target.rows(name) == "1|2|5 2|1|6")
    guard change != "drop" else { return }
    try made.transaction {
      try update(made, "1", "1", nil, of: name)
      try made.reshape(name, table(name, ["id", column, "w", "z"], at: target))
    }
    #expect(failure { try target.replay() }?.code == .rowExists)
    #expect(try target.rows(name) == "1|2|5 2|1|6")
  }

  @Test(arguments: TargetEngine.all)
  func `a row that is held goes when its table is emptied`(_ engine: TargetEngine) throws {
    let target = try started(engine)
    let made = target.made
    try made.transaction {
      try update(made, "1", "2", nil)
      try made.truncate("t")
      try made.insert("t", [.exact("3"), .exact("3"), .null])
    }
    try target.replay()
    #expect(try target.rows() == "3|3|")
  }

  /// 64 MiB may be held: each transaction needs more than half of that.
  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `rows held in earlier transactions leave room for more`() throws {
    let target = try EngineTarget(.postgres)
    let made = target.made
    target.options.ddl = .follow
    var schema = table("t", ["id", "v", "w"], at: target)
    schema.columns[2].declaredType = "text"
    made.shape(schema)
    try target.make("CREATE TABLE t(id integer PRIMARY KEY, v integer UNIQUE, w text)")
    let large = Value.exact(String(repeating: "x", count: 20 << 20))
    try made.transaction {
      try made.create("t")
      try made.copy("t", (1...3).map { [.exact("\($0)"), .exact("\($0)"), large] })
    }
    try target.replay()
    // Two rows are held, then the third gives its value up.
    for turn in 0..<3 {
      let values = (0..<3).map { "\(($0 + turn + 1) % 3 + 1)" }
      try made.transaction {
        for id in 1...3 { try made.update("t", to: [.exact("\(id)"), .exact(values[id - 1]), nil]) }
      }
    }
    try target.replay()
    #expect(
      try target.answer("SELECT string_agg(concat_ws(':', id, v, length(w)), ' ' ORDER BY id) FROM t")
        == "1:1:20971520 2:2:20971520 3:3:20971520")
  }
}
