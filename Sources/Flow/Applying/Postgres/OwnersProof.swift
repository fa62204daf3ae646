import Changes
import PostgresKit

/// Proves that statements of apply run no code of untrusted roles with the rights of apply.
///
/// Rows of a group pass ``OwnersWatch``. All other statements that read or alter a table pass here first.
struct OwnersProof {
  let connection: PostgresConnection
  let options: ApplyOptions

  /// Returns the code that a write to the table runs. Throws `owners-code` if untrusted roles own some of it.
  ///
  /// - Parameter isWrittenNow: Whether rows are written at once, so that the code must be locked now.
  func code(of target: PostgresTargetTable, _ name: String, isWrittenNow: Bool) throws -> OwnersCode {
    try code(of: target.qualifiedName, rows: target.rowsName, name, isWrittenNow: isWrittenNow)
  }

  private func code(of table: String, rows: String, _ name: String, isWrittenNow: Bool) throws -> OwnersCode {
    func read() throws -> OwnersCode {
      let code = try OwnersCode.read(table, connection)
      let triggers = try code.triggerOwners(connection)
      try code.check(name, place: connection.place) { options.fires($0, among: triggers) }
      return code
    }
    let code = try read()
    if code.hasForeignParts { try connection.allowForeignTables() }
    if code.runsFunctions { try connection.allowViews() }
    guard code.openness != .closed, isWrittenNow, connection.isInTransaction else { return code }
    try connection.execute(code.lock(rows))
    return try read()
  }

  /// Checks a table before apply makes a schema change of it, or reads its rows for one. Locks the table against new
  /// code until the transaction ends.
  ///
  /// - Parameter name: The table's name for messages.
  /// - Parameter isAltered: Whether apply alters the table. PostgreSQL then alters tables that inherit from it too.
  /// - Parameter isRetyped: Whether types of columns change. PostgreSQL then reads the other tables of foreign keys.
  func checkChange(of target: PostgresTargetTable, _ name: String, isAltered: Bool, isRetyped: Bool = false) throws {
    let table = target.qualifiedName
    _ = try code(of: target, name, isWrittenNow: true)
    try checkRead(of: table, name)
    guard isAltered else { return }
    let others = try connection.query(Self.besides, [table, isRetyped ? "t" : "f"]).map { $0.map { $0 ?? "" } }
    for other in others {
      if other[1] == "t" { _ = try code(of: other[0], rows: "ONLY \(other[0])", name, isWrittenNow: true) }
      try checkRead(of: other[0], name)
    }
  }

  /// Checks a table before a statement reads it without writing it. Locks the table against new indexes and statistics
  /// until the transaction ends.
  ///
  /// - Parameter table: The quoted name of the table that is read.
  /// - Parameter name: The name of the table, for messages, whose records make apply read it.
  /// - Throws: `owners-code`; `privilege-missing` if apply may not read the table, or may not lock it against new
  ///   code; ``PostgresError`` if another session keeps the table locked.
  func checkRead(of table: String, _ name: String) throws {
    let found = try connection.query(Self.rights, [table]).first ?? []
    let (mayRead, mayLock) = (found.first == "t", found.dropFirst().first == "t")
    let (owner, role) = (found.count > 3 ? found[2] ?? "" : "", found.count > 3 ? found[3] ?? "" : "")
    guard mayRead, mayLock || owner.isEmpty else {
      throw CairnError(
        .privilegeMissing,
        "apply has to read table \(table) of \(connection.place) for records of table \(name), and may not \(mayRead ? "lock" : "read") it",
        hint:
          "run at the target: GRANT SELECT, UPDATE ON \(table) TO \(role.quotedName), as its owner, and no policies may apply to that role; or drop the foreign key",
        context: ["table": name])
    }
    let timeout = try connection.first("SELECT current_setting('lock_timeout')") ?? "0"
    try connection.lockPlanning(of: table)
    try connection.query("SELECT set_config('lock_timeout', $1, true)", [timeout])
    do { try connection.checkPlanning(of: table, .ownersCode) } catch let error as CairnError {
      throw CairnError(
        error.code, "\(error.message); apply reads it for records of table \(name)", hint: error.hint,
        context: ["table": name])
    }
  }

  /// Looks up the foreign keys that reference a table, and locks and checks the tables that have them. Apply then may
  /// read these tables until the transaction ends.
  ///
  /// - Throws: As ``checkRead(of:_:)``; `owners-code` also for a key whose comparison runs a cast of an untrusted role.
  func referrers(of table: PostgresApplyTable) throws -> [Reference] {
    let name = table.mapped.fullName
    // A name may change until its table is locked.
    for _ in 0..<10 {
      let found = try table.lookUpReferrers(connection)
      if let cast = found.first(where: { $0.convertsByCode && !$0.untrusted.isEmpty }) {
        throw CairnError(
          .ownersCode,
          "foreign key of table \(cast.childName) of \(connection.place) compares values of user-defined types, belongs to role \(cast.untrusted), and its casts would run with the rights of apply; apply reads it for records of table \(name)",
          hint:
            "drop the foreign key at the target, or give the table to the role of apply or a superuser: ALTER TABLE … OWNER TO",
          context: ["table": name])
      }
      let open = found.filter { !$0.isLocked && !$0.untrusted.isEmpty }
      if open.isEmpty {
        for one in found { try checkRead(of: one.childName, name) }
        return found
      }
      for one in open { try checkRead(of: one.childName, name) }
    }
    throw OwnersCode.exchanged(connection.place)
  }

  // MARK: SQL

  /// The tables that a schema change of table `$1` reaches, and whether each inherits from it. If `$2`, also the other
  /// tables of foreign keys.
  private static let besides = """
    WITH RECURSIVE tree(oid) AS (
      SELECT to_regclass($1)::oid
      UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
    SELECT tree.oid::regclass::text, NOT c.relispartition FROM tree JOIN pg_class AS c ON c.oid = tree.oid
      WHERE tree.oid <> to_regclass($1)
    UNION SELECT o.oid::regclass::text, false FROM tree
      JOIN pg_constraint AS k ON $2 = 't' AND k.contype = 'f' AND tree.oid IN (k.conrelid, k.confrelid)
      JOIN pg_class AS o ON o.oid IN (k.conrelid, k.confrelid) AND o.oid NOT IN (SELECT oid FROM tree)
    ORDER BY 1
    """

  /// Whether this role may read table `$1`, and may lock it. Then an untrusted owner of the table or of one that
  /// inherits from it, empty for none; then this role.
  private static let rights = """
    WITH RECURSIVE tree(oid) AS (
      SELECT to_regclass($1)::oid
      UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
    SELECT has_table_privilege(to_regclass($1), 'SELECT') AND NOT row_security_active(to_regclass($1)),
      has_table_privilege(to_regclass($1), 'UPDATE, DELETE, TRUNCATE'), coalesce((
        SELECT pg_get_userbyid(c.relowner) FROM tree JOIN pg_class AS c ON c.oid = tree.oid
        WHERE c.relowner NOT IN (\(OwnSchema.trustedRoles))
        ORDER BY 1 LIMIT 1), ''), current_user::text
    """
}
