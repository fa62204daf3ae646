import Changes

/// A table of a PostgreSQL database: its schema, and the other facts that capture needs.
package struct PostgresTable: Sendable {
  package var oid: UInt32
  /// The schema, with epoch 0: the capture of the table counts epochs.
  package var schema: TableSchema
  /// Further facts from the catalog about each of the schema's columns.
  package var details: [Detail] = []
  package var isPartitioned: Bool
  /// Its partitions that hold rows, each with the file that holds them: another file means that rows appeared or
  /// vanished.
  package var partitions: [String] = []
  /// The number of rows in the planner's estimate; 0 if it has none.
  package var estimatedRows: UInt64
  /// Whether this role can do all that the owner can.
  package var isOwned: Bool
  package var owner: String
  /// The sequences from which its columns take values: schema and name.
  package var sequences: [(namespace: String, name: String)]
  /// The definitions that decide how values print: labels of enums, attributes of composite types. A changed text means
  /// that stored values now print differently. Generated columns are included; the schema does not list them.
  package var forms: [NameKey: String] = [:]
  /// The reason why the table cannot be captured; nil if it can.
  package var refusal: Refusal?

  package struct Detail: Equatable, Sendable {
    /// The type and the modifier, as in a relation message.
    package var type: UInt32
    package var modifier: Int32
    /// Its number in the catalog: it identifies the column as long as the column exists.
    package var number: Int
    /// The value for rows older than the column; nil: NULL, or every row has a value of its own since the table was
    /// rewritten.
    @ByBytes package var missing: String? = nil
    /// Whether the column or its type has a default.
    package var mayHaveDefault = false
  }

  package struct Refusal: Sendable {
    package let reason: String
    /// The statements that fix it, with "; " between them; empty if there are none.
    package let mend: String
    /// Whether leaving the table out loses and harms nothing.
    package let isHarmless: Bool
    /// Whether a partition logs too little of its old rows: UPDATE and DELETE of applications work, but would be lost.
    package var isOfPartition = false
    /// Whether another table has the same full name.
    package var isOfName = false
  }

  /// The name in patterns and messages, `schema.name`; without the schema if that is `public`.
  package var displayName: String { schema.displayName }

  /// The name for SQL. `ONLY` excludes children of inheritance, which have rows of their own.
  package var sqlName: String { (isPartitioned ? "" : "ONLY ") + schema.qualifiedName }
}

extension TableSchema {
  /// The name in patterns and messages of a table of PostgreSQL, see ``PostgresTable/displayName``.
  package var displayName: String { namespace.hasSameBytes(as: "public") ? name : "\(namespace).\(name)" }

  /// The schema and the name, quoted.
  package var qualifiedName: String {
    namespace.isEmpty ? name.quotedName : "\(namespace.quotedName).\(name.quotedName)"
  }
}

extension TablePatterns {
  package func includes(_ table: PostgresTable) -> Bool {
    includes(namespace: table.schema.namespace, name: table.schema.name)
  }

  package func includes(_ table: TableSchema) -> Bool { includes(namespace: table.namespace, name: table.name) }

  /// Returns whether the list includes a table. A pattern may name the schema or not.
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
  /// Returns the users' tables by schema and name. Left out are the server's own tables, those in schema `cairn`,
  /// temporary tables and those of extensions. Partitions are part of their root. A table that cannot be captured comes
  /// with a refusal.
  ///
  /// Within ``catalog(patience:_:)``, everything is of one moment.
  ///
  /// - Parameter isMeant: Returns whether a table is wanted, by schema and name. Of other tables, no definition is read:
  ///   that would wait for whoever has locked them.
  package func userTables(
    _ isMeant: (_ namespace: String, _ name: String) -> Bool = { _, _ in true }
  ) throws -> [PostgresTable] {
    let meant = try listedTables().filter { isMeant($0[1] ?? "", $0[2] ?? "") }.compactMap { $0[0] }
    let rows = try query(
      """
      SELECT \(CatalogDocument.sql(of: "listed.oid")) FROM pg_class AS listed
        JOIN pg_namespace AS place ON place.oid = listed.relnamespace
      WHERE listed.oid = ANY ($1::oid[]) ORDER BY place.nspname, listed.relname
      """, ["{\(meant.joined(separator: ","))}"])
    var tables = try rows.compactMap { try PostgresTable(CatalogDocument($0[0] ?? "")) }
    PostgresTable.refuseAmbiguousNames(&tables)
    return tables
  }

  /// Returns ``userTables()``, read in one snapshot. If other sessions keep tables locked longer than `patience`, each
  /// table is read by itself, and `locked` has those that are locked still, without columns.
  ///
  /// - Parameter patience: A statement that sets `lock_timeout` for the transaction.
  package func userTables(patience: String) throws -> (tables: [PostgresTable], locked: [PostgresTable]) {
    do { return (try catalog(patience: patience) { try userTables() }, []) } catch let error as PostgresError
      where error.isLockTimeout
    {}
    let listed = try listedTables()
    var (tables, locked): ([PostgresTable], [PostgresTable]) = ([], [])
    for row in listed {
      guard let oid = row[0].flatMap({ UInt32($0) }) else { continue }
      do {
        if let table = try catalog(patience: "SET LOCAL lock_timeout = 100", { try self.table(oid) }) {
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
    PostgresTable.refuseAmbiguousNames(&tables)
    return (tables, locked)
  }

  /// Returns the tables of ``userTables(_:)`` without their columns. It waits for no lock.
  package func userTableNames() throws -> [TableSchema] {
    try listedTables().map {
      TableSchema(epoch: 0, engine: .postgres, namespace: $0[1] ?? "", name: $0[2] ?? "", columns: [])
    }
  }

  /// Returns the oid, the schema and the name of each users' table, by schema and name.
  private func listedTables() throws -> [[String?]] {
    try query(
      """
      SELECT c.oid, n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE \(PostgresTable.isUsers("c", "n")) ORDER BY n.nspname, c.relname
      """)
  }

  /// Returns the table of this oid; nil if there is none.
  package func table(_ oid: UInt32) throws -> PostgresTable? {
    try PostgresTable(CatalogDocument(first("SELECT \(CatalogDocument.sql(of: "$1::oid"))", [String(oid)]) ?? ""))
  }

  /// Reads catalogs in one snapshot. The server's functions for definitions read the present catalogs. They fail if an
  /// index or a table of the snapshot has just been dropped: then everything is read again.
  ///
  /// A definition also waits for a session that has locked its table; with a `patience`, an error with `isLockTimeout`
  /// ends that.
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
  /// Refuses tables whose full names are equal: a dot may be part of a name, but Cairn identifies a table by its full
  /// name.
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
