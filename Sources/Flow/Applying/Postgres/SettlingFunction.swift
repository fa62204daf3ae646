import Changes
import Conflicts
import PostgresKit

/// A database function of the conflict rule `function:`, which resolves a conflict of two rows of a PostgreSQL table.
///
/// Its arguments are the two rows, and the row before both changes (NULL: not known). Its result is the row that wins.
///
/// Apply may call the function more than once, so it must be `STABLE` or `IMMUTABLE`.
struct SettlingFunction {
  private let name: String
  private let table: PostgresApplyTable
  private let connection: PostgresConnection

  init(_ name: String, _ table: PostgresApplyTable, _ connection: PostgresConnection) {
    (self.name, self.table, self.connection) = (name, table, connection)
  }

  func row(_ rows: MetRows) throws -> RowVersion.Row? {
    do {
      let type = table.target.qualifiedName
      let attributes = try connection.query(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [type]
      ).compactMap { $0[0] }
      try checkKind(type)
      let texts = table.columns.map { "r.\($0.name.quotedName)::text" }.joined(separator: ", ")
      let given = [rows.local, rows.incoming, rows.before].map { row in row.map { literal($0, attributes) } }
      let found = try connection.query(
        "SELECT \(texts) FROM \(name)($1::\(type), $2::\(type), $3::\(type)) AS r", given)
      guard let settled = found.first, settled.contains(where: { $0 != nil }) else { return nil }
      var row: RowVersion.Row = PostgresForm(table: table, names: .keep).row(settled)
      for place in table.key { row[place] = rows.incoming[place] }
      return row
    } catch let error as PostgresError where error.isOfStatement && !error.sqlState.hasPrefix("42") {
      // The function is there, and fails for these rows.
      throw CairnError(
        .conflictStopped, "the rule function:\(name) for conflicts fails: \(error.message)",
        hint: "write the row at one of the nodes, with values that the function takes, or choose another rule")
    } catch let error as PostgresError where !error.isServerGone { throw refused(error.message) }
  }

  private func checkKind(_ type: String) throws {
    let kind = try connection.first(
      """
      SELECT CASE WHEN p.provolatile = 'v' THEN 'it is VOLATILE'
          WHEN p.proretset OR p.prorettype <> c.reltype THEN 'it does not return ' || $2 ELSE '' END
      FROM pg_proc p, pg_class c
      WHERE p.oid = to_regprocedure($1 || '(' || concat_ws(',', $2, $2, $2) || ')') AND c.oid = $2::regclass
      """, [name, type])
    if kind != "" { throw refused(kind ?? "there is no such function of three rows of \(type)") }
    if let owner = try connection.first(Self.ownerText, [name, type]) { throw foreign(type, owner) }
  }

  /// The query for an untrusted role that could replace the function: the owner of the function or of its schema.
  private static let ownerText = """
    SELECT r.rolname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      \(OwnSchema.databaseOwner)
      JOIN pg_roles r ON r.oid IN (p.proowner, coalesce(d.datdba, n.nspowner))
    WHERE p.oid = to_regprocedure($1::text || '(' || concat_ws(',', $2::text, $2::text, $2::text) || ')')
      AND NOT \(OwnSchema.isTrusted("r")) LIMIT 1
    """

  private func foreign(_ type: String, _ owner: String) -> CairnError {
    CairnError(
      .ownersCode,
      "the rule function:\(name) for conflicts of table \(table.source.fullName) would run code of role \(owner) with the rights of apply",
      hint:
        "if you trust what it does, run at the target: ALTER FUNCTION \(name)(\(type), \(type), \(type)) OWNER TO CURRENT_USER, as the role of apply or a superuser, in a schema that one of these owns",
      context: ["table": table.source.fullName])
  }

  private func literal(_ row: RowVersion.Row, _ attributes: [String]) -> String {
    let values = attributes.map { name in
      let value = table.columns.firstIndex { $0.name.hasSameBytes(as: name) }.flatMap { row[$0]?.postgresInput }
      return value?.quotedField ?? ""
    }
    return "(" + values.joined(separator: ",") + ")"
  }

  private func refused(_ reason: String) -> CairnError {
    let type = table.target.qualifiedName
    return CairnError(
      .ruleRefused,
      "the rule function:\(name) for conflicts of table \(table.source.fullName) cannot be applied: \(reason)",
      hint:
        "CREATE FUNCTION \(name)(local \(type), incoming \(type), before \(type)) RETURNS \(type) STABLE ..., and GRANT EXECUTE on it to the role of the apply",
      context: ["table": table.source.fullName])
  }
}
