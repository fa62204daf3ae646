import Changes
import Conflicts
import PostgresKit

// Reads and writes single rows by key, for resolved conflicts. Uses one statement for each row, as conflicts are few.
extension PostgresApplyTable {
  /// The columns that have one constant value in all rows of this trail, as indexes, with the value as text. Empty if all
  /// rows of the table belong to the trail.
  var shares: [(index: Int, text: String)] {
    (source.treatment?.shares ?? []).compactMap { share in
      guard let index = source.columns.firstIndex(where: { $0.name.hasSameBytes(as: share.column) }) else { return nil }
      var text = ByteWriter(capacity: 64)
      share.value.withView { view in try? converters[index].append(view, to: &text) }
      return (index, String(decoding: text.bytes, as: UTF8.self))
    }
  }

  private func keyed(from first: Int) -> String {
    " WHERE "
      + key.enumerated().map { offset, index in
        "\(columns[index].name.quotedName) \(columns[index].equality) $\(first + offset)::\(columns[index].castType)"
      }.joined(separator: " AND ")
  }

  private var texts: String { columns.map { "\($0.name.quotedName)::text" }.joined(separator: ",") }

  /// Returns the target's row with this key as texts, and locks the row until the caller's transaction ends. Nil if
  /// there is no such row.
  func row(_ key: [Value], _ connection: PostgresConnection) throws -> [String?]? {
    try connection.query(
      "SELECT \(texts) FROM \(target.rowsName)\(keyed(from: 1)) FOR UPDATE", key.map(\.postgresInput)
    ).first
  }

  /// The text of a SELECT that returns every row, with NULL in all columns except the key. A WHERE clause can be
  /// appended.
  var keysText: String {
    let texts = columns.indices.map { key.contains($0) ? "\(columns[$0].name.quotedName)::text" : "NULL" }
    return "SELECT \(texts.joined(separator: ",")) FROM \(target.rowsName)"
  }

  /// Updates the row with this key, or inserts it if the table has no such row; deletes it if `row` is nil. Columns
  /// whose value is nil are not set.
  func put(_ row: RowVersion.Row?, _ key: [Value], _ connection: PostgresConnection) throws {
    guard let row else {
      try connection.run("DELETE FROM \(target.rowsName)\(keyed(from: 1))", key.map(\.postgresInput))
      return
    }
    if try !update(row, key, connection) { try insert(row, connection) }
  }

  /// Updates the row with this key: sets the columns that have a value in `row`. Returns false if there is no such row,
  /// or if an UPDATE can set none of these columns.
  func update(_ row: RowVersion.Row, _ key: [Value], _ connection: PostgresConnection) throws -> Bool {
    let settable = row.indices.filter { row[$0] != nil && !alwaysIdentity.contains($0) }
    guard !settable.isEmpty else { return false }
    let set = settable.enumerated().map { "\(columns[$1].name.quotedName) = \(mark($0, $1))" }.joined(separator: ",")
    return try connection.run(
      "UPDATE \(target.rowsName) SET \(set)\(keyed(from: settable.count + 1))",
      settable.map { row[$0].flatMap(\.postgresInput) } + key.map(\.postgresInput)) > 0
  }

  func insert(_ row: RowVersion.Row, _ connection: PostgresConnection) throws {
    let given = row.indices.filter { row[$0] != nil }
    let marks = given.enumerated().map { mark($0, $1) }.joined(separator: ",")
    let always = alwaysIdentity.isEmpty ? "" : " OVERRIDING SYSTEM VALUE"
    try connection.run(
      "INSERT INTO \(target.qualifiedName)(\(given.map { columns[$0].name.quotedName }.joined(separator: ",")))\(always) VALUES (\(marks))",
      given.map { row[$0].flatMap(\.postgresInput) })
    hasNewKeys = true
  }

  private func mark(_ place: Int, _ index: Int) -> String { "$\(place + 1)::\(columns[index].castType)" }

  /// Locks the target's rows with these keys until the caller's transaction ends, with one SELECT FOR UPDATE.
  func lock(_ keys: some Collection<[Value]>, _ connection: PostgresConnection) throws {
    guard !keys.isEmpty, !key.isEmpty else { return }
    var values: [String?] = []
    let lines = keys.map { row in
      let marks = row.indices.map { mark(values.count + $0, key[$0]) }
      values += row.map(\.postgresInput)
      return "(\(marks.joined(separator: ",")))"
    }
    let names = key.indices.map { "v\($0)" }.joined(separator: ",")
    let terms = key.enumerated().map { "t.\(columns[$1].name.quotedName) \(columns[$1].equality) s.v\($0)" }
    try connection.query(
      """
      SELECT FROM \(target.rowsName) AS t JOIN (VALUES \(lines.joined(separator: ","))) AS s(\(names))
      ON \(terms.joined(separator: " AND ")) FOR UPDATE OF t
      """, values)
  }

  // MARK: Foreign keys

  func lookUpReferrers(_ connection: PostgresConnection) throws -> [Reference] {
    let rows = try connection.query(
      """
      SELECT c.oid, cn.nspname, ct.relname, pn.nspname, pt.relname, ca.attname, pa.attname,
        ca.atttypid = pa.atttypid OR ca.atttypid < 16384 AND pa.atttypid < 16384, ct.relkind,
        CASE WHEN ct.relowner NOT IN (\(OwnSchema.trustedRoles))
          THEN pg_get_userbyid(ct.relowner)::text ELSE '' END,
        EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.relation = ct.oid AND l.granted
          AND l.mode ~ '^(ShareUpdateExclusive|ShareRowExclusive|Exclusive|AccessExclusive)Lock$')
      FROM pg_constraint c
      JOIN pg_class ct ON ct.oid = c.conrelid JOIN pg_namespace cn ON cn.oid = ct.relnamespace
      JOIN pg_class pt ON pt.oid = c.confrelid JOIN pg_namespace pn ON pn.oid = pt.relnamespace
      CROSS JOIN LATERAL unnest(c.conkey, c.confkey) WITH ORDINALITY AS k(child, parent, place)
      JOIN pg_attribute ca ON ca.attrelid = ct.oid AND ca.attnum = k.child
      JOIN pg_attribute pa ON pa.attrelid = pt.oid AND pa.attnum = k.parent
      WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confrelid = $1::regclass
      ORDER BY c.oid, k.place
      """, [target.qualifiedName])
    return Dictionary(grouping: rows) { $0[0] ?? "" }.sorted { $0.key < $1.key }.map(\.value).map { group in
      let texts = group[0].map { $0 ?? "" }
      return Reference(
        namespace: texts[1], child: texts[2], columns: group.map { $0[5] ?? "" }, parent: "\(texts[3]).\(texts[4])",
        references: group.map { $0[6] ?? "" }, convertsByCode: group.contains { $0[7] != "t" },
        untrusted: texts[9], isLocked: texts[10] == "t", isPartitioned: texts[8] == "p")
    }
  }

  /// Returns all foreign keys of the database, the unique columns (not primary keys) that they reference, and the
  /// tables whose rows the version window lists.
  static func foreignKeys(_ connection: PostgresConnection) throws -> RowNames.Catalog {
    let rows = try connection.query(
      """
      SELECT c.oid, n.nspname, t.relname, m.nspname, p.relname, a.attname
      FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace
      JOIN pg_class p ON p.oid = c.confrelid JOIN pg_namespace m ON m.oid = p.relnamespace
      JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (c.conkey)
      WHERE c.contype = 'f' AND c.conparentid = 0
      """)
    let keys = Dictionary(grouping: rows) { $0[0] ?? "" }.values.map { columns in
      let texts = columns[0].map { $0 ?? "" }
      return RowNames.OwnKey(
        "\(texts[1]).\(texts[2])", columns.map { $0[5] ?? "" }, to: "\(texts[3]).\(texts[4])")
    }
    let holders = try TableHolders(connection.oldestNames)
    return (try alternates(connection), Set(keys), holders)
  }

  private static func alternates(_ connection: PostgresConnection) throws -> RowNames.Alternates {
    let rows = try connection.query(
      """
      SELECT c.oid, n.nspname, p.relname, a.attname
      FROM pg_constraint c JOIN pg_class p ON p.oid = c.confrelid JOIN pg_namespace n ON n.oid = p.relnamespace
      JOIN pg_attribute a ON a.attrelid = p.oid AND a.attnum = ANY (c.confkey)
      WHERE c.contype = 'f' AND c.conparentid = 0 AND NOT EXISTS (
        SELECT 1 FROM pg_constraint k
        WHERE k.conrelid = p.oid AND k.contype = 'p' AND k.conkey @> c.confkey AND k.conkey <@ c.confkey)
      """)
    return Dictionary(grouping: rows) { $0[0] ?? "" }.values.reduce(into: [:]) { found, columns in
      let table = "\(columns[0][1] ?? "").\(columns[0][2] ?? "")".sqliteKey
      found[table, default: []].insert(columns.map { ($0[3] ?? "").sqliteKey }.sorted())
    }
  }

  func isReferred(
    _ row: [String?], _ referrers: [Reference], _ key: [Value], _ connection: PostgresConnection
  ) throws -> Bool {
    for reference in referrers {
      let found = reference.references.compactMap { name in columns.firstIndex { $0.name.hasSameBytes(as: name) } }
      let values = found.compactMap { row[$0] }
      guard values.count == reference.references.count else { continue }
      // A comparison of the columns would run a cast of a type's owner: rows of such a table count as referenced.
      if reference.convertsByCode { return true }
      var terms = reference.columns.enumerated().map {
        "\($1.quotedName) = $\($0 + 1)::\(columns[found[$0]].castType)"
      }
      var parameters: [String?] = values
      if reference.namespace.hasSameBytes(as: target.schema), reference.child.hasSameBytes(as: target.name) {
        // A row that references itself does not count.
        terms.append("NOT (\(keyed(from: values.count + 1).dropFirst(7)))")
        parameters += key.map(\.postgresInput)
      }
      let child = (reference.isPartitioned ? "" : "ONLY ") + reference.childName
      let sql = "SELECT 1 FROM \(child) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
      if try connection.first(sql, parameters) != nil { return true }
    }
    return false
  }
}
