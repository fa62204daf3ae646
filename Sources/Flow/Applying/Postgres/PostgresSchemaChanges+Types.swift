import Changes
import Mapping
import PostgresKit

// User-defined types of a table's columns, which other tables may use too.
extension PostgresSchemaChanges {
  /// Returns the user-defined types that a table has before or after a schema change, as they are at the target. A
  /// catch-up leaves out types that are already altered.
  func types(of change: Change) throws -> [PostgresUserType] {
    let (before, after) = (PostgresUserType.all(of: change.before), PostgresUserType.all(of: change.after))
    let there = try Set((before + after).map(\.name.nameKey)).sorted().compactMap {
      try PostgresUserType.read($0.text, connection)
    }
    guard isCatchUp else { return there }
    return there.filter { type in
      guard let was = before.first(where: { $0.name.hasSameBytes(as: type.name) }) else { return false }
      return type.compared(to: was, after.first { $0.name.hasSameBytes(as: type.name) } ?? was) == was
    }
  }

  /// Returns the reason why apply must not alter these types of a table; nil if there is none.
  func objection(_ types: [String], _ known: PostgresApplyState.Table) throws -> String? {
    for type in types {
      let other = try users(of: type).first { user in
        (user.schema != known.schema || user.name != known.name) && !isCreated(user)
      }
      if let other {
        return "table \(other.schema).\(other.name), which Cairn did not create, has the type \(type) too"
      }
      if try !reaches(type) { return "'tables' of the apply includes no table with the type \(type)" }
    }
    return nil
  }

  /// Alters the composite types of a new table that have other attributes at the target.
  ///
  /// - Throws: `schema-stopped` if another table uses such a type.
  func prepareTypes(_ source: TableSchema, _ mapped: TableSchema, _ refusal: SchemaRefusal) throws {
    for wanted in PostgresUserType.all(of: mapped) {
      guard case .composite = wanted.kind, let there = try PostgresUserType.read(wanted.name, connection),
        there != wanted
      else { continue }
      guard try reaches(wanted.name) else { continue }
      let statements = there.statements(to: wanted)
      let users = try users(of: wanted.name)
      if let user = isCatchUp ? users.first(where: { !isCreated($0) }) : users.first {
        var refusal = refusal
        refusal.statements = statements + refusal.statements
        throw refusal.error(
          "the type \(wanted.name) has other attributes there, and table \(user.schema).\(user.name) has it",
          table: source.fullName)
      }
      guard users.isEmpty else { continue }
      for statement in statements { try connection.run(statement, []) }
      progress.note("type \(wanted.name) existed with other attributes, and now has the source's")
    }
  }

  /// Throws `schema-stopped` if statements about a table would use a type that can hold code of an untrusted role.
  ///
  /// The server runs CHECKs of domains and functions of types with the rights of the session.
  ///
  /// - Parameter table: The table at the target. If it exists, its present types are checked too.
  func checkTypes(
    _ schemas: [TableSchema], _ table: PostgresApplyState.Table, _ refusal: SchemaRefusal, named name: String
  ) throws {
    var (certain, possible): (Set<NameKey>, Set<NameKey>) = ([], [])
    for schema in schemas {
      let named = schema.namedTypes
      certain.formUnion(named.certain)
      possible.formUnion(named.possible)
    }
    let names = certain.sorted() + possible.subtracting(certain).sorted()
    let list = names.indices.map { "($\($0 + 2)::text, \($0 < certain.count))" }.joined(separator: ", ")
    let place = "\(table.schema.quotedName).\(table.name.quotedName)"
    let values: [String] = [place] + names.map(\.text)
    let rows = try connection.query(
      foreignTypes(names.isEmpty ? "SELECT NULL::text, true" : "VALUES \(list)"), values)
    guard let found = rows.first else { return }
    let (type, function, role) = (found[0] ?? "", found[1] ?? "", found[2] ?? "")
    var refusal = refusal
    // The statements would run the same code with the rights of the operator.
    refusal.statements = []
    throw refusal.error(
      function.isEmpty
        ? "the type \(type) there belongs to role \(role), whose checks would run with the rights of apply"
        : "function \(function) of the type \(type) there belongs to role \(role), and would run with the rights of apply",
      table: name,
      hint: function.isEmpty
        ? "if you trust role \(role), run at the target: ALTER TYPE \(type) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop the type, or leave the table out with 'tables'"
        : "if you trust role \(role), run at the target: ALTER FUNCTION \(function) OWNER TO CURRENT_USER, as the role of apply or a superuser; else drop it, or leave the table out with 'tables'"
    )
  }

  /// Throws `schema-stopped` if a table that Cairn has created or altered needs an object of an untrusted role that it
  /// did not need before.
  func checkOwners(
    of table: PostgresApplyState.Table, since before: [UntrustedObject] = [], _ refusal: SchemaRefusal,
    named name: String
  ) throws {
    guard let found = try UntrustedObject.read(of: table, connection).first(where: { !before.contains($0) }) else {
      return
    }
    var refusal = refusal
    refusal.statements = []
    throw refusal.error(found.refusal, table: name, hint: found.hint)
  }

  /// Returns the name of a composite type whose new attribute types differ from those at the target. Nil if the schema
  /// change has no such type.
  func unfitType(_ change: Change) throws -> String? {
    for wanted in PostgresUserType.all(of: change.after) where !PostgresUserType.all(of: change.before).contains(wanted)
    {
      guard case .composite(let attributes) = wanted.kind,
        case .composite(let there)? = try PostgresUserType.read(wanted.name, connection)?.kind,
        !there.map(\.type).hasSameBytes(as: attributes.map(\.type))
      else { continue }
      return wanted.name
    }
    return nil
  }

  /// Returns the name of a type that the schema change alters and that the operator must still alter at the target. Nil
  /// if there is none.
  func unchangedType(_ change: Change) throws -> String? {
    let before = PostgresUserType.all(of: change.before)
    for wanted in PostgresUserType.all(of: change.after) {
      guard let was = before.first(where: { $0.name.hasSameBytes(as: wanted.name) }), was != wanted,
        let there = try PostgresUserType.read(wanted.name, connection), there.compared(to: was, wanted) == was
      else { continue }
      return wanted.name
    }
    return nil
  }

  /// Returns the name of a type of a table that is a type of another kind at the target, or a table. Nil if there is
  /// none.
  func takenTypeName(in mapped: TableSchema) throws -> String? {
    try PostgresUserType.all(of: mapped).first { wanted in
      let kind = try connection.first(
        """
        SELECT CASE WHEN coalesce(c.relkind, 'c') = 'c' THEN t.typtype::text ELSE 'table' END
        FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid WHERE t.oid = to_regtype($1)
        """, [wanted.name])
      return kind != nil && kind != wanted.kind.letter
    }?.name
  }

  /// Returns whether apply may alter an existing type.
  ///
  /// If the setting `tables` limits the apply, some table must use the type, and the setting must include every such
  /// table.
  func reaches(_ type: String) throws -> Bool {
    if scope.isOpen { return true }
    let users = try users(of: type)
    return !users.isEmpty && users.allSatisfy { scope.verdict($0.schema, $0.name, in: .postgres) == .allowed }
  }

  func reaches(labelOf statement: String, in mapped: TableSchema) throws -> Bool {
    if scope.isOpen { return true }
    let type = PostgresUserType.all(of: mapped).first { type in
      ["RENAME", "ADD"].contains { statement.hasPrefix("ALTER TYPE \(type.name) \($0) VALUE ") }
    }
    return try type.map { try reaches($0.name) } ?? false
  }

  private func isCreated(_ user: (schema: String, name: String)) -> Bool {
    tables.values.contains { $0.isCreated && ($0.schema, $0.name) == user }
  }

  private func users(of type: String) throws -> [(schema: String, name: String)] {
    try connection.query(
      """
      WITH RECURSIVE used(oid) AS (
        SELECT to_regtype($1)::oid
        UNION SELECT t.oid FROM used JOIN pg_type AS t ON t.typelem = used.oid AND t.typcategory = 'A'
          OR t.typbasetype = used.oid OR EXISTS (SELECT FROM pg_attribute AS a
            WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.atttypid = used.oid AND NOT a.attisdropped)
          OR EXISTS (SELECT FROM pg_range AS r WHERE r.rngsubtype = used.oid AND t.oid IN (r.rngtypid, r.rngmultitypid)))
      SELECT DISTINCT n.nspname, c.relname FROM used JOIN pg_attribute AS a ON a.atttypid = used.oid
        AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_class AS o ON o.oid = a.attrelid AND o.relkind IN ('r', 'p', 'f', 'm')
        JOIN pg_class AS c ON c.oid = coalesce(pg_partition_root(o.oid), o.oid)
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
      ORDER BY 1, 2
      """, [type]
    ).map { ($0[0] ?? "", $0[1] ?? "") }
  }
}

extension PostgresUserType.Kind {
  /// The kind of the type in `pg_type.typtype`.
  fileprivate var letter: String {
    switch self {
    case .enumeration: "e"
    case .composite: "c"
    case .domain: "d"
    }
  }
}

extension PostgresUserType {
  // A longer definition, which the type's owner may make from a few bytes, is cut. It then differs from every other one.
  private static let printedMax = 1 << 20

  static func read(_ name: String, _ connection: PostgresConnection) throws -> PostgresUserType? {
    let found = try connection.query(
      """
      SELECT t.oid, t.typtype, t.typnotnull::text, left(pg_get_expr(t.typdefaultbin, 0), \(printedMax))
      FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid
      WHERE t.oid = to_regtype($1) AND coalesce(c.relkind, 'c') = 'c'
      """, [name])
    guard let row = found.first else { return nil }
    switch row[1] {
    case "e":
      let labels = try connection.query(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder", [row[0]])
      return .init(name: name, kind: .enumeration(labels.map { NameKey($0[0] ?? "") }))
    case "c":
      let attributes = try connection.query(
        """
        SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_type AS t
          JOIN pg_attribute AS a ON a.attrelid = t.typrelid
        WHERE t.oid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
        """, [row[0]])
      return .init(name: name, kind: .composite(attributes.map { .init(name: $0[0] ?? "", type: $0[1] ?? "") }))
    case "d":
      let checks = try connection.query(
        """
        SELECT conname, left(pg_get_constraintdef(oid), \(printedMax)) FROM pg_constraint
        WHERE contypid = $1::oid AND contype = 'c'
        """, [row[0]])
      return .init(
        name: name,
        kind: .domain(
          .init(
            defaultText: row[3], isNotNull: row[2] == "true",
            checks: checks.map { .init(name: $0[0] ?? "", text: $0[1] ?? "") })))
    default: return nil
    }
  }
}

private func foreignTypes(_ names: String) -> String {
  """
  WITH RECURSIVE trusted(oid) AS (\(OwnSchema.trustedRoles)
  ), part(oid) AS (
    SELECT a.atttypid FROM pg_attribute a
      WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    UNION SELECT t.oid FROM (\(names)) AS n(name, is_certain) JOIN pg_type t ON t.oid = to_regtype(n.name)
      WHERE t.oid >= 16384 AND (n.is_certain OR t.typrelid = 0
        OR EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
    UNION SELECT x.oid FROM part CROSS JOIN LATERAL (
      SELECT t.typelem AS oid FROM pg_type t WHERE t.oid = part.oid
      UNION ALL SELECT t.typbasetype FROM pg_type t WHERE t.oid = part.oid
      UNION ALL SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
        AND NOT a.attisdropped WHERE t.oid = part.oid AND t.typrelid <> 0
      -- Multiranges came with PostgreSQL 14.
      UNION ALL SELECT s.oid FROM pg_range g
        CROSS JOIN LATERAL (SELECT (to_jsonb(g) ->> 'rngmultitypid')::oid AS oid) m
        CROSS JOIN LATERAL (VALUES (g.rngtypid), (g.rngsubtype), (m.oid)) AS s(oid)
        WHERE part.oid IN (g.rngtypid, m.oid)) AS x WHERE x.oid >= 16384
  ), code(type, function) AS (
    SELECT part.oid, c.castfunc FROM part JOIN pg_cast c ON part.oid IN (c.castsource, c.casttarget)
      WHERE c.castsource < 16384 OR c.casttarget < 16384
        OR c.castsource IN (SELECT oid FROM part) AND c.casttarget IN (SELECT oid FROM part)
    UNION SELECT part.oid, coalesce(o.oprcode, d.refobjid) FROM part JOIN pg_constraint k ON k.contypid = part.oid
      JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
        AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
      LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    UNION SELECT part.oid, f.oid::oid FROM part JOIN pg_range g ON g.rngtypid = part.oid
      CROSS JOIN LATERAL (VALUES (g.rngcanonical), (g.rngsubdiff)) AS f(oid))
  SELECT part.oid::regtype::text, '', pg_get_userbyid(t.typowner) FROM part JOIN pg_type t ON t.oid = part.oid
    WHERE t.typtype IN ('d', 'c') AND t.typowner NOT IN (SELECT oid FROM trusted)
  UNION ALL SELECT code.type::regtype::text, p.oid::regprocedure::text, pg_get_userbyid(p.proowner) FROM code
    JOIN pg_proc p ON p.oid = code.function JOIN pg_language l ON l.oid = p.prolang
    -- PostgreSQL makes functions for ranges, in C; only superusers make others in C.
    WHERE p.proowner NOT IN (SELECT oid FROM trusted) AND l.lanname NOT IN ('internal', 'c')
  ORDER BY 1, 2 LIMIT 1
  """
}
