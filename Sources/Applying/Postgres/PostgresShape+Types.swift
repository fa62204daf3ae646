import Changes
import Mapping
import PostgresKit

// User-defined types of a table's columns, which other tables may use too.
extension PostgresShape {
  /// Returns the types that a change may alter. A lane omits types that are not as they were before: tables that did
  /// not wait have changed them already.
  func types(of change: Change) throws -> [PostgresUserType] {
    let (before, after) = (PostgresUserType.all(of: change.before), PostgresUserType.all(of: change.after))
    let there = try Set((before + after).map(\.name.nameKey)).sorted().compactMap {
      try PostgresUserType.read($0.text, connection)
    }
    guard isLane else { return there }
    return there.filter { type in
      guard let was = before.first(where: { $0.name.hasSameBytes(as: type.name) }) else { return false }
      return type.compared(to: was, after.first { $0.name.hasSameBytes(as: type.name) } ?? was) == was
    }
  }

  /// Returns why types are not altered: tables that Cairn did not create use them. Nil if they may be altered.
  func objection(_ types: [String], _ known: PostgresTargetState.Table) throws -> String? {
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

  /// Alters composite types that an earlier table left in another shape to what a new table needs.
  ///
  /// If a table uses such a type, the operator decides. A lane accepts tables of Cairn's: their type has its later
  /// shape.
  func prepareTypes(_ source: TableSchema, _ mapped: TableSchema, _ refusal: SchemaRefusal) throws {
    for wanted in PostgresUserType.all(of: mapped) {
      guard case .composite = wanted.kind, let there = try PostgresUserType.read(wanted.name, connection),
        there != wanted
      else { continue }
      guard try reaches(wanted.name) else { continue }
      let statements = there.statements(to: wanted)
      let users = try users(of: wanted.name)
      if let user = isLane ? users.first(where: { !isCreated($0) }) : users.first {
        var refusal = refusal
        refusal.statements = statements + refusal.statements
        throw refusal.error(
          "the type \(wanted.name) has other attributes there, and table \(user.schema).\(user.name) has it",
          table: source.fullName)
      }
      guard users.isEmpty else { continue }
      for statement in statements { try connection.run(statement, []) }
      progress.note("type \(wanted.name) was there with other attributes, and is now as at the source")
    }
  }

  /// Returns a composite type whose attributes at the source no longer match the target's; nil if all match.
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

  /// Returns a type that the operator still has to alter, as it is unchanged; nil if none.
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

  /// Returns whether apply may alter an existing type. With a list of tables, it may if the list includes every table
  /// that uses the type. A type that no table uses is not altered.
  func reaches(_ type: String) throws -> Bool {
    if scope.isOpen { return true }
    let users = try users(of: type)
    return !users.isEmpty && users.allSatisfy { scope.verdict($0.schema, $0.name, in: .postgres) == .allowed }
  }

  /// Returns the same for a statement that renames a label of one of the table's types.
  func reaches(labelOf statement: String, in mapped: TableSchema) throws -> Bool {
    if scope.isOpen { return true }
    let type = PostgresUserType.all(of: mapped).first { statement.hasPrefix("ALTER TYPE \($0.name) RENAME VALUE ") }
    return try type.map { try reaches($0.name) } ?? false
  }

  private func isCreated(_ user: (schema: String, name: String)) -> Bool {
    tables.values.contains { $0.isCreated && ($0.schema, $0.name) == user }
  }

  /// Returns the tables with a column of the type, or of a type that is built on it.
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

extension PostgresUserType {
  /// Returns the type of this name; nil if there is none that can be altered.
  static func read(_ name: String, _ connection: PostgresConnection) throws -> PostgresUserType? {
    let found = try connection.query(
      """
      SELECT t.oid, t.typtype, t.typnotnull::text, pg_get_expr(t.typdefaultbin, 0)
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
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = $1::oid AND contype = 'c'",
        [row[0]])
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
