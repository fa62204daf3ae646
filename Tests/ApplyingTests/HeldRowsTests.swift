import Applying
import Changes
import Mapping
import SystemKit
import TestServers
import Testing

/// Rows that are held because another row has their unique value, and what a source may do to their table meanwhile.
@Suite struct HeldRowsTests {
  /// A trail of PostgreSQL, and either target, whose table checks its unique column at once.
  private final class Both {
    let target: PostgresTarget?
    let made: Handmade

    init(isPostgres: Bool, unique: String = "UNIQUE") throws {
      target = isPostgres ? try PostgresTarget() : nil
      made = try target?.trail ?? Handmade(TempFolder())
      target?.options.ddl = .follow
      made.options.ddl = .follow
      made.shape(table("t", ["id", "v", "w"]))
      try run("CREATE TABLE t(id integer PRIMARY KEY, v integer \(unique), w integer)")
      try made.transaction {
        try made.create("t")
        try made.copy("t", [[.exact("1"), .exact("1"), .exact("5")], [.exact("2"), .exact("2"), .exact("6")]])
      }
      try replay()
    }

    /// SQLite has no constraint that the source lacks.
    func table(_ name: String, _ columns: [String]) -> TableSchema {
      var schema = HeldRowsTests.table(name, columns)
      if target == nil, columns.count > 1 { schema.uniques = [[1]] }
      return schema
    }

    func run(_ sql: String) throws { if let target { try target.psql(sql) } else { try made.run(sql) } }
    func replay() throws { if let target { try target.replay() } else { try made.replay() } }

    func rows(_ sql: String) throws -> String {
      if let target { return try target.psql(sql) }
      return try made.rows(sql).map { $0.map(Self.text).joined(separator: "|") }.joined(separator: "\n")
    }

    private static func text(_ value: Value) -> String {
      if case .integer(let number) = value { "\(number)" } else { value.string }
    }

    /// An update of the row with the key `id`; nil is a column that stays as it is.
    func update(_ id: String, _ values: String?..., of table: String = "t") throws {
      try made.update(table, to: ([id] + values).map { text in text.map { .exact($0) } })
    }
  }

  static func table(_ name: String, _ columns: [String]) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: name,
      columns: columns.map {
        .init(name: $0, declaredType: "integer", isNotNull: $0 == "id", keyOrdinal: $0 == "id" ? 1 : 0)
      }, createText: "CREATE TABLE …")
  }

  static let engines = PostgresServer.isAvailable ? [false, true] : [false]
  static let changes = ["add column", "rename table", "rename column", "drop column", "drop", "drop and create"]

  @Test(arguments: engines, changes)
  func `values that swapped stay swapped when their table is altered next`(isPostgres: Bool, change: String) throws {
    let both = try Both(isPostgres: isPostgres)
    let made = both.made
    try made.transaction {
      try both.update("1", "2", nil)
      try both.update("2", "1", nil)
      switch change {
      case "add column":
        try made.reshape("t", both.table("t", ["id", "v", "w", "c"]))
        try both.update("1", nil, nil, "7")
      case "rename table":
        try made.reshape("t", both.table("u", ["id", "v", "w"]), as: .rename, to: "u")
        try both.update("1", nil, "7", of: "u")
      case "rename column":
        try made.reshape("t", both.table("t", ["id", "n", "w"]))
        try both.update("1", nil, "7")
      case "drop column":
        try made.reshape("t", both.table("t", ["id", "v"]))
        try both.update("1", "7")
      case "drop": try made.drop("t")
      default:
        try made.drop("t")
        made.shape(both.table("t", ["id", "v", "w"]))
        try made.create("t")
      }
    }
    try both.replay()
    switch change {
    case "add column": #expect(try both.rows("SELECT * FROM t ORDER BY id") == "1|2|5|7\n2|1|6|")
    case "rename table": #expect(try both.rows("SELECT * FROM u ORDER BY id") == "1|2|7\n2|1|6")
    case "rename column": #expect(try both.rows("SELECT n, w FROM t ORDER BY id") == "2|7\n1|6")
    case "drop column": #expect(try both.rows("SELECT * FROM t ORDER BY id") == "1|7\n2|1")
    // The table is the operator's, so it stays.
    default: #expect(try both.rows("SELECT id, v FROM t ORDER BY id") == "1|2\n2|1")
    }
  }

  @Test(arguments: engines) func `rows held of a table that Cairn made are not in the table made after it`(
    isPostgres: Bool
  ) throws {
    let both = try Both(isPostgres: isPostgres)
    let made = both.made
    made.shape(both.table("own", ["id", "v"]))
    try made.transaction {
      try made.create("own")
      try made.copy("own", [[.exact("1"), .exact("1")], [.exact("2"), .exact("2")]])
    }
    try both.replay()
    try both.run("CREATE UNIQUE INDEX own_extra ON own(v)")
    try made.transaction {
      try both.update("1", "2", of: "own")
      try both.update("2", "1", of: "own")
      try made.drop("own")
      made.shape(both.table("own", ["id", "v"]))
      try made.create("own")
      try made.insert("own", [.exact("3"), .exact("3")])
    }
    try both.replay()
    #expect(try both.rows("SELECT * FROM own") == "3|3")
  }

  /// A deferred constraint may be violated while the table, one of its columns or another table changes.
  @Test(arguments: engines, ["rename table", "rename column", "other table"])
  func `values swap around a schema change`(isPostgres: Bool, change: String) throws {
    let both = try Both(isPostgres: isPostgres)
    let made = both.made
    try made.transaction {
      try both.update("1", "2", nil)
      switch change {
      case "rename table": try made.reshape("t", both.table("u", ["id", "v", "w"]), as: .rename, to: "u")
      case "rename column": try made.reshape("t", both.table("t", ["id", "v", "n"]))
      default:
        made.shape(both.table("o", ["id"]))
        try made.create("o")
      }
      let name = change == "rename table" ? "u" : "t"
      try both.update("1", nil, "7", of: name)
      try both.update("2", "1", nil, of: name)
    }
    try both.replay()
    let name = change == "rename table" ? "u" : "t"
    #expect(try both.rows("SELECT * FROM \(name) ORDER BY id") == "1|2|7\n2|1|6")
  }

  /// PostgreSQL lets a table be renamed, and its columns, while a deferred constraint is violated.
  @Test(arguments: targets, ["rename column", "rename table"])
  func `values that swap around a change that suspends their table swap when the change is made`(
    target: String, change: String
  ) throws {
    let unique = target == "deferrable" ? "UNIQUE DEFERRABLE" : "UNIQUE"
    let both = try Both(isPostgres: target != "SQLite", unique: unique)
    let made = both.made
    func set(_ policy: DDLPolicy) {
      both.target?.options.ddl = policy
      made.options.ddl = policy
    }
    set(.stop)
    let name = change == "rename table" ? "u" : "t"
    try made.transaction {
      try both.update("2", nil, "8")
      try both.update("1", "2", nil)
      if name == "u" {
        try made.reshape("t", both.table("u", ["id", "v", "w"]), as: .rename, to: "u")
      } else {
        try made.reshape("t", both.table("t", ["id", "v", "n"]))
      }
      try both.update("2", "1", nil, of: name)
    }
    for _ in 0..<2 {
      let error = failure { try both.replay() }
      #expect(error?.code == .schemaStopped, "\(String(describing: error))")
      #expect(try both.rows("SELECT id, v FROM t ORDER BY id") == "1|1\n2|2")
    }
    set(.follow)
    try both.replay()
    #expect(try both.rows("SELECT * FROM \(name) ORDER BY id") == "1|2|5\n2|1|8")
  }

  static let targets = PostgresServer.isAvailable ? ["SQLite", "PostgreSQL", "deferrable"] : ["SQLite"]

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: ["rename", "drop", "column"])
  func `a deferrable constraint is checked after its table is altered`(change: String) throws {
    let both = try Both(isPostgres: true, unique: "UNIQUE DEFERRABLE")
    let made = both.made
    try made.transaction {
      try both.update("1", "2", nil)
      try both.update("2", "1", nil)
      switch change {
      case "rename": try made.reshape("t", both.table("u", ["id", "v", "w"]), as: .rename, to: "u")
      case "column": try made.reshape("t", both.table("t", ["id", "n", "w"]))
      default: try made.drop("t")
      }
    }
    try both.replay()
    let column = change == "column" ? "n" : "v"
    let name = change == "rename" ? "u" : "t"
    #expect(try both.rows("SELECT \(column) FROM \(name) ORDER BY id") == "2\n1")
    guard change != "drop" else { return }
    try made.transaction {
      try both.update("1", "1", nil, of: name)
      try made.reshape(name, both.table(name, ["id", column, "w", "z"]))
    }
    #expect(failure { try both.replay() }?.code == .rowExists)
    #expect(try both.rows("SELECT \(column) FROM \(name) ORDER BY id") == "2\n1")
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a row held at a PostgreSQL target goes when its table is emptied`() throws {
    let both = try Both(isPostgres: true)
    try both.made.transaction {
      try both.update("1", "2", nil)
      try both.made.truncate("t")
      try both.made.insert("t", [.exact("3"), .exact("3"), .null])
    }
    try both.replay()
    #expect(try both.rows("SELECT * FROM t") == "3|3|")
  }

  /// 64 MiB may be held: each transaction needs more than half of that.
  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `rows held in earlier transactions leave room for more`() throws {
    let target = try PostgresTarget()
    target.options.ddl = .follow
    var schema = Self.table("t", ["id", "v", "w"])
    schema.columns[2].declaredType = "text"
    target.trail.shape(schema)
    try target.psql("CREATE TABLE t(id integer PRIMARY KEY, v integer UNIQUE, w text)")
    let large = Value.exact(String(repeating: "x", count: 20 << 20))
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.copy("t", (1...3).map { [.exact("\($0)"), .exact("\($0)"), large] })
    }
    try target.replay()
    // Two rows are held, then the third gives its value up.
    for turn in 0..<3 {
      let values = (0..<3).map { "\(($0 + turn + 1) % 3 + 1)" }
      try target.trail.transaction {
        for id in 1...3 { try target.trail.update("t", to: [.exact("\(id)"), .exact(values[id - 1]), nil]) }
      }
    }
    try target.replay()
    #expect(try target.psql("SELECT id, v, length(w) FROM t ORDER BY id") == "1|1|20971520\n2|2|20971520\n3|3|20971520")
  }
}
