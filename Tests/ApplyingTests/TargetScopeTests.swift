import Changes
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing
@testable import Applying

/// Invariant 11: a trail writes only to the tables that the conf of its apply allows.
@Suite struct TargetScopeTests {
  // MARK: The decision

  @Test func `names of Cairn and of the engines are reserved, however they are written`() {
    let reserved: [(String, String)] = [
      ("cairn", "pending"), ("CAIRN", "x"), ("cairn_ddl", "x"), ("pg_catalog", "pg_class"), ("Pg_Temp_3", "x"),
      ("information_schema", "tables"), ("public", "cairn_checkpoint"), ("", "sqlite_schema"), ("", "SQLITE_SEQUENCE"),
      ("", "Cairn_journal"), ("", ""), ("cairn\0", "x"), ("public", "item\0"), ("", "cairn_\u{301}"),
    ]
    for (namespace, name) in reserved {
      for engine in [Engine.sqlite, .postgres] {
        #expect(TargetScope().verdict(namespace, name, in: engine) == .reserved, "\(namespace).\(name)")
      }
    }
    #expect(TargetScope().verdict("public", String(repeating: "a", count: 64), in: .postgres) == .reserved)
    for (namespace, name) in [("public", "cairns"), ("sales", "pg_orders"), ("", "sqlite"), ("pgdata", "cairn")] {
      #expect(TargetScope().verdict(namespace, name, in: .postgres) == .allowed, "\(namespace).\(name)")
    }
  }

  @Test func `a list names tables as a capture's list does, and the schema public may be left out`() {
    let scope = TargetScope(["sales.*", "item", "!sales.secret*"])
    #expect(scope.verdict("sales", "orders", in: .postgres) == .allowed)
    #expect(scope.verdict("Sales", "Orders", in: .postgres) == .allowed)
    #expect(scope.verdict("sales", "secret_a", in: .postgres) == .leftOut)
    #expect(scope.verdict("public", "item", in: .postgres) == .allowed)
    #expect(scope.verdict("hr", "item", in: .postgres) == .leftOut)
    #expect(TargetScope(["public.item"]).verdict("public", "item", in: .postgres) == .allowed)
    #expect(TargetScope(["*", "!public.item"]).verdict("public", "item", in: .postgres) == .leftOut)
    // A dot in a name is none between schema and name.
    #expect(scope.verdict("public", "sales.orders", in: .postgres) == .leftOut)
    #expect(scope.verdict("sales.x", "orders", in: .postgres) == .leftOut)
  }

  /// An oracle of its own: the C library's matcher.
  private static func isIncluded(_ patterns: [String], _ names: [String]) -> Bool {
    var included = patterns.allSatisfy { $0.hasPrefix("!") }
    for pattern in patterns {
      let plain = pattern.hasPrefix("!") ? String(pattern.dropFirst()) : pattern
      if names.contains(where: { fnmatch(plain, $0, 0) == 0 }) { included = !pattern.hasPrefix("!") }
    }
    return included
  }

  @Test func `a list says from which schemas it can include tables`() {
    func includes(_ list: [String], _ schema: String) -> Bool { TargetScope(list).includes(schema: schema) }
    for list in [
      ["*"], ["sales.*"], ["sales.o*"], ["sales.orders"], ["SALES.x"], ["s?les.*"], ["!hr.*"],
    ] {
      #expect(includes(list, "sales"), "\(list)")
    }
    for list in [
      ["hr.*"], ["s*"], ["*orders"], ["sales"], ["salesx.*"], ["ales.*"], ["*", "!sales.*"], ["sales.*", "!sales.*"],
      ["sales"],
    ] {
      #expect(!includes(list, "sales"), "\(list)")
    }
    #expect(includes(["*", "!sales.secret"], "sales") && includes(["!sales.*", "sales.x"], "sales"))
    #expect(includes(["orders"], "public") && includes(["public.orders"], "public") && !includes(["sales.*"], "public"))
    #expect(!includes(["orders", "!*"], "public") && includes(["sales.*", "!sales.?", "!sales.a*"], "sales"))
    // However a table of the schema is called: whenever it is allowed, so is its schema.
    var random = SystemRandomNumberGenerator()
    let parts = ["sales", "hr", "public", "*", "s*", "?r", "!sales", "!*", "!hr"]
    for _ in 0..<2000 {
      let list = (0..<Int.random(in: 1...4, using: &random)).map { _ in
        let first = parts.randomElement(using: &random) ?? ""
        return Bool.random(using: &random) ? first : first + "." + (["*", "a", "a*", "b"].randomElement() ?? "")
      }
      for schema in ["sales", "hr", "public"] {
        for table in ["a", "b", "ab", "sales", "hr"]
        where TargetScope(list).verdict(schema, table, in: .postgres) == .allowed {
          #expect(includes(list, schema), "\(list) \(schema).\(table)")
        }
      }
    }
  }

  @Test func `a pattern without a dot stays in the schema public in the list of an apply`() {
    for (tables, allowed, left) in [
      (["evil_*"], ["public.evil_a"], ["evil_other.salaries", "evil_other.evil_a", "hr.evil_a"]),
      (["*"], ["public.a", "hr.a"], []),
      (["*", "!tmp_*"], ["public.a", "hr.a"], ["public.tmp_a", "hr.tmp_a", "tmp_x.a"]),
      (["s*"], ["public.sales"], ["sales.orders", "hr.sales"]),
      (["sales.*"], ["sales.orders"], ["public.sales", "hr.orders"]),
      (["orders"], ["public.orders"], ["hr.orders"]),
      (["*", "!secret"], ["hr.open"], ["hr.secret", "public.secret"]),
    ] as [([String], [String], [String])] {
      for (names, expected) in [(allowed, true), (left, false)] {
        for name in names {
          let parts = name.split(separator: ".").map(String.init)
          let verdict = TargetScope(tables).verdict(parts[0], parts[1], in: .postgres)
          #expect((verdict == .allowed) == expected, "\(tables) \(name)")
        }
      }
    }
  }

  @Test func `random lists and random records: only listed tables are taken`() throws {
    var random = SystemRandomNumberGenerator()
    let spaces = ["public", "sales", "hr", "cairn", "pg_catalog", "information_schema", "cairn_x"]
    let tables = ["orders", "secret", "item", "cairn_pending", "sqlite_schema", "o"]
    let parts = [
      "*", "orders", "o*", "sales.*", "hr.item", "!secret", "!sales.s*", "!*", "it?m", "public.o*", "*.item",
    ]
    var taken = 0
    for _ in 0..<4_000 {
      let patterns = (0..<Int.random(in: 1...4, using: &random)).compactMap { _ in parts.randomElement(using: &random) }
      var options = ApplyOptions()
      options.scope = TargetScope(patterns)
      var gate = TargetGate(options, to: .postgres, of: Handmade.name)
      var schemas: [UInt64: TableSchema] = [:]
      for id in UInt64(1)...6 {
        schemas[id] = TableSchema(
          epoch: 1, engine: .postgres, namespace: spaces.randomElement(using: &random) ?? "",
          name: tables.randomElement(using: &random) ?? "", columns: [])
      }
      for _ in 0..<12 {
        let (id, other) = (UInt64.random(in: 1...6, using: &random), UInt64.random(in: 0...6, using: &random))
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let records: [Record] = [
          .change(ChangeView(.insert, schemaID: id)), .refreshRow(schemaID: id, ImageView(bytes: none)),
          .waitingRow(
            WaitingRow(schemaID: id, image: ImageView(bytes: none), clock: 0, origin: "", number: 0)),
          .refresh(Refresh(schemaID: id, event: .end(rows: 0))),
          .ddl(DDL(action: .drop, before: id, after: 0)), .ddl(DDL(action: .rename, before: other, after: id)),
        ]
        guard let record = records.randomElement(using: &random) else { continue }
        guard case .taken(let left) = try gate.admit(record, in: 1, { schemas[$0] }, given: { schemas[$0] }) else {
          continue
        }
        taken += 1
        var ids = [id]
        if case .ddl(let ddl) = left { ids = [ddl.before, ddl.after].filter { $0 != 0 } }
        for table in ids.compactMap({ schemas[$0] }) {
          let whole = "\(table.namespace).\(table.name)"
          let names = table.namespace == "public" ? [table.name, whole] : [whole]
          #expect(Self.isIncluded(patterns, names), "\(patterns) took \(whole)")
          #expect(!["cairn", "cairn_x", "pg_catalog", "information_schema"].contains(table.namespace), "\(whole)")
          #expect(!table.name.hasPrefix("cairn_") && !table.name.hasPrefix("sqlite_"), "\(whole)")
        }
      }
    }
    #expect(taken > 1_000)
  }

  // MARK: Every kind of record, into both engines

  enum Kind: CaseIterable {
    case insert, update, delete, truncate, copy, chunk, waiting, create, drop, rename, reshape
  }

  static let row: [Value] = [.exact("1"), .exact("x")]

  static func schema(_ namespace: String, _ name: String, _ engine: Engine = .postgres) -> TableSchema {
    let type = engine == .postgres ? ("integer", "text") : ("INTEGER", "TEXT")
    return TableSchema(
      epoch: 1, engine: engine, namespace: namespace, name: name,
      columns: [
        .init(name: "id", declaredType: type.0, isNotNull: true, keyOrdinal: 1), .init(name: "v", declaredType: type.1),
      ],
      createText: engine == .postgres
        ? "CREATE TABLE \(namespace.quotedName).\(name.quotedName)(id integer PRIMARY KEY, v text)"
        : "CREATE TABLE \(name.quotedName)(id INTEGER PRIMARY KEY, v TEXT)")
  }

  /// One transaction in which a hostile node names a table in a record of that kind.
  static func attack(_ made: Handmade, _ schema: TableSchema, _ kind: Kind) throws {
    let name = ["", "public"].contains(schema.namespace) ? schema.name : "\(schema.namespace).\(schema.name)"
    let row: [Value] = schema.engine == .postgres ? row : [1, "x"]
    made.shape(schema)
    try made.transaction {
      switch kind {
      case .insert: try made.insert(name, row)
      case .update: try made.update(name, to: row)
      case .delete: try made.delete(name, row)
      case .truncate: try made.truncate(name)
      case .copy: try made.copy(name, [row])
      case .waiting: try made.waiting(name, row)
      case .chunk: try made.refresh(name, .chunk(.keys(after: nil, through: nil)))
      case .create: try made.create(name)
      case .drop: try made.drop(name)
      case .rename:
        var moved = schema
        moved.name = "innocent"
        moved.namespace = schema.engine == .postgres ? "public" : ""
        try made.reshape(name, moved, as: .rename, to: "innocent")
      case .reshape:
        var wider = schema
        wider.columns.append(.init(name: "more", declaredType: "text"))
        try made.reshape(name, wider)
      }
    }
  }

  private static let canary = """
    SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
      SELECT c.oid || ' ' || n.nspname || '.' || c.relname || ' ' || c.relnatts AS x FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname NOT IN ('pg_toast') AND c.relname !~ '^pg_'
      UNION ALL SELECT 'ledger ' || to_jsonb(l)::text FROM public.ledger l
      UNION ALL SELECT 'pending ' || to_jsonb(p)::text FROM cairn.pending p
      UNION ALL SELECT 'state ' || to_jsonb(s)::text FROM cairn.table_state s WHERE trail NOT LIKE 'evil.%'
      UNION ALL SELECT 'at ' || to_jsonb(c)::text FROM cairn.checkpoint c WHERE trail NOT LIKE 'evil.%') AS all_of_it
    """

  @Test(arguments: [
    ("cairn", "pending"), ("cairn", "checkpoint"), ("pg_catalog", "pg_authid"), ("information_schema", "sql_features"),
    ("public", "cairn_notes"), ("public", "sqlite_schema"),
  ]) func `no record writes a reserved table of PostgreSQL`(_ place: (String, String)) throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE ledger(id integer PRIMARY KEY, v text); INSERT INTO ledger VALUES (1, 'whole')")
    try target.begin(postgres: "CREATE TABLE item(id integer PRIMARY KEY, v text)", "item", [Self.row])
    let before = try target.psql(Self.canary)
    for kind in Kind.allCases {
      for engine in [Engine.postgres, .sqlite] {
        // By way of the name that SQLite's table would have here, only names without a schema can be reached.
        if engine == .sqlite, place.0 != "public" { continue }
        let evil = try Handmade(TempFolder(), name: .init(origin: "evil", name: "\(kind)-\(engine)"))
        try Self.attack(evil, Self.schema(engine == .sqlite ? "" : place.0, place.1, engine), kind)
        let left = LeftOut()
        var options = PostgresApply.Options()
        options.noteLeftOut = left.add
        let error = failure { try target.replay(evil, options) }
        // After a rename to a name that is not reserved, the table waits for a copy: its rows were left out.
        #expect(error?.code == (kind == .rename ? .schemaStopped : nil), "\(kind): \(error?.description ?? "")")
        #expect(left.all.map(\.name).contains(place.1), "\(kind) of \(place)")
        #expect(try target.psql(Self.canary) == before, "\(kind) of \(place)")
      }
    }
    // The other trail goes on.
    try target.trail.transaction { try target.trail.insert("item", [.exact("2"), .exact("y")]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM item") == "2")
  }

  @Test(arguments: ["cairn_checkpoint", "CAIRN_table", "sqlite_schema", "sqlite_sequence"])
  func `no record writes a reserved table of SQLite`(_ name: String) throws {
    for kind in Kind.allCases {
      for engine in [Engine.sqlite, .postgres] {
        let folder = try TempFolder()
        let good = try Handmade(folder)
        try good.begin("CREATE TABLE item(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)", "item", [[1, "x"]])
        func canary() throws -> [[Value]] {
          try [
            "SELECT type, name, sql FROM sqlite_schema ORDER BY name",
            "SELECT * FROM cairn_table WHERE trail <> 'evil.n'",
            "SELECT trail, number FROM cairn_checkpoint WHERE trail <> 'evil.n'", "SELECT * FROM sqlite_sequence",
          ].flatMap { try good.rows($0) }
        }
        let before = try canary()
        let evil = try Handmade(folder, trail: "evil", name: .init(origin: "evil", name: "n"))
        try Self.attack(evil, Self.schema(engine == .postgres ? "public" : "", name, engine), kind)
        let left = LeftOut()
        evil.options.noteLeftOut = left.add
        let error = failure { try evil.replay() }
        #expect(
          error?.code == (kind == .rename ? .schemaStopped : nil), "\(kind) \(engine): \(error?.description ?? "")")
        #expect(left.all.map(\.name).contains(name), "\(kind) of \(name)")
        #expect(try canary() == before, "\(kind) of \(name)")
      }
    }
  }

  @Test(arguments: [true, false]) func `a reserved table or sequence stops no other table of its trail`(
    quarantines: Bool
  ) throws {
    for kind in Kind.allCases where kind != .rename {
      let made = try Handmade(TempFolder())
      made.options.quarantines = quarantines
      try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)", "item", [[1, "x"]])
      try Self.attack(made, Self.schema("", "cairn_table", .sqlite), kind)
      try made.transaction { try made.insert("item", [2, "y"]) }
      try made.replay()
      #expect(try made.rows("SELECT id FROM item ORDER BY id") == [[1], [2]], "\(kind)")
      if quarantines { #expect(try QuarantineLog(Database(path: made.target)).list().isEmpty) }
    }

    let target = try PostgresTarget()
    try target.psql("CREATE SEQUENCE cairn_seq")
    try target.begin(postgres: "CREATE TABLE item(id integer PRIMARY KEY, v text)", "item", [Self.row])
    target.options.quarantines = quarantines
    let left = LeftOut()
    target.options.noteLeftOut = left.add
    for kind in Kind.allCases where kind != .rename {
      try Self.attack(target.trail, Self.schema("public", "sqlite_y"), kind)
    }
    try target.trail.transaction {
      try target.trail.insert("item", [.exact("2"), .exact("y")])
      var record = ByteWriter()
      record.append(SequenceState(namespace: "public", name: "cairn_seq", last: 500, increment: 1))
      try target.trail.raw(kind: RecordKind.sequence, Array(record.bytes))
    }
    try target.trail.transaction { try target.trail.insert("item", [.exact("3"), .exact("z")]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM item") == "3")
    #expect(try target.psql("SELECT is_called FROM cairn_seq") == "f")
    #expect(try target.psql("SELECT to_regclass('sqlite_y')") == "")
    // The table is made for the first transaction that is put there.
    #expect(try target.psql("SELECT to_regclass('cairn.quarantine')") == "")
    #expect(left.all.map(\.name) == ["sqlite_y", "cairn_seq"])
  }

  // MARK: Tables outside of the list

  @Test func `no record reaches a table of PostgreSQL outside of the list, and the others go on`() throws {
    let target = try PostgresTarget()
    try target.psql(
      """
      CREATE TABLE ledger(id integer PRIMARY KEY, v text); INSERT INTO ledger VALUES (1, 'whole');
      CREATE SEQUENCE counted OWNED BY ledger.id
      """)
    let left = LeftOut()
    target.options.scope = TargetScope(["item"])
    target.options.noteLeftOut = left.add
    try target.begin(postgres: "CREATE TABLE item(id integer PRIMARY KEY, v text)", "item", [Self.row])
    let made = target.trail
    for (number, kind) in Kind.allCases.enumerated() {
      try Self.attack(made, Self.schema("public", "ledger"), kind)
      try made.transaction {
        try made.insert("item", [.exact(String(number + 10)), .exact("y")])
        var record = ByteWriter()
        record.append(SequenceState(namespace: "public", name: "counted", last: 500, increment: 1))
        try made.raw(kind: RecordKind.sequence, Array(record.bytes))
      }
      try target.replay()
      #expect(try target.psql("SELECT id, v FROM ledger") == "1|whole", "\(kind)")
      #expect(try target.psql("SELECT to_regclass('innocent')") == "", "\(kind)")
      #expect(try target.psql("SELECT is_called FROM counted") == "f", "\(kind)")
      #expect(try target.psql("SELECT count(*) FROM item") == String(number + 2), "\(kind)")
    }
    #expect(left.all.contains(LeftOutTable(source: "ledger", namespace: "public", name: "ledger")))
  }

  @Test func `no record reaches a table of SQLite outside of the list, and the others go on`() throws {
    for kind in Kind.allCases {
      let made = try Handmade(TempFolder())
      try made.run("CREATE TABLE ledger(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO ledger VALUES (1, 'whole')")
      let left = LeftOut()
      made.options.scope = TargetScope(["*", "!LEDGER", "!innocent"])
      made.options.noteLeftOut = left.add
      try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)", "item", [[1, "x"]])
      try Self.attack(made, Self.schema("", "ledger", .sqlite), kind)
      try made.transaction { try made.insert("item", [2, "y"]) }
      try made.replay()
      #expect(try made.rows("SELECT * FROM ledger") == [[1, "whole"]], "\(kind)")
      #expect(try made.rows("SELECT count(*) FROM item") == [[2]], "\(kind)")
      #expect(try made.rows("SELECT name FROM sqlite_schema WHERE name = 'innocent'").isEmpty, "\(kind)")
      #expect(left.all.map(\.source).contains("ledger"), "\(kind)")
    }
  }

  @Test func `a statement whose tables are not all in the list is not executed`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    // Reads one table and writes the other, either way, and writes the one that is left out.
    try history.execute(
      "INSERT INTO item(id, name, stock) VALUES " + (1...20).map { "(\($0), 'n', 1)" }.joined(separator: ", "),
      on: "item")
    try history.commit()
    try history.execute("INSERT INTO sale SELECT 1, id, id, name FROM item", on: "sale")
    try history.commit()
    try history.execute("UPDATE item SET stock = 0", on: "item")
    try history.execute("DELETE FROM sale WHERE number > 15", on: "sale")
    try history.commit()
    try history.sync()
    let target = try Database(path: trail.target, mode: .create)
    try target.execute(SourceHistory.shape.components(separatedBy: ";")[0])
    try target.execute("INSERT INTO item(id, stock) VALUES (7, 7)")
    trail.options.scope = TargetScope(["sale"])
    trail.options.replay = .statements
    let progress = ApplyProgress()
    try trail.open(progress).drain()
    #expect(try trail.rows("SELECT id, stock FROM item") == [[7, 7]])
    #expect(try trail.rows("SELECT * FROM sale ORDER BY number") == history.rows("sale"))
    #expect(progress.snapshot.statements.asRows > 0)

    let server = try PostgresTarget()
    try server.psql("CREATE TABLE item(id int PRIMARY KEY, stock int); INSERT INTO item VALUES (7, 7)")
    var options = PostgresApply.Options()
    (options.scope, options.replay) = (TargetScope(["sale"]), .statements)
    try server.replay(trail, options)
    #expect(try server.psql("SELECT * FROM item") == "7|7")
    #expect(try server.psql("SELECT count(*), max(note) FROM sale") == "15|n")
  }

  @Test func `a table that is renamed into the list waits for a copy, as its rows were left out`() throws {
    let made = try Handmade(TempFolder())
    made.options.scope = TargetScope(["item", "taken"])
    try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)", "item", [[1, "x"]])
    try made.begin("CREATE TABLE other(id INTEGER PRIMARY KEY, v TEXT)", "other", [[1, "left out"]])
    try made.transaction {
      try made.reshape("other", "CREATE TABLE taken(id INTEGER PRIMARY KEY, v TEXT)", as: .rename, to: "taken")
    }
    try made.transaction { try made.update("taken", [1, "left out"], [nil, "late"]) }
    try made.transaction { try made.insert("item", [2, "y"]) }
    let error = failure { try made.replay() }
    #expect(error?.code == .schemaStopped && error?.message.contains("taken") == true, "\(String(describing: error))")
    #expect(try made.rows("SELECT count(*) FROM item") == [[2]])
    #expect(try made.rows("SELECT name FROM sqlite_schema WHERE name IN ('other', 'taken')").isEmpty)
  }

  @Test func `a name between two names of an application is no way around the list`() throws {
    let made = try Handmade(TempFolder())
    try Self.attack(made, Self.schema("", "cairn_moving_1", .sqlite), .copy)
    try made.replay()
    let other = try Handmade(TempFolder())
    try Self.attack(other, Self.schema("", "cairn_moving_1", .sqlite), .create)
    try other.replay()
    for made in [made, other] {
      #expect(try made.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'cairn_moving%'").isEmpty)
    }
  }

  @Test func `a table that comes into the list is made and copied`() throws {
    let made = try Handmade(TempFolder())
    made.options.scope = TargetScope(["item"])
    try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)", "item", [[1, "x"]])
    try made.begin("CREATE TABLE other(id INTEGER PRIMARY KEY, v TEXT)", "other", [[1, "a"], [2, "b"]])
    #expect(try made.rows("SELECT name FROM sqlite_schema WHERE name = 'other'").isEmpty)
    made.options.scope = TargetScope(["item", "other"])
    made.options.changedRules = [ChangedRule("other", before: [], isCopied: true)]
    try made.transaction { try made.update("other", [2, "b"], [nil, "c"]) }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(progress.snapshot.awaitsCopies)
    try made.transaction { try made.copy("other", [[1, "a"], [2, "c"]], reason: .asked) }
    try made.transaction { try made.insert("other", [3, "d"]) }
    try made.open(progress).drain()
    #expect(progress.snapshot.rulesAdopted == ["other"])
    #expect(try made.rows("SELECT * FROM other ORDER BY id") == [[1, "a"], [2, "c"], [3, "d"]])
  }
}

/// The tables that an apply reported.
final class LeftOut: @unchecked Sendable {
  private let lock = NSLock()
  private var tables: [LeftOutTable] = []
  var all: [LeftOutTable] { lock.withLock { tables } }
  @Sendable func add(_ table: LeftOutTable) { lock.withLock { tables.append(table) } }
}
