import Changes
import PostgresKit

// Sessions of commands, which write as an application would: triggers fire.
extension OwnersCode {
  /// Locks a table that a session writes as an application would, and checks its code. The lock keeps the code as it is
  /// until the transaction ends.
  ///
  /// - Parameter table: The table's quoted name.
  /// - Parameter name: The table's name for messages.
  /// - Throws: `owners-code` if untrusted roles own some of the code, or the table's schema. The owner of the schema
  ///   could put another table in the place of this one.
  static func holdForSession(_ table: String, _ name: String, _ connection: PostgresConnection) throws {
    try checkNamespace(of: table, name, connection)
    let code = try read(table, fires: "AO", connection)
    try connection.execute(code.lock(table))
    try lockReferencing(table, connection)
    let locked = try read(table, fires: "AO", connection)
    guard locked.hasOtherOwner == code.hasOtherOwner, locked.bearer.hasSameBytes(as: code.bearer) else {
      throw exchanged(connection.place)
    }
    try locked.check(name, place: connection.place) { _ in false }
  }

  /// Checks that no untrusted role can change the code that runs when a session writes a table as an application would.
  /// This includes the tables that foreign keys change with it.
  ///
  /// - Throws: `owners-code`, with the role that may write the table itself.
  static func checkClosed(_ table: String, _ name: String, _ connection: PostgresConnection) throws {
    let code = try read(table, fires: "AO", connection)
    try code.check(name, place: connection.place) { _ in false }
    guard code.openness != .closed else { return }
    let owners = try connection.query(ownersText, [table, "AO"]).compactMap { $0.first ?? nil }
    let role = owners.first ?? ""
    throw CairnError(
      .ownersCode,
      "role \(role) can change the code of table \(name) of \(connection.place), or of a table that refers to it, and that code would run with the rights of this session",
      hint: "connect as that role, with --database and the URL of the database",
      context: ["table": name, "role": role])
  }

  private static func checkNamespace(of table: String, _ name: String, _ connection: PostgresConnection) throws {
    guard let owner = try connection.first(namespaceText, [table]) else { return }
    throw CairnError(
      .ownersCode,
      "the schema of table \(name) of \(connection.place) belongs to role \(owner), which could put another table in its place, whose triggers would run with the rights of this session",
      hint: "run at the database: ALTER SCHEMA … OWNER TO a trusted role; or write the row there as role \(owner)",
      context: ["table": name, "role": owner])
  }

  /// The untrusted owner of the schema of table `$1`.
  private static let namespaceText = """
    SELECT pg_get_userbyid(coalesce(d.datdba, n.nspowner))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      \(OwnSchema.databaseOwner)
    WHERE c.oid = to_regclass($1) AND coalesce(d.datdba, n.nspowner) NOT IN (\(OwnSchema.trustedRoles))
    """

  /// The untrusted owners of table `$1`, of its partitions and of the tables that its foreign keys change, and of their
  /// schemas.
  private static let ownersText = """
    \(relations) SELECT DISTINCT pg_get_userbyid(o.owner) FROM (
        SELECT c.relowner AS owner FROM pg_class c WHERE c.oid IN (SELECT oid FROM rel UNION SELECT oid FROM above)
        UNION SELECT coalesce(d.datdba, n.nspowner) FROM rel JOIN pg_class c ON c.oid = rel.oid
          JOIN pg_namespace n ON n.oid = c.relnamespace \(OwnSchema.databaseOwner)
        UNION SELECT t.typowner FROM reach r JOIN pg_type t ON r.class = 'pg_type'::regclass AND t.oid = r.oid) o
      WHERE o.owner NOT IN (SELECT oid FROM trusted) ORDER BY 1
    """
}
