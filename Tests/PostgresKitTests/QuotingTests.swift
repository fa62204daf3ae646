import Changes
import PostgresKit
import TestServers
import Testing

/// PostgreSQL reads back what is quoted, whatever is beside the quotes. (C1 of the threat model.)
@Suite(.enabled(if: PostgresServer.isAvailable)) struct QuotingTests {
  @Test(arguments: ["on", "off"]) func `the server reads literals and names back`(conforming: String) throws {
    let database = try PostgresServer.shared.createDatabase("quoting_\(conforming)")
    let connection = try PostgresConnection(database)
    try connection.executeScript("SET standard_conforming_strings = \(conforming)")
    try connection.execute("SET escape_string_warning = off")
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    for scalar in HostileText.scalars {
      var texts: [String] = []
      for quote in ["'", "\"", "\\"] as [Unicode.Scalar] {
        texts += [HostileText.string([scalar, quote, random.hostileScalar()])]
        texts += [HostileText.string([random.hostileScalar(), quote, scalar, quote])]
      }
      texts.append(random.hostileText(upTo: 10))
      // One statement that the server must take as one row of so many columns.
      let plain = texts.map { "\($0.postgresLiteral)::text" }
      let lines = texts.map { "\($0.postgresLineLiteral)::text" }
      let rows = try connection.query("SELECT \((plain + lines).joined(separator: ", "))")
      #expect(rows.count == 1)
      for (read, text) in zip(rows[0], texts + texts) {
        #expect(read.map { Array($0.utf8) } == Array(text.utf8), "seed \(seed)")
      }
      for text in texts {
        let tagged = text + "$cairn$" + text + "$cairn1$;$cairn"
        let read = try connection.first("SELECT \(tagged.dollarQuoted)::text")
        #expect(read.map { Array($0.utf8) } == Array(tagged.utf8), "seed \(seed)")
      }
      for text in texts where !text.isEmpty {
        let name = try connection.first(
          "SELECT jsonb_object_keys(to_jsonb(t)) FROM (SELECT 1 AS \(text.quotedName)) AS t")
        #expect(name.map { Array($0.utf8) } == Array(text.utf8), "seed \(seed)")
      }
    }
  }

  @Test func `one call runs one statement`() throws {
    let database = try PostgresServer.shared.createDatabase("one_statement")
    let connection = try PostgresConnection(database)
    try connection.execute("CREATE TABLE public.canary()")
    for run in [
      { try connection.execute("SELECT 1; DROP TABLE public.canary") },
      { try connection.query("SELECT 1; DROP TABLE public.canary") },
      { try connection.copyOut("COPY (SELECT 1) TO STDOUT; DROP TABLE public.canary") { _ in } },
      { try connection.beginCopyIn("COPY public.canary FROM STDIN; DROP TABLE public.canary") },
    ] as [() throws -> Void] {
      #expect { try run() } throws: { ($0 as? PostgresError)?.sqlState == "42601" }
    }
    #expect(try connection.first("SELECT to_regclass('public.canary') IS NOT NULL") == "t")
  }

  @Test func `a NUL in a statement or a value is refused, and nothing is cut off`() throws {
    let connection = try PostgresConnection(PostgresServer.shared.createDatabase("nul"))
    for run in [
      { try connection.query("SELECT $1::text", ["a\0b"]) }, { try connection.execute("SELECT 1 \0 rubbish") },
      { try connection.execute("SELECT \("a\0b".postgresLiteral)") },
    ] as [() throws -> Void] {
      #expect { try run() } throws: { ($0 as? PostgresError)?.sqlState == "22021" }
    }
  }

  @Test func `rows are read one by one, and their values are bound as texts`() throws {
    let connection = try PostgresConnection(PostgresServer.shared.createDatabase("rows"))
    try connection.execute("CREATE TABLE public.t(id bigint, a text, b bytea, d date)")
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    var texts = (0..<50).map { _ in random.hostileText(upTo: 10) }
    texts += [
      "'\u{301}; DROP TABLE public.t; --", #"\'"#, #"E'\047'"#, "$1", "", String(repeating: "'\\", count: 1 << 20),
    ]
    for text in texts {
      var found: [[[UInt8]?]] = []
      // Parameter 4 is not in the statement.
      try connection.forEachRow(
        "INSERT INTO public.t VALUES (1, $1::text, $2::bytea, $3::date), (2, NULL, NULL, NULL) RETURNING *",
        [text, "\\x\(Array(text.utf8).hex)", "2026-11-27", "unused"]
      ) { found.append($0.map { $0.map(Array.init) }) }
      let wanted = ["1", text, "\\x\(Array(text.utf8).hex)", "2026-11-27"].map { Array($0.utf8) }
      #expect(found == [wanted, [Array("2".utf8), nil, nil, nil]], "seed \(seed)")
    }
    var count = 0
    try connection.forEachRow("SELECT g FROM generate_series(1, 100000) AS g", []) { _ in count += 1 }
    #expect(count == 100_000)
    #expect {
      try connection.forEachRow("SELECT 1 / (3 - g) FROM generate_series(1, 9) AS g", []) { _ in count += 1 }
    } throws: { ($0 as? PostgresError)?.sqlState == "22012" }
    #expect { try connection.forEachRow("SELECT $1", ["a\0b"]) { _ in count += 1 } } throws: {
      ($0 as? PostgresError)?.sqlState == "22021"
    }
    #expect { try connection.forEachRow("SELECT 1; DROP TABLE public.t", []) { _ in count += 1 } } throws: {
      ($0 as? PostgresError)?.sqlState == "42601"
    }
    #expect(try connection.first("SELECT count(*) FROM public.t") == "\(2 * texts.count)")
  }

  @Test func `COPY takes bound values, whatever they hold`() throws {
    let connection = try PostgresConnection(PostgresServer.shared.createDatabase("bound"))
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    try connection.transaction {
      for _ in 0..<50 {
        let row = [random.hostileText(upTo: 10), random.hostileText(upTo: 10)]
        try connection.bind(row, as: "one")
        let terms = row.indices.map { PostgresConnection.bound("one", $0) }
        var found: [[String?]] = []
        try connection.copyOut("COPY (SELECT \(terms.joined(separator: ", "))) TO STDOUT") {
          found.append(CopyText.fields($0))
        }
        #expect(found.map { $0.map { Array(($0 ?? "").utf8) } } == [row.map { Array($0.utf8) }], "seed \(seed)")
        var rows: [[String?]] = []
        for _ in 0..<5 { rows.append([random.hostileText(upTo: 8), nil, random.hostileText(upTo: 8)]) }
        try connection.bind(rows: rows, as: "many")
        found = []
        try connection.copyOut("COPY (SELECT * FROM \(PostgresConnection.boundRows("many", 3))) TO STDOUT") {
          found.append(CopyText.fields($0))
        }
        #expect(
          found.map { $0.map { $0.map { Array($0.utf8) } } } == rows.map { $0.map { $0.map { Array($0.utf8) } } },
          "seed \(seed)")
      }
    }
  }

  @Test func `tables with one full name are refused, and those whose bytes differ are not`() throws {
    let connection = try PostgresConnection(PostgresServer.shared.createDatabase("alike"))
    for sql in [
      "CREATE TABLE public.\"caf\u{e9}\"(id int PRIMARY KEY)",
      "CREATE TABLE public.\"cafe\u{301}\"(id int PRIMARY KEY)",
      "CREATE SCHEMA \"a.b\"", "CREATE SCHEMA a", "CREATE TABLE \"a.b\".c(id int PRIMARY KEY)",
      "CREATE TABLE a.\"b.c\"(id int PRIMARY KEY)",
      "CREATE TABLE public.columns(\"\u{e9}\" int PRIMARY KEY, \"e\u{301}\" int)",
      "CREATE TABLE public.fine(id int PRIMARY KEY)",
    ] { try connection.execute(sql) }
    let tables = try connection.userTables()
    let taken = tables.filter { $0.refusal == nil }.map(\.schema.name.nameKey)
    #expect(taken.sorted() == ["caf\u{e9}", "cafe\u{301}", "fine"].map(\.nameKey).sorted())
    for table in tables where table.refusal != nil && table.schema.name != "columns" {
      let group = tables.filter { $0.schema.fullName.hasSameBytes(as: table.schema.fullName) }
      let other = try #require(group.first { $0.oid != table.oid })
      let reason = table.refusal?.reason ?? ""
      #expect(Array(reason.utf8).contains(Array(other.schema.qualifiedName.utf8)))
    }
  }

  @Test func `a foreign key has its columns, whatever their names hold`() throws {
    let connection = try PostgresConnection(PostgresServer.shared.createDatabase("separators"))
    for sql in [
      "CREATE TABLE one(\"a\u{1f}b\" int PRIMARY KEY)",
      "CREATE TABLE two(\"a\u{1f}\" int, b int, PRIMARY KEY (\"a\u{1f}\", b))",
      "CREATE TABLE plain(\"e\u{301}\" int, \"\u{301}x\" int, PRIMARY KEY (\"e\u{301}\", \"\u{301}x\"))",
      "CREATE TABLE t(id int PRIMARY KEY, x int REFERENCES one, y int, FOREIGN KEY (x, y) REFERENCES plain)",
      "CREATE TABLE left_out(id int PRIMARY KEY, x int, FOREIGN KEY (id, x) REFERENCES two)",
    ] {
      try connection.execute(
        sql.replacing("TABLE ", with: "TABLE public.").replacing("REFERENCES ", with: "REFERENCES public."))
    }
    let tables = try connection.userTables()
    let keys = try #require(tables.first { $0.schema.name == "t" }).schema.foreignKeys
    #expect(keys.contains { $0.references.hasSameBytes(as: ["a\u{1f}b"]) })
    #expect(keys.contains { $0.references.hasSameBytes(as: ["e\u{301}", "\u{301}x"]) })
    // If the columns cannot be distinguished, the key is left out rather than lead elsewhere.
    #expect(try #require(tables.first { $0.schema.name == "left_out" }).schema.foreignKeys.isEmpty)
  }
}
