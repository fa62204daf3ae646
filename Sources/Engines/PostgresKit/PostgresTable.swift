import Changes

/// A table of a PostgreSQL database: its definition, and the other facts that capture needs.
///
///     let table = try PostgresTable(CatalogDocument(text))
///     table?.schema.columns.map(\.name)
package struct PostgresTable: Sendable {
  package var oid: UInt32
  /// The definition of the table. Its `epoch`, which numbers the successive definitions, is 0 here.
  package var schema: TableSchema
  /// Further facts about each column of ``schema``, in the same order.
  package var details: [Detail] = []
  package var isPartitioned: Bool
  /// The partitions that contain rows, each as the oid and the file, such as `16402:16410`.
  package var partitions: [String] = []
  /// The number of rows that the planner estimates; 0 for no estimate.
  package var estimatedRows: UInt64
  /// Whether the session's role has the rights of the table's owner.
  package var isOwned: Bool
  package var owner: String
  /// The sequences that give values to the table's columns.
  package var sequences: [(namespace: String, name: String)]
  /// The definitions that decide how stored values print. For example, `label 16410` has the text of the enum label
  /// with this oid.
  package var forms: [NameKey: String] = [:]
  /// The reason why the table cannot be captured; nil if it can be.
  package var refusal: Refusal?

  package struct Detail: Equatable, Sendable {
    /// The oid of the column's type, as in a relation message of the replication protocol.
    package var type: UInt32
    package var modifier: Int32
    /// The number of the column in the catalog, which never changes.
    package var number: Int
    /// The value of the column in rows that are older than the column; nil for NULL, or after a rewrite of the table.
    @ByBytes package var missing: String? = nil
    package var mayHaveDefault = false
  }

  package struct Refusal: Sendable {
    package let reason: String
    /// The statements after which capture accepts the table, separated by "; "; empty for none.
    package let mend: String
    /// Whether capture skips the table, such as a foreign table, instead of failing.
    package let isHarmless: Bool
    /// Whether PostgreSQL logs too little of a partition's changes, because the partition is UNLOGGED or its replica
    /// identity differs from the table's.
    package var isOfPartition = false
    /// Whether the table is refused for a generated column in its key.
    package var isOfGenerated = false
    /// Whether the refusal is for another table with the same full name; in two-way replication, regardless of case.
    package var isOfName = false
    /// Whether a two-way table is refused for two columns whose names differ only in case.
    package var isOfColumns = false
  }

  /// The table's name in patterns and messages: `schema.name`, or `name` in schema `public`.
  package var displayName: String { schema.displayName }

  /// The name of the table in SQL. `ONLY` excludes tables that inherit from it.
  package var sqlName: String { (isPartitioned ? "" : "ONLY ") + schema.qualifiedName }
}

extension TableSchema {
  /// The table's name in patterns and messages: `schema.name`, or `name` in schema `public`.
  package var displayName: String { namespace.hasSameBytes(as: "public") ? name : "\(namespace).\(name)" }

  /// The schema and the name of the table, each quoted for SQL.
  package var qualifiedName: String {
    namespace.isEmpty ? name.quotedName : "\(namespace.quotedName).\(name.quotedName)"
  }
}

extension TablePatterns {
  package func includes(_ table: PostgresTable) -> Bool {
    includes(namespace: table.schema.namespace, name: table.schema.name)
  }

  package func includes(_ table: TableSchema) -> Bool { includes(namespace: table.namespace, name: table.name) }

  /// Returns whether the list includes a PostgreSQL table. A pattern with a dot is compared with `schema.name`, any
  /// other pattern with the table's name alone.
  package func includes(namespace: String, name: String) -> Bool {
    let full = "\(namespace).\(name)"
    // A pattern with a dot is compared with the full name, any other with the bare name: both to include and to
    // exclude.
    var included = false
    for pattern in patterns {
      let (excludes, bare) = Self.parts(pattern)
      let one = TablePatterns([bare])
      if one.includes(bare.has(".") ? full : name) { included = !excludes }
    }
    return included
  }
}

extension PostgresConnection {
  /// Returns the tables of users, in order of schema and name. A table that cannot be captured has a
  /// ``PostgresTable/refusal``.
  ///
  /// - Parameter isMeant: Returns whether the table with this schema and name is wanted. The definition of an unwanted
  ///   table is not read.
  package func userTables(
    _ isMeant: (_ namespace: String, _ name: String) -> Bool = { _, _ in true }
  ) throws -> [PostgresTable] {
    var (readable, tables) = try measured(listedTables().filter { isMeant($0[1] ?? "", $0[2] ?? "") })
    let rows = try query(
      """
      SELECT \(CatalogDocument.sql(of: "listed.oid")) FROM pg_class AS listed WHERE listed.oid = ANY ($1::oid[])
      """, [Self.array(readable)])
    tables += try rows.compactMap { try PostgresTable(CatalogDocument($0[0] ?? "")) }
    PostgresTable.arrange(&tables)
    return tables
  }

  /// Returns the tables of users, read in one snapshot. After a lock timeout, reads each table separately. `locked`
  /// then contains the tables that other sessions have locked. Their lists of columns are empty.
  ///
  /// - Parameter patience: An SQL statement that sets `lock_timeout` for the transaction.
  package func userTables(
    patience: String, _ isMeant: (_ namespace: String, _ name: String) -> Bool = { _, _ in true }
  ) throws -> (tables: [PostgresTable], locked: [PostgresTable]) {
    do { return (try catalog(patience: patience) { try userTables(isMeant) }, []) } catch let error as PostgresError
      where error.isLockTimeout
    {}
    let listed = try listedTables().filter { isMeant($0[1] ?? "", $0[2] ?? "") }
    var (readable, tables) = try measured(listed)
    var locked: [PostgresTable] = []
    for row in listed {
      guard let oid = row[0].flatMap({ UInt32($0) }), readable.contains(oid) else { continue }
      do {
        // One owner may have any number of tables locked.
        let milliseconds = locked.count < Self.lockedTablesWaited ? 100 : 1
        if let table = try catalog(patience: "SET LOCAL lock_timeout = \(milliseconds)", { try document(of: oid) }) {
          tables.append(table)
        }
      } catch let error as PostgresError where error.isLockTimeout {
        locked.append(
          PostgresTable(
            oid: oid,
            schema: TableSchema(epoch: 0, engine: .postgres, namespace: row[1] ?? "", name: row[2] ?? "", columns: []),
            isPartitioned: false, estimatedRows: 0, isOwned: false, owner: "", sequences: []))
      }
    }
    PostgresTable.arrange(&tables)
    return (tables, locked)
  }

  // Each is waited for up to 100 ms, and each further one up to 1 ms.
  private static let lockedTablesWaited = 10

  /// Returns the tables of users, without their columns. The call waits for no lock.
  package func userTableNames() throws -> [TableSchema] {
    try listedTables().map {
      TableSchema(epoch: 0, engine: .postgres, namespace: $0[1] ?? "", name: $0[2] ?? "", columns: [])
    }
  }

  private func listedTables() throws -> [[String?]] {
    try query(
      """
      SELECT c.oid, n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE \(PostgresTable.isUsers("c", "n")) ORDER BY n.nspname, c.relname
      """)
  }

  /// Returns the table with an oid; nil if there is none. If its definitions are too large, the table has a refusal.
  package func table(_ oid: UInt32) throws -> PostgresTable? {
    try measured([[String(oid)]]).refused.first ?? document(of: oid)
  }

  private static func array(_ oids: some Sequence<UInt32>) -> String {
    "{\(oids.map(String.init).joined(separator: ","))}"
  }

  // A huge definition could exhaust Cairn's memory, so such a table gets a refusal and no columns.
  private func measured(_ listed: [[String?]]) throws -> (readable: Set<UInt32>, refused: [PostgresTable]) {
    let sizes = try query(
      """
      SELECT listed.oid, listed.relowner, \(CatalogDocument.size(of: "listed.oid")) FROM pg_class AS listed
      WHERE listed.oid = ANY ($1::oid[])
      """, [Self.array(listed.compactMap { $0[0].flatMap { UInt32($0) } })])
    let (readable, large) = DefinitionSizes(
      try printed(sizes.map { (UInt32($0[0] ?? "") ?? 0, UInt32($0[1] ?? "") ?? 0, Int($0[2] ?? "") ?? 0) })
    ).readable
    guard !large.isEmpty else { return (readable, []) }
    let rows = try query(
      """
      SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', pg_has_role(c.relowner, 'USAGE'),
        pg_get_userbyid(c.relowner) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.oid = ANY ($1::oid[])
      """, [Self.array(large.keys)])
    let refused = rows.map { row in
      let oid = UInt32(row[0] ?? "") ?? 0
      var table = PostgresTable(
        oid: oid,
        schema: TableSchema(epoch: 0, engine: .postgres, namespace: row[1] ?? "", name: row[2] ?? "", columns: []),
        isPartitioned: row[3] == "t", estimatedRows: 0, isOwned: row[4] == "t", owner: row[5] ?? "", sequences: [])
      let reason = DefinitionSizes.reason(large[oid] ?? 0, owner: table.owner)
      let isReserved = ReservedName.isReserved(table.schema.namespace, table.schema.name)
      table.refusal = .init(reason: reason, mend: "", isHarmless: isReserved)
      return table
    }
    return (readable, refused)
  }

  /// Returns the sizes of the tables' definitions. If constants may be longer as text than as stored, the larger size
  /// counts.
  private func printed(_ sizes: [DefinitionSizes.Size]) throws -> [DefinitionSizes.Size] {
    let stored = sizes.filter { $0.bytes <= DefinitionSizes.tableBytesMax }.map(\.oid)
    let rows = try query(
      """
      SELECT listed.oid FROM pg_class AS listed
      WHERE listed.oid = ANY ($1::oid[]) AND \(CatalogDocument.denseBytes(of: "listed.oid")) > \(Self.denseBytesMax)
      """, [Self.array(stored)])
    let dense = Set(rows.compactMap { $0[0].flatMap { UInt32($0) } })
    return try sizes.map { size in
      guard dense.contains(size.oid) else { return size }
      let printed = try printedBytes(size.oid)
      return (size.oid, size.owner, max(size.bytes, printed))
    }
  }

  // Eight bytes print 131 KiB at most, so this many stay below the limit of a table.
  private static let denseBytesMax = 900

  /// Returns the length, in bytes, of a table's definitions as text; `.max` if the server cannot print them.
  private func printedBytes(_ oid: UInt32) throws -> Int {
    let count = { try self.first("SELECT \(CatalogDocument.printedBytes(of: "$1::oid"))", [String(oid)]) }
    do {
      return try (isInTransaction ? savepoint(count) : count()).flatMap { Int($0) } ?? 0
    } catch let error as PostgresError where error.isOfSize { return .max }
  }

  /// Returns the reason why the definitions of a table are too large to be read; nil if they are not.
  package func definitionsRefusal(of oid: UInt32) throws -> String? {
    try measured([[String(oid)]]).refused.first?.refusal?.reason
  }

  private func document(of oid: UInt32) throws -> PostgresTable? {
    try PostgresTable(CatalogDocument(first("SELECT \(CatalogDocument.sql(of: "$1::oid"))", [String(oid)]) ?? ""))
  }

  /// Runs `body`, which reads catalogs, in one snapshot. `body` runs again if an object was dropped meanwhile.
  /// `patience` is an SQL statement that limits waits for locks.
  package func catalog<T>(patience: String = "", _ body: () throws -> T) throws -> T {
    var attempts = 1
    while true {
      do {
        return try transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") {
          if !patience.isEmpty { try execute(patience) }
          return try body()
        }
      } catch let error as PostgresError where error.isOfDropped && attempts < 20 {
        attempts += 1
        try query("SELECT pg_sleep(0.02)")
      }
    }
  }
}

extension PostgresTable {
  // Tables with equal full names get a ``refusal``, because Cairn cannot distinguish them.
  fileprivate static func arrange(_ tables: inout [PostgresTable]) {
    tables.sort { one, other in
      let (left, right) = (one.schema, other.schema)
      return left.namespace.hasSameBytes(as: right.namespace)
        ? left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
        : left.namespace.utf8.lexicographicallyPrecedes(right.namespace.utf8)
    }
    refuseAmbiguousNames(&tables)
  }

  /// Sets the ``refusal`` of tables with equal full names, such as table `b.c` in schema `a` and table `c` in schema
  /// `a.b`. Also refuses a table if names of columns differ only in how Unicode composes letters.
  static func refuseAmbiguousNames(_ tables: inout [PostgresTable]) {
    let names = Dictionary(grouping: tables.indices, by: { tables[$0].schema.fullName.nameKey })
    for group in names.values where group.count > 1 {
      for index in group where tables[index].refusal == nil {
        guard let other = group.first(where: { $0 != index }) else { continue }
        tables[index].refusal = .init(
          reason:
            "it has the same full name as \(tables[other].schema.qualifiedName): a dot is part of a name in one of them",
          mend: "ALTER TABLE \(tables[index].schema.qualifiedName) RENAME TO ...", isHarmless: false, isOfName: true)
      }
    }
    for index in tables.indices where tables[index].refusal == nil {
      let schema = tables[index].schema
      guard let (one, other) = schema.columns.map(\.name).firstAlike(by: { $0 }) else { continue }
      tables[index].refusal = .init(
        reason:
          "its columns \(one.quotedName) and \(other.quotedName) differ only in how Unicode composes their letters",
        mend: "ALTER TABLE \(schema.qualifiedName) RENAME COLUMN \(other.quotedName) TO ...", isHarmless: false)
    }
  }
}

// Row versions of two-way replication name tables and columns as SQLite does: the case of ASCII letters is ignored.
extension PostgresTable {
  /// Sets the ``refusal`` of each table whose name differs only in case from an older table's. Also refuses tables with
  /// two columns whose names differ only in case.
  package static func refuseLookAlikes(_ tables: inout [PostgresTable]) {
    let names = Dictionary(grouping: tables.indices, by: { tables[$0].schema.fullName.sqliteKey })
    for group in names.values where group.count > 1 {
      guard let oldest = group.min(by: { tables[$0].oid < tables[$1].oid }) else { continue }
      for index in group where index != oldest && tables[index].refusal == nil {
        tables[index].refusal = .init(
          reason:
            "its name differs from that of table \(tables[oldest].displayName) only in the case of ASCII letters, which two-way replication does not distinguish",
          mend: "ALTER TABLE \(tables[index].schema.qualifiedName) RENAME TO ...", isHarmless: false, isOfName: true)
      }
    }
    for index in tables.indices { tables[index].refuseLikeColumns() }
  }

  /// Sets the ``refusal`` of a table with two columns whose names differ only in the case of ASCII letters.
  package mutating func refuseLikeColumns() {
    guard refusal == nil, let (one, other) = schema.likeColumns else { return }
    refusal = .init(
      reason: TableSchema.likeColumnsReason(one, other),
      mend: "ALTER TABLE \(schema.qualifiedName) RENAME COLUMN \(other.quotedName) TO ...", isHarmless: false,
      isOfColumns: true)
  }
}

extension PostgresConnection {
  /// Returns the full names of users' tables. The keys are the names in lower case. If names differ only in case, the
  /// oldest table's name is used.
  package func oldestNames() throws -> [NameKey: String] {
    let rows = try query(
      """
      SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE \(PostgresTable.isUsers("c", "n")) ORDER BY c.oid
      """)
    return rows.reduce(into: [:]) { names, row in
      if let name = row[0], names[name.sqliteKey] == nil { names[name.sqliteKey] = name }
    }
  }

  /// Returns the name of an older table that differs from `table`'s only in case; nil if there is none.
  package func olderLookAlike(of table: TableSchema) throws -> String? {
    // Under collation "C", lower() changes ASCII letters only.
    try query(
      """
      SELECT other.nspname, other.relname FROM (
        SELECT c.oid, n.nspname, c.relname, lower((n.nspname || '.' || c.relname) COLLATE "C") AS folded
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE \(PostgresTable.isUsers("c", "n"))
      ) AS other, pg_class AS own JOIN pg_namespace AS place ON place.oid = own.relnamespace
      WHERE place.nspname = $1 AND own.relname = $2 AND other.oid < own.oid
        AND other.folded = lower((place.nspname || '.' || own.relname) COLLATE "C")
      LIMIT 1
      """, [table.namespace, table.name]
    ).first.map {
      TableSchema(epoch: 0, engine: .postgres, namespace: $0[0] ?? "", name: $0[1] ?? "", columns: []).displayName
    }
  }
}
