import Changes

/// A table of a PostgreSQL database as it stands: its schema, and what capture must know beyond it.
package struct PostgresTable: Sendable {
  package var oid: UInt32
  /// Epoch 0; whoever captures the table counts epochs.
  package var schema: TableSchema
  /// What the catalog says of each of the schema's columns beyond that.
  package var details: [Detail] = []
  package var isPartitioned: Bool
  /// Its partitions that hold rows, each with the file that holds them: another file means that rows came or went.
  package var partitions: [String] = []
  /// Rows as the planner believes; 0 where it never looked.
  package var estimatedRows: UInt64
  /// What the owner can do, this role can.
  package var isOwned: Bool
  package var owner: String
  /// Sequences that its columns take values from: schema and name.
  package var sequences: [(namespace: String, name: String)]
  /// What decides how values of types that are not built in print: labels of enums, attributes of composite types. A key
  /// whose text changes means that stored values print otherwise than before. Generated columns too, which are not among
  /// those of the schema.
  package var forms: [NameKey: String] = [:]
  /// Why the table cannot be captured; nil when it can.
  package var refusal: Refusal?

  package struct Detail: Equatable, Sendable {
    /// Type and modifier, as a relation message gives them.
    package var type: UInt32
    package var modifier: Int32
    /// Its number in the catalog: names a column for as long as it lives.
    package var number: Int
    /// What rows have that were there before the column; nil: NULL, or each its own value since the table was rewritten.
    @ByBytes package var missing: String? = nil
    /// It has a default of its own, or its type has one.
    package var mayHaveDefault = false
  }

  package struct Refusal: Sendable {
    package let reason: String
    /// The statements that mend it, with "; " between them; empty where there are none.
    package let mend: String
    /// Nothing is lost or harmed when the table is simply left out.
    package let isHarmless: Bool
    /// A partition logs too little of its old rows: UPDATE and DELETE of the program work, and would be lost.
    package var isOfPartition = false
  }

  /// `schema.name`, as patterns and people call it; without the schema where that is `public`.
  package var displayName: String {
    schema.namespace == "public" ? schema.name : "\(schema.namespace).\(schema.name)"
  }

  /// For SQL; children of inheritance have rows of their own.
  package var sqlName: String { (isPartitioned ? "" : "ONLY ") + schema.qualifiedName }
}

extension TableSchema {
  /// Schema and name, quoted.
  package var qualifiedName: String {
    namespace.isEmpty ? name.quotedName : "\(namespace.quotedName).\(name.quotedName)"
  }
}

extension TablePatterns {
  package func includes(_ table: PostgresTable) -> Bool {
    includes(namespace: table.schema.namespace, name: table.schema.name)
  }

  package func includes(_ table: TableSchema) -> Bool { includes(namespace: table.namespace, name: table.name) }

  /// A pattern may name the schema or not.
  package func includes(namespace: String, name: String) -> Bool {
    let full = "\(namespace).\(name)"
    // What excludes the full name or the bare one, excludes the table.
    var included = false
    for pattern in patterns {
      let excludes = pattern.hasPrefix("!")
      let bare = String(pattern.dropFirst(excludes ? 1 : 0))
      let one = TablePatterns([bare])
      if one.includes(bare.contains(".") ? full : name) { included = !excludes }
    }
    return included
  }
}

extension PostgresConnection {
  /// The user's tables by schema and name: without the server's own, those in schema `cairn`, partitions (their root
  /// stands for them), temporary ones and those of extensions. What cannot be captured comes with a refusal.
  ///
  /// All of it is of one moment.
  package func userTables() throws -> [PostgresTable] {
    let rows = try query(
      """
      SELECT \(CatalogDocument.sql(of: "listed.oid")) FROM pg_class AS listed
        JOIN pg_namespace AS place ON place.oid = listed.relnamespace
      WHERE \(PostgresTable.isUsers("listed", "place")) ORDER BY place.nspname, listed.relname
      """)
    var tables = try rows.compactMap { try PostgresTable(CatalogDocument($0[0] ?? "")) }
    PostgresTable.refuseAmbiguousNames(&tables)
    return tables
  }

  /// The table of this oid; nil where there is none.
  package func table(_ oid: UInt32) throws -> PostgresTable? {
    try PostgresTable(CatalogDocument(first("SELECT \(CatalogDocument.sql(of: "$1::oid"))", [String(oid)]) ?? ""))
  }

  /// Reads catalogs in one snapshot. What the server calls for a definition looks at the catalogs of now, and fails where
  /// an index or a table of the snapshot has just been dropped: then all is read again.
  ///
  /// A definition also waits for whoever has locked its table; with a `patience`, an error with `isLockTimeout` ends that.
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
  /// PostgreSQL compares the bytes of a name, and a dot may be part of one. Cairn knows a table by its full name: tables
  /// of which two have one full name, or names that differ only in how Unicode composes their letters, are refused.
  static func refuseAmbiguousNames(_ tables: inout [PostgresTable]) {
    // Keys of a dictionary are equal if they are canonically equivalent.
    let names = Dictionary(grouping: tables.indices, by: { tables[$0].schema.fullName })
    for group in names.values where group.count > 1 {
      for index in group where tables[index].refusal == nil {
        guard let other = group.first(where: { $0 != index }) else { continue }
        tables[index].refusal = .init(
          reason:
            "its name and that of \(tables[other].schema.qualifiedName) differ only in a dot or in how Unicode composes their letters",
          mend: "ALTER TABLE \(tables[index].schema.qualifiedName) RENAME TO ...", isHarmless: false)
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
