import Changes
import TestServers
import Testing

/// Columns with JSON of SQLite that are part of a key: PostgreSQL has no equality for `json`.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct KeyedJSONTests {
  private static let docs = "CREATE TABLE docs(id INTEGER PRIMARY KEY, doc JSON UNIQUE, other JSON)"

  @Test func `unique JSON arrives as text, and stays apart as in SQLite`() throws {
    let target = try PostgresTarget()
    try target.begin(Self.docs + "; CREATE INDEX plain ON docs(other)", "docs", [[1, "{\"a\":1}", "[1]"]])
    try target.trail.transaction {
      try target.trail.insert("docs", [2, "{\"a\": 1}", "[1]"])
      try target.trail.update("docs", [1, "{\"a\":1}", "[1]"], [nil, .integer(5), nil])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM docs ORDER BY id") == "1|5|[1]\n2|{\"a\": 1}|[1]")
    let types =
      "SELECT string_agg(format_type(atttypid, -1), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 0"
    #expect(try target.psql(types) == "bigint,text,json")
    #expect(try target.psql("SELECT count(*) FROM pg_indexes WHERE tablename = 'docs'") == "2")

    // A key that comes later, and goes.
    try target.trail.transaction {
      try target.trail.reshape("docs", Self.docs + "; CREATE UNIQUE INDEX pair ON docs(id, other)")
      try target.trail.insert("docs", [3, .null, "[3]"])
    }
    try target.replay()
    #expect(try target.psql(types) == "bigint,text,text")
    #expect(try target.psql("SELECT count(*) FROM pg_indexes WHERE indexname = 'pair'") == "1")
    try target.trail.transaction {
      try target.trail.reshape("docs", Self.docs)
      try target.trail.insert("docs", [4, .null, "[4]"])
    }
    try target.replay()
    #expect(try target.psql("SELECT id, other FROM docs ORDER BY id") == "1|[1]\n2|[1]\n3|[3]\n4|[4]")
  }

  @Test func `JSON is a primary key, and what a foreign key refers to`() throws {
    let target = try PostgresTarget()
    try target.begin(
      "CREATE TABLE tag(name JSON PRIMARY KEY NOT NULL) WITHOUT ROWID", "tag", [["{\"a\":1}"], ["{\"a\": 1}"]])
    try target.begin(
      "CREATE TABLE use(id INTEGER PRIMARY KEY, tag JSON REFERENCES tag(name))", "use", [[1, "{\"a\": 1}"]])
    try target.trail.transaction { try target.trail.delete("tag", ["{\"a\":1}"]) }
    try target.replay()
    #expect(try target.psql("SELECT tag.name, use.id FROM tag JOIN use ON use.tag = tag.name") == "{\"a\": 1}|1")
    #expect(try target.psql("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == "1")
  }
}
