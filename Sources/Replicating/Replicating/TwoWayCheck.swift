import Applying
import Changes
import Conflicts
import Endpoints
import Mapping

/// Checks for problems that prevent two-way replication between two databases, or that cause conflicts.
///
///     let check = TwoWayCheck(here, tables, there, at: there.url)
///     if let problem = try check.keysAlike() { throw problem }
package struct TwoWayCheck {
  private let one: SourceDatabase
  private let other: SourceDatabase?
  private let otherURL: DatabaseURL
  private let tables: [SourceDatabase.Table]

  /// Creates a check of two databases.
  ///
  /// - Parameter one: The source of the initial load.
  /// - Parameter tables: The two-way tables of `one`.
  /// - Parameter other: The other database; nil if its file does not exist yet.
  package init(
    _ one: SourceDatabase, _ tables: [SourceDatabase.Table], _ other: SourceDatabase?, at otherURL: DatabaseURL
  ) {
    (self.one, self.other, self.otherURL) = (one, other, otherURL)
    self.tables = tables.filter { $0.refusal == nil }
  }

  /// Returns an error for tables without a key, because two nodes cannot identify the same row; nil if there are none.
  /// - Parameter leaveOut: A function that returns the part of the error's hint that says how to exclude a table.
  package static func keyless(_ tables: [SourceDatabase.Table], at place: String, leaveOut: (String) -> String)
    -> CairnError?
  {
    let keyless = tables.filter { $0.refusal == nil && ($0.schema.key.isEmpty || $0.schema.flags.contains(.wholeRow)) }
    guard let first = keyless.first else { return nil }
    return CairnError(
      .tableRefused,
      "\(place): \(keyless.count == 1 ? "table" : "tables") \(names(keyless.map(\.name))) cannot be replicated two-way without a key",
      hint: "give \(first.name) a PRIMARY KEY, or a UNIQUE index over NOT NULL columns; or \(leaveOut(first.name))",
      remedy: .badInput, context: ["table": first.name])
  }

  /// Throws `table-refused` for a table without a key. Also throws if different texts can be equal in the key or in a
  /// column that a foreign key references (``KeyEquality``).
  /// - Parameter beside: The engine and tables of the other database; nil if unknown here.
  package static func checkKeys(
    _ end: SourceDatabase, _ all: [SourceDatabase.Table],
    beside other: (engine: Engine, tables: [SourceDatabase.Table])? = nil,
    leaveOut: (String) -> String
  ) throws {
    // Capture skips a table whose name differs from an older table only in the case of letters, and reports it.
    let tables = try all.filter { try end.server?.olderLookAlike(of: $0.schema) == nil }
    if let keyless = keyless(tables, at: end.url.place, leaveOut: leaveOut) { throw keyless }
    let engine = end.url.engine
    func nameKey(_ namespace: String, _ table: String) -> NameKey { "\(namespace).\(table)".key(in: engine) }
    let included = Set(tables.map { nameKey($0.schema.namespace, $0.schema.name) })
    for table in tables where table.refusal == nil {
      let place: KeyCheck.Place =
        switch end.handle {
        case .sqlite(let database): .sqlite(database)
        case .postgres(let server): .postgres(server)
        }
      let why = try KeyCheck.problem(of: table.schema, in: place, texts: texts(of: table, other)) {
        included.contains(nameKey($0, $1))
      }
      guard let why else { continue }
      throw CairnError(
        .tableRefused, "\(end.url.place): table \(table.name) cannot be replicated two-way: \(why)",
        hint:
          "use a type and a collation in which different texts are never equal (\(end.server == nil ? "COLLATE BINARY" : "text, numbers, uuid, a deterministic collation")), or \(leaveOut(table.name))",
        remedy: .badInput, context: ["table": table.name])
    }
  }

  /// Returns the key columns of type `numeric` without a scale, if the other database is SQLite.
  private static func texts(
    of table: SourceDatabase.Table, _ other: (engine: Engine, tables: [SourceDatabase.Table])?
  ) -> Set<NameKey> {
    guard table.schema.engine == .postgres, let other, other.engine == .sqlite else { return [] }
    let common = GeneratedKey.commonName(ofTable: table.name)
    let there = other.tables.first { GeneratedKey.commonName(ofTable: $0.name).hasSameBytes(as: common) }
    let columns = table.schema.key.map { table.schema.columns[$0] }.filter { column in
      guard PostgresType(column).kind == .numeric(nil) else { return false }
      let kept = there?.schema.columns.first { $0.name.sqliteKey == column.name.sqliteKey }
      return kept.map(KeyCheck.keepsTexts) ?? true
    }
    return Set(columns.map(\.name.sqliteKey))
  }

  /// Throws `table-refused` for a table in which a column has the conflict rule `delta`, if PostgreSQL does not log the
  /// old row of an update.
  /// - Parameter tables: The tables of the captured database.
  /// - Parameter plan: The conflict rules of an apply that writes to the database, or that reads its trail.
  package static func checkSums(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], _ plan: ConflictPlan) throws {
    guard let server = end.server else { return }
    for table in tables where table.refusal == nil {
      let names = table.schema.columns.map(\.name)
      let rules = plan.rules(forTarget: table.schema.plainName, columns: names)
      guard let column = rules.columns.filter({ $0.value == .delta }).keys.min(),
        try !server.logsWholeRows(of: table.schema)
      else { continue }
      throw CairnError(
        .tableRefused,
        "\(end.url.place): column \(names[column]) of table \(table.name) has the rule delta, and the server logs only the key of a row before a change",
        hint: "run there: \(try server.fullIdentityScript(of: [table.schema]))", remedy: .badInput,
        context: ["table": table.name])
    }
  }

  /// Returns an error for two-way tables with a `local_writes` setting other than `stop`; nil if there are none.
  /// - Parameter tables: The two-way tables.
  /// - Parameter capture: The capture of the database.
  package static func writtenLocally(_ tables: [SourceDatabase.Table], _ plan: LocalWritesPlan, capture: String)
    -> CairnError?
  {
    let said = tables.filter { $0.refusal == nil && plan.writes(forTarget: $0.schema.plainName) != .stop }
    guard let first = said.first else { return nil }
    let writes = plan.writes(forTarget: first.schema.plainName).rawValue
    return CairnError(
      .confValue,
      "\(said.count == 1 ? "table" : "tables") \(names(said.map(\.name))) \(said.count == 1 ? "goes" : "go") both ways, so local_writes = \"\(writes)\" is not allowed: local writes are sent to the other end",
      hint:
        "leave \(first.name) out of 'tables' of [capture.\(capture)] if it is one-way; or give it a rule with local_writes = \"stop\", and set 'conflict' to decide which write wins",
      remedy: .badInput, context: ["table": first.name])
  }

  /// Returns an error if both databases would generate the same key for different rows; nil otherwise.
  package func keysAlike() throws -> CairnError? {
    let wanted = Set(tables.map { GeneratedKey.commonName(ofTable: $0.name).nameKey })
    let ours = try DrawnKeys(one).all().filter { wanted.contains($0.commonTable) }
    let there = Set(try other?.tableNames().map { GeneratedKey.commonName(ofTable: $0).nameKey } ?? [])
    let made = ours.filter { !there.contains($0.commonTable) }.compactMap(asMade)
    let theirs = try other.map { try DrawnKeys($0).all() } ?? []
    let alike = GeneratedKey.alike(ours, theirs + made).map(\.0)
    guard !alike.isEmpty else { return nil }
    return CairnError(
      .keysAlike,
      "\(one.url.place) and \(otherURL.place) would generate the same keys for different rows: \(Self.names(alike.map(\.text)))",
      hint: hint, remedy: .badInput)
  }

  /// Returns an error for keys that this database generates and that another node may generate too; nil if there are
  /// none.
  /// - Parameter tables: The captured tables to which `trail`, from another node, is applied.
  package static func keysNotSeparated(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], from trail: TrailName)
    throws
    -> CairnError?
  {
    let wanted = Set(tables.map { GeneratedKey.commonName(ofTable: $0.name).nameKey })
    let keys = try DrawnKeys(end).all().filter { wanted.contains($0.commonTable) && !$0.isSeparated }
    guard !keys.isEmpty else { return nil }
    return CairnError(
      .keysAlike,
      "\(end.url.place) would generate keys that node \(trail.origin) may generate for other rows: \(names(keys.map(\.text)))",
      hint: end.server == nil
        ? "SQLite cannot take a stride: let applications use keys of their own, such as UUIDs"
        : "run 'cairn identity separate \(end.url.shown) --nodes N --node K'; or let applications set the keys",
      remedy: .badInput)
  }

  /// Returns a warning about tables that foreign keys reference, if PostgreSQL logs only the key of a deleted row. Such
  /// a row cannot be restored after a conflict. Nil if there are no such tables.
  /// - Parameter tables: The two-way tables.
  package static func keysLogged(_ end: SourceDatabase, _ tables: [SourceDatabase.Table]) throws -> String? {
    guard let server = end.server else { return nil }
    let referred = Set(tables.flatMap(\.schema.foreignKeys).map { [$0.namespace, $0.table] })
    let found = try tables.map(\.schema).filter {
      try referred.contains([$0.namespace, $0.name]) && $0.columns.count > $0.key.count
        && !server.logsWholeRows(of: $0)
    }
    guard !found.isEmpty else { return nil }
    let script = try server.fullIdentityScript(of: found)
    return
      "\(end.url.place) logs only the key of a deleted row, so deleted rows of \(names(found.map(\.fullName))) cannot be restored if another node refers to them; run there: \(script)"
  }

  /// Returns warnings about two-way tables. They concern deleted rows that cannot be restored, and keys that are NULL or
  /// can have two spellings. Others concern unique constraints that PostgreSQL defers, and unique indexes that each
  /// database judges by itself.
  /// - Parameter other: The engine of the other end; nil if it is not known here.
  package static func warnings(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], beside other: Engine?) throws
    -> [String]
  {
    let all = [
      try keysLogged(end, tables), spelledApart(end, tables, other), try judgedApart(end, tables, other),
      try judgedLate(end, tables), try rowsWithoutKey(end, tables),
    ]
    return all.compactMap { $0 }
  }

  /// Returns a warning for unique indexes with an expression, a WHERE, or a column in which different texts can be
  /// equal. Nil if there are none.
  private static func judgedApart(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], _ other: Engine?) throws
    -> String?
  {
    let place: KeyCheck.Place =
      switch end.handle {
      case .sqlite(let database): .sqlite(database)
      case .postgres(let server): .postgres(server)
      }
    let found = try tables.filter { $0.refusal == nil }.flatMap { table in
      // SQLite may keep the texts of a numeric without a scale.
      let texts =
        end.server != nil && other == .sqlite
        ? table.schema.columns.filter { PostgresType($0).kind == .numeric(nil) }.map(\.name.sqliteKey) : []
      return try KeyCheck.looseUniques(of: table.schema, in: place, texts: Set(texts)).map {
        "\($0) of table \(table.name)"
      }
    }
    guard !found.isEmpty else { return nil }
    return
      "\(end.url.place): each database decides by itself which rows have one value in the unique \(found.count == 1 ? "index" : "indexes") \(names(found)), which \(found.count == 1 ? "has" : "have") an expression, a WHERE, or a column in which different texts can be equal; if the other database decides otherwise, a row may wait at one end and be present at the other: give both the same index, and run 'cairn compare'"
  }

  /// Returns a warning for DEFERRABLE unique constraints, in which apply does not choose the later of two rows with one
  /// value. Nil if there are none.
  private static func judgedLate(_ end: SourceDatabase, _ tables: [SourceDatabase.Table]) throws -> String? {
    guard let server = end.server else { return nil }
    let found = try tables.filter { $0.refusal == nil }.flatMap { table in
      try server.query(
        """
        SELECT conname FROM pg_constraint
        WHERE conrelid = to_regclass($1) AND contype IN ('u', 'x') AND condeferrable ORDER BY conname
        """, [table.schema.qualifiedName]
      ).compactMap { row in row[0].map { "\($0) of table \(table.name)" } }
    }
    guard !found.isEmpty else { return nil }
    return
      "\(end.url.place): if both ends write one value to two rows under the DEFERRABLE \(found.count == 1 ? "constraint" : "constraints") \(names(found)), apply does not choose the later row, and may stop with 'row-exists': make such a constraint NOT DEFERRABLE"
  }

  /// Returns a warning for tables of an SQLite file that have rows with NULL in the first column of the key, which stop
  /// both directions. Nil if there are none.
  private static func rowsWithoutKey(_ end: SourceDatabase, _ tables: [SourceDatabase.Table]) throws -> String? {
    guard case .sqlite(let database) = end.handle else { return nil }
    let found = try tables.filter { table in
      guard table.refusal == nil, table.schema.flags.contains(.nullableKey), let first = table.schema.key.first else {
        return false
      }
      let column = table.schema.columns[first].name.quotedName
      return try database.integer(
        "SELECT EXISTS (SELECT 1 FROM \(table.schema.name.quotedName) WHERE \(column) IS NULL)") == 1
    }
    guard !found.isEmpty else { return nil }
    return
      "\(end.url.place): \(found.count == 1 ? "table" : "tables") \(names(found.map(\.name))) \(found.count == 1 ? "has" : "have") rows with NULL in the key, which stop both directions with 'constraint-failed': delete these rows, or give each a key"
  }

  /// Returns a warning for PostgreSQL keys of type `uuid` or `char(n)`, if the other database is SQLite. There, two
  /// spellings of one key count as different keys. Nil if there are no such keys.
  private static func spelledApart(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], _ other: Engine?) -> String?
  {
    guard end.server != nil, other == .sqlite else { return nil }
    let found = tables.filter { table in
      table.refusal == nil
        && table.schema.key.contains { index in
          switch PostgresType(table.schema.columns[index]).kind {
          case .uuid, .bpchar: true
          default: false
          }
        }
    }
    guard !found.isEmpty else { return nil }
    return
      "\(end.url.place): the key of \(found.count == 1 ? "table" : "tables") \(names(found.map(\.name))) is uuid or char(n), of which PostgreSQL reads several spellings as one: in the SQLite database, write each key in one spelling (a uuid in lower case with hyphens, a char(n) without spaces at its end), or rows may differ without a report"
  }

  /// Throws `table-refused` for an SQLite table with a foreign key to itself that has ON UPDATE CASCADE. A row that
  /// refers to itself may differ between the nodes after its key has changed.
  ///
  ///     CREATE TABLE part(id INTEGER PRIMARY KEY, whole INTEGER REFERENCES part(id) ON UPDATE CASCADE)
  ///
  /// - Parameter hint: A function that returns the hint for a table: how to exclude or accept it.
  package static func checkMovedKeys(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], hint: (String) -> String)
    throws
  {
    guard end.server == nil else { return }
    let found = tables.first { $0.refusal == nil && $0.schema.movesOwnKeys }
    guard let found else { return }
    throw CairnError(
      .tableRefused,
      "\(end.url.place): table \(found.name) cannot be replicated two-way: \(MovedKeys.reason)",
      hint: hint(found.name), remedy: .badInput, context: ["table": found.name])
  }

  /// Runs a check of two-way tables. Once the replication has begun, a table that fails is only reported: capture and
  /// apply suspend it, and the others go on. If not, the error keeps the replication from beginning.
  ///
  /// - Parameter warn: Writes the warning.
  package static func passing(
    ifBegun hasBegun: Bool, warn: (String) -> Void, _ check: () throws -> Void
  ) throws {
    do { try check() } catch let error as CairnError where hasBegun && error.code == .tableRefused {
      warn("\(error.message); \(error.hint)")
    }
  }

  /// Returns a warning for tables whose old rows the source does not log. Conflicts in these tables are not detected.
  /// Nil if there are no such tables.
  package static func changesLogged(_ end: SourceDatabase, _ tables: [SourceDatabase.Table]) throws -> String? {
    guard let server = end.server else { return nil }
    let found = try tables.map(\.schema).filter {
      try $0.columns.count > $0.key.count && !server.logsWholeRows(of: $0)
    }
    guard !found.isEmpty else { return nil }
    let script = try server.fullIdentityScript(of: found)
    return
      "\(end.url.place) logs only the key of a changed row, so changes that other programs made to rows of \(names(found.map(\.fullName))) are overwritten without an entry in the conflict log; to log them, run there: \(script)"
  }

  /// Returns how the other database would generate the column's values, in a table that apply creates there. Nil if it
  /// would not generate them.
  private func asMade(_ key: GeneratedKey) -> GeneratedKey? {
    var made = key
    switch otherURL.engine {
    case .postgres:
      made.source = .sequence(
        .init(name: "", increment: 1, start: 1, last: nil, least: 1, greatest: .max))
    case .sqlite:
      // Only a key of one column can be the rowid.
      guard let schema = tables.first(where: { GeneratedKey.commonName(ofTable: $0.name) == key.commonTable })?.schema,
        schema.key.map({ schema.columns[$0].name }).hasSameBytes(as: [key.column])
      else { return nil }
      made.source = .rowid(isMonotonic: false)
    }
    return made
  }

  private var hint: String {
    switch (one.url.engine, otherURL.engine) {
    case (.sqlite, .sqlite):
      "SQLite files cannot take a stride: let applications use keys of their own, such as UUIDs, in tables where both ends insert"
    case (.postgres, .postgres):
      "run 'cairn identity separate URL --nodes 2 --node N' at both ends, with N 1 and 2, once both have the tables; or let applications set the keys"
    default:
      "run 'cairn identity separate \((one.url.engine == .postgres ? one.url : otherURL).shown) --nodes 2 --node 2 --below-zero' once the tables are there; or let applications set the keys"
    }
  }

  private static func names(_ all: [String]) -> String {
    all.prefix(10).joined(separator: ", ") + (all.count > 10 ? " and \(all.count - 10) more" : "")
  }
}

extension CairnError {
  /// Returns this error about keys that two nodes may generate, with a hint that also names `keys = "shared"`.
  /// - Parameter chain: The capture of the database, and the node whose trail is applied to the database. If not nil,
  ///   the hint also names `applied = "include"`.
  package func sayingShared(
    _ database: String, chain: (capture: String, origin: String)? = nil
  ) -> CairnError {
    var hint = "\(hint), and write keys = \"shared\" into [database.\(database)]"
    if let chain {
      hint +=
        "; or, if node \(chain.origin) does not apply the trail of [capture.\(chain.capture)], write applied = \"include\" into that section"
    }
    return CairnError(code, message, hint: hint, remedy: remedy, context: context)
  }
}
