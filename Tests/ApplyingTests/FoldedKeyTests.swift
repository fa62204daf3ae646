import Changes
import TestServers
import Testing

@testable import Applying

/// Tables of an operator's own whose key equates values that the source distinguishes. In a copy, one row would take
/// the place of another.
@Suite struct FoldedKeyTests {
  @Test(
    arguments: [
      ("k TEXT NOT NULL PRIMARY KEY, v", "", "k TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, v", ""),
      ("k TEXT NOT NULL PRIMARY KEY, v", "", "k TEXT COLLATE RTRIM NOT NULL PRIMARY KEY, v", ""),
      ("k TEXT NOT NULL, v, PRIMARY KEY (k)", "", "k TEXT NOT NULL, v, PRIMARY KEY (k COLLATE NOCASE)", ""),
      ("k TEXT, v TEXT UNIQUE", "", "k TEXT, v TEXT COLLATE NOCASE UNIQUE", ""),
      ("k TEXT, v TEXT", "UNIQUE INDEX i ON t(v)", "k TEXT, v TEXT", "UNIQUE INDEX i ON t(v COLLATE NOCASE)"),
      ("k TEXT, v TEXT UNIQUE", "", "k TEXT, v TEXT UNIQUE", "UNIQUE INDEX i ON t(lower(v))"),
      ("k TEXT, v TEXT", "", "k TEXT, v TEXT", "UNIQUE INDEX i ON t(v) WHERE k > 'a'"),
      ("k TEXT, v TEXT", "INDEX i ON t(lower(v))", "k TEXT, v TEXT", "UNIQUE INDEX i ON t(lower(v))"),
    ])
  func `a key that folds more than the source's is refused`(
    source: String, sourceIndex: String, target: String, targetIndex: String
  ) throws {
    let made = try begun(source, sourceIndex, target, targetIndex)
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("stricter than any of the source's"), "\(error.message)")
    #expect(try made.rows("SELECT count(*) FROM t") == [[0]])
  }

  @Test(
    arguments: [
      ("k TEXT NOT NULL PRIMARY KEY, v", "", "k TEXT NOT NULL, v, PRIMARY KEY (k)", ""),
      ("k TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, v", "", "k TEXT NOT NULL COLLATE NOCASE, v, PRIMARY KEY (k)", ""),
      ("k TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, v", "", "k TEXT NOT NULL PRIMARY KEY, v", ""),
      ("k TEXT NOT NULL PRIMARY KEY, v", "", "k TEXT NOT NULL PRIMARY KEY, v", "UNIQUE INDEX i ON t(k, lower(v))"),
      ("k TEXT NOT NULL PRIMARY KEY, v", "", "k TEXT NOT NULL PRIMARY KEY, v", "UNIQUE INDEX i ON t(k) WHERE v = 'a'"),
      ("k TEXT, v TEXT", "UNIQUE INDEX i ON t(lower(v))", "k TEXT, v TEXT", "UNIQUE INDEX mine ON t ( LOWER(v) )"),
      ("k TEXT, v", "UNIQUE INDEX i ON t(v COLLATE NOCASE)", "k TEXT, v", "UNIQUE INDEX i ON t(v COLLATE NOCASE)"),
    ])
  func `a key that folds no more than the source's is taken`(
    source: String, sourceIndex: String, target: String, targetIndex: String
  ) throws {
    let made = try begun(source, sourceIndex, target, targetIndex)
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[1]])
  }

  private func begun(_ source: String, _ sourceIndex: String, _ target: String, _ targetIndex: String) throws
    -> Handmade
  {
    func script(_ columns: String, _ index: String) -> String {
      "CREATE TABLE t(\(columns));" + (index.isEmpty ? "" : "CREATE \(index);")
    }
    let made = try Handmade(TempFolder())
    try made.run(script(target, targetIndex))
    try made.shape(script(source, sourceIndex))
    try made.transaction {
      try made.create("t")
      try made.copy("t", [["a", "x"]], made.latest("t")?.flags.contains(.wholeRow) == true ? .whole : .byKey)
    }
    return made
  }

  @Test(arguments: ["text COLLATE folded", "jsonb", "interval"])
  func `a key of a type in which different texts are one is refused`(type: String) throws {
    let target = try PostgresTarget()
    try target.psql(
      """
      CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE t(k \(type) PRIMARY KEY, v text)
      """)
    let error = try #require(
      failure { try target.begin("CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v TEXT)", "t", [["1", "x"]]) })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("two rows could become one"), "\(error.message)")
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test(arguments: [("text", true), ("text COLLATE \"C\"", true), ("text COLLATE folded", false)])
  func `a key of PostgreSQL is refused if only the target treats different texts as one`(
    source: String, isRefused: Bool
  ) throws {
    let target = try PostgresTarget()
    let collation =
      "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
    try target.psql("\(collation) CREATE TABLE t(k text COLLATE folded PRIMARY KEY, v text)")
    let error = failure {
      try target.begin(
        postgres: "\(collation) CREATE TABLE t(k \(source) PRIMARY KEY, v text)", "t", [[.exact("1"), .exact("x")]])
    }
    #expect((error?.code == .schemaStopped) == isRefused, "\(error?.message ?? "")")
    #expect(try target.psql("SELECT count(*) FROM t") == (isRefused ? "0" : "1"))
  }

  @Test(arguments: [true, false], ["follow", "given", "unique"])
  func `a collation of the same name makes no one row of two keys that the source distinguishes`(
    isCopied: Bool, kind: String
  ) throws {
    let target = try PostgresTarget()
    func script(isDeterministic: Bool, hasTable: Bool) -> String {
      let column =
        kind == "unique" ? "id int PRIMARY KEY, k text COLLATE folded UNIQUE" : "k text COLLATE folded PRIMARY KEY"
      return
        "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = \(isDeterministic));"
        + (hasTable ? "CREATE TABLE t(\(column), v text)" : "")
    }
    try target.psql(script(isDeterministic: false, hasTable: kind == "given"))
    let rows: [[Value]] = ["a", "A"].enumerated().map {
      (kind == "unique" ? [.exact("\($0)")] : []) + [.exact($1), .exact("x\($0)")]
    }
    let source = script(isDeterministic: true, hasTable: true)
    let error = failure {
      try target.begin(postgres: source, "t", isCopied ? rows : [rows[0]])
      if !isCopied {
        try target.trail.transaction { try target.trail.insert("t", rows[1]) }
        try target.replay()
      }
    }
    #expect(error?.code == .rowExists, "\(error?.message ?? "")")
    guard try target.psql("SELECT to_regclass('t') IS NULL") == "f" else { return }
    #expect(try target.psql("SELECT count(*) FROM t WHERE v = 'x1'") == "0")
  }

  @Test(arguments: [("text", "text COLLATE NOCASE"), ("uuid", "uuid")])
  func `a key that both ends compare alike is taken`(type: String, declared: String) throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE t(k \(type) PRIMARY KEY, v text)")
    try target.begin(
      "CREATE TABLE t(k \(declared) NOT NULL PRIMARY KEY, v TEXT)", "t",
      [["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "x"]])
    #expect(try target.psql("SELECT count(*) FROM t") == "1")
  }
}
