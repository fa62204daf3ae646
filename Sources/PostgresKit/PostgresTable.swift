import Changes

/// A table of a PostgreSQL database as it stands: its schema, and what capture must know beyond it.
package struct PostgresTable: Sendable {
  package var oid: UInt32
  /// Epoch 0; whoever captures the table counts epochs.
  package var schema: TableSchema
  /// Type and modifier of each of the schema's columns, as a relation message gives them.
  package var types: [(oid: UInt32, modifier: Int32)]
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
  /// Why the table cannot be captured; nil when it can.
  package var refusal: Refusal?

  package struct Refusal: Sendable {
    package let reason: String
    /// The statement that mends it; empty where there is none.
    package let mend: String
    /// Nothing is lost or harmed when the table is simply left out.
    package let isHarmless: Bool
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
  /// A pattern may name the schema or not.
  package func includes(_ table: PostgresTable) -> Bool {
    let name = table.schema.name
    let full = "\(table.schema.namespace).\(name)"
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
  /// Call it in a transaction, so that all of it is of one moment.
  package func userTables() throws -> [PostgresTable] {
    let rows = try query(
      """
      SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, greatest(c.reltuples, 0)::bigint,
        pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'USAGE'),
        c.relrowsecurity AND NOT (SELECT rolbypassrls OR rolsuper FROM pg_roles WHERE rolname = current_user)
          AND (c.relforcerowsecurity OR NOT pg_has_role(c.relowner, 'USAGE'))
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
        AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn') AND n.nspname NOT LIKE 'pg\\_%'
        AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
          AND d.deptype = 'e')
      ORDER BY n.nspname, c.relname
      """)
    var reader = CatalogReader(self)
    return try rows.map { row in try reader.table(row) }
  }
}

/// Puts tables together from the system catalogs.
///
/// Source: https://www.postgresql.org/docs/15/catalogs.html
private struct CatalogReader {
  struct Index {
    var isPrimary, isReplicaIdentity, isPlain, isDeferrable: Bool
    /// Attribute numbers of its key columns.
    var columns: [Int]
    var name, text: String
    /// As a table constraint; empty for an index alone.
    var constraint: String
  }

  let connection: PostgresConnection
  var types: PostgresTypes

  init(_ connection: PostgresConnection) {
    self.connection = connection
    types = PostgresTypes(connection)
  }

  mutating func table(_ row: [String?]) throws -> PostgresTable {
    func text(_ index: Int) -> String { row[index] ?? "" }
    let oid = text(0)
    let schema = TableSchema(epoch: 0, engine: .postgres, namespace: text(1), name: text(2), columns: [])
    var table = PostgresTable(
      oid: UInt32(oid) ?? 0, schema: schema, types: [], isPartitioned: text(3) == "p",
      estimatedRows: UInt64(text(6)) ?? 0, isOwned: text(8) == "t", owner: text(7), sequences: [])
    let columns = try connection.query(Self.columnsSQL, [oid])
    // Attribute number of each column of the schema.
    var numbers: [Int] = []
    for column in columns where (column[4] ?? "").isEmpty {
      numbers.append(Int(column[0] ?? "") ?? 0)
      table.types.append((UInt32(column[5] ?? "") ?? 0, Int32(column[6] ?? "") ?? -1))
      table.schema.columns.append(
        .init(
          name: column[1] ?? "", declaredType: column[2] ?? "", isNotNull: column[3] == "t", collation: column[7] ?? "",
          defaultText: column[8], baseType: column[9] ?? "",
          identity: column[10] == "a" ? .always : column[10] == "d" ? .byDefault : .none))
    }
    let indexes = try indexes(oid)
    for index in indexes where index.isPlain && !index.isPrimary {
      table.schema.uniques.append(index.columns.compactMap { numbers.firstIndex(of: $0) })
    }
    chooseKey(&table, identity: text(5), indexes: indexes, numbers: numbers)
    table.schema.foreignKeys = try foreignKeys(oid, numbers)
    table.schema.objects = try connection.query(Self.objectsSQL, [oid]).map {
      .init(name: $0[0] ?? "", text: $0[1] ?? "")
    }
    let sequences = try connection.query(Self.sequencesSQL, [oid])
    table.sequences = sequences.map { ($0[0] ?? "", $0[1] ?? "") }
    if table.isPartitioned { try readPartitions(of: &table, oid) }
    if numbers.isEmpty {
      table.refusal = .init(reason: "it has no column that could be captured", mend: "", isHarmless: true)
    }
    if text(3) == "f" {
      table.refusal = .init(reason: "it is a foreign table, whose changes are not logged", mend: "", isHarmless: true)
    }
    if text(4) == "u" {
      table.refusal = .init(
        reason: "it is unlogged, so its changes are not in the WAL",
        mend: "ALTER TABLE \(schema.qualifiedName) SET LOGGED", isHarmless: true)
    }
    if text(9) == "t" {
      table.refusal = .init(
        reason: "row level security hides rows from this role",
        mend: "ALTER ROLE \((try connection.first("SELECT current_user") ?? "").quotedName) BYPASSRLS",
        isHarmless: false)
    }
    let script = TableScript(table: table, columns: columns, indexes: indexes.map(\.constraint))
    table.schema.createText = try script.text(connection, &types, sequences)
    return table
  }

  /// Updates of a partition need an identity of its own.
  private func readPartitions(of table: inout PostgresTable, _ oid: String) throws {
    table.schema.flags.insert(.partitioned)
    let leaves = try connection.query(
      """
      SELECT c.oid || ':' || pg_relation_filenode(c.oid), n.nspname, c.relname,
        CASE c.relreplident WHEN 'f' THEN true WHEN 'n' THEN false ELSE EXISTS (SELECT 1 FROM pg_index AS i
          WHERE i.indrelid = c.oid AND i.indisvalid
            AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END) END
      FROM pg_partition_tree($1::oid::regclass) AS p JOIN pg_class AS c ON c.oid = p.relid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE p.isleaf AND c.relkind IN ('r', 'f') ORDER BY c.oid
      """, [oid])
    table.partitions = leaves.map { $0[0] ?? $0[2] ?? "" }
    if let leaf = leaves.first(where: { $0[3] == "f" }) {
      let name = "\((leaf[1] ?? "").quotedName).\((leaf[2] ?? "").quotedName)"
      table.refusal = .init(
        reason:
          "its partition \(leaf[2] ?? "") has no replica identity, so PostgreSQL would refuse the program's own UPDATE and DELETE",
        mend: "ALTER TABLE \(name) REPLICA IDENTITY FULL", isHarmless: false)
    }
  }

  /// The replica identity: by which columns an update or delete names its row.
  private func chooseKey(_ table: inout PostgresTable, identity: String, indexes: [Index], numbers: [Int]) {
    let primary = indexes.first(where: \.isPrimary)
    let chosen: Index? =
      switch identity {
      case "i": indexes.first(where: \.isReplicaIdentity)
      case "d", "f": primary
      default: nil
      }
    for (ordinal, number) in (chosen?.columns ?? []).enumerated() {
      if let column = numbers.firstIndex(of: number) { table.schema.columns[column].keyOrdinal = ordinal + 1 }
    }
    guard chosen == nil else { return }
    table.schema.flags.insert(.wholeRow)
    guard identity != "f" else { return }
    table.refusal = .init(
      reason:
        "it has no replica identity (no primary key), so PostgreSQL would refuse the program's own UPDATE and DELETE if it were captured",
      mend: "ALTER TABLE \(table.schema.qualifiedName) REPLICA IDENTITY FULL", isHarmless: false)
  }

  private func indexes(_ oid: String) throws -> [Index] {
    try connection.query(Self.indexesSQL, [oid]).map { row in
      Index(
        isPrimary: row[0] == "t", isReplicaIdentity: row[1] == "t", isPlain: row[2] == "t", isDeferrable: row[3] == "t",
        columns: (row[4] ?? "").split(separator: " ").compactMap { Int($0) }, name: row[5] ?? "", text: row[6] ?? "",
        constraint: row[7] ?? "")
    }
  }

  private func foreignKeys(_ oid: String, _ numbers: [Int]) throws -> [TableSchema.ForeignKey] {
    let actions = ["a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"]
    return try connection.query(Self.foreignKeysSQL, [oid]).compactMap { row in
      let columns = (row[0] ?? "").split(separator: " ").compactMap { Int($0).flatMap { numbers.firstIndex(of: $0) } }
      guard !columns.isEmpty else { return nil }
      return .init(
        columns: columns, namespace: row[1] ?? "", table: row[2] ?? "",
        references: (row[3] ?? "").split(separator: "\u{1f}").map(String.init),
        onUpdate: actions[row[4] ?? ""] ?? "NO ACTION", onDelete: actions[row[5] ?? ""] ?? "NO ACTION",
        timing: row[6] == "t" ? .deferred : row[7] == "t" ? .deferrable : .immediate)
    }
  }

  // A default or CHECK that calls a function of the user's is left out: the target need not have it.
  private static let columnsSQL = """
    SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, a.atttypid,
      a.atttypmod, CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation
        THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) ELSE '' END,
      CASE WHEN NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
        AND d.refclassid = 'pg_proc'::regclass) THEN pg_get_expr(ad.adbin, ad.adrelid) END,
      CASE WHEN t.typtype = 'd' THEN (
        WITH RECURSIVE b(type, modifier) AS (
          SELECT t.typbasetype, t.typtypmod
          UNION ALL SELECT x.typbasetype, x.typtypmod FROM b JOIN pg_type AS x ON x.oid = b.type WHERE x.typtype = 'd')
        SELECT CASE x.typtype WHEN 'e' THEN 'enum' WHEN 'c' THEN 'record' ELSE format_type(x.oid, b.modifier) END
        FROM b JOIN pg_type AS x ON x.oid = b.type WHERE x.typtype <> 'd')
      WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN ''
      ELSE CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'c' THEN 'record' WHEN 'r' THEN 'range' WHEN 'm' THEN 'multirange'
        ELSE CASE WHEN t.typcategory = 'A' THEN 'array' ELSE '' END END END,
      a.attidentity
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef AS ad ON ad.adrelid = a.attrelid AND ad.adnum = a.attnum
      LEFT JOIN pg_collation AS co ON co.oid = a.attcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    """

  private static let indexesSQL = """
    SELECT i.indisprimary, i.indisreplident, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique,
      NOT i.indimmediate,
      (SELECT string_agg(k.n::text, ' ' ORDER BY k.place) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, place)
        WHERE k.place <= i.indnkeyatts),
      x.relname, pg_get_indexdef(i.indexrelid),
      CASE WHEN co.oid IS NULL THEN '' ELSE 'CONSTRAINT ' || quote_ident(co.conname) || ' ' || pg_get_constraintdef(co.oid)
        END
    FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
      LEFT JOIN pg_constraint AS co ON co.conindid = i.indexrelid AND co.conrelid = i.indrelid
        AND co.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = $1::oid AND i.indisvalid AND (i.indisunique OR co.oid IS NOT NULL)
    ORDER BY i.indisprimary DESC, x.relname
    """

  private static let objectsSQL = """
    SELECT x.relname, pg_get_indexdef(i.indexrelid) FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE i.indrelid = $1::oid AND i.indisvalid AND NOT EXISTS (SELECT 1 FROM pg_constraint AS co
        WHERE co.conindid = i.indexrelid AND co.conrelid = i.indrelid AND co.contype IN ('p', 'u', 'x'))
      AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
        AND d.refclassid = 'pg_proc'::regclass)
    ORDER BY x.relname
    """

  private static let foreignKeysSQL = """
    SELECT array_to_string(co.conkey, ' '), n.nspname, c.relname,
      (SELECT string_agg(a.attname, E'\\x1f' ORDER BY k.place) FROM unnest(co.confkey) WITH ORDINALITY AS k(n, place)
        JOIN pg_attribute AS a ON a.attrelid = co.confrelid AND a.attnum = k.n),
      co.confupdtype, co.confdeltype, co.condeferred, co.condeferrable
    FROM pg_constraint AS co JOIN pg_class AS c ON c.oid = co.confrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE co.conrelid = $1::oid AND co.contype = 'f' AND co.conparentid = 0 ORDER BY co.conname
    """

  /// Sequences of identity and serial columns: schema, name, attribute number of the owning column, kind, and options.
  private static let sequencesSQL = """
    SELECT n.nspname, c.relname, coalesce(o.refobjsubid, 0), coalesce(o.deptype, ''),
      'AS ' || format_type(s.seqtypid, NULL) || ' INCREMENT BY ' || s.seqincrement || ' MINVALUE ' || s.seqmin
        || ' MAXVALUE ' || s.seqmax || ' START WITH ' || s.seqstart || ' CACHE ' || s.seqcache
        || CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END,
      s.seqtypid
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_sequence AS s ON s.seqrelid = c.oid
      LEFT JOIN pg_depend AS o ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.refobjid = $1::oid
        AND o.deptype IN ('a', 'i')
    WHERE c.relkind = 'S' AND (o.objid IS NOT NULL OR EXISTS (
      SELECT 1 FROM pg_attrdef AS ad JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
      WHERE ad.adrelid = $1::oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid))
    ORDER BY n.nspname, c.relname
    """
}
