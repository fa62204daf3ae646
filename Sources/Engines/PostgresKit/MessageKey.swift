import Changes
import CodecKit

/// The secret key by which capture recognizes the logical messages that Cairn wrote. Each message has an HMAC-SHA-256,
/// because every role may call `pg_logical_emit_message`.
package struct MessageKey: Equatable, Sendable {
  /// A schema in which Cairn keeps a secret key, in the table `key`.
  package enum Place: String, Sendable {
    /// The schema `cairn`. Its key protects messages that capture and apply write.
    case own = "cairn"
    /// The schema `cairn_ddl`. Its key protects messages that a superuser's event triggers write.
    case triggers = "cairn_ddl"
  }

  private static let codeBytes = 32
  private static let padBytes = 64

  let innerPad: [UInt8]
  let outerPad: [UInt8]
  /// The LSN up to which messages without an HMAC are accepted.
  package let since: LSN

  // MARK: Messages

  /// Returns the SQL of a call that emits a message in the current transaction. `content` is an SQL expression of type
  /// `bytea`; `key` is the alias of the table with the secret key.
  package static func call(_ prefix: String, _ content: String, key: String = "k") -> String {
    """
    pg_logical_emit_message(true, '\(prefix)', sha256(\(key).outer_pad || sha256(\(key).inner_pad \
    || convert_to('\(prefix) ' || pg_current_xact_id()::xid::text || ' ', 'UTF8') || \(content))) || \(content))
    """
  }

  /// Returns the content of a message without its HMAC; nil if the HMAC is missing or wrong.
  package func content(
    of message: UnsafeRawBufferPointer, prefix: String, transaction: UInt32, _ hasher: SHA256
  ) -> UnsafeRawBufferPointer? {
    guard message.count >= Self.codeBytes else { return nil }
    let content = UnsafeRawBufferPointer(rebasing: message[Self.codeBytes...])
    hasher.update(innerPad)
    hasher.update(Array("\(prefix) \(transaction) ".utf8))
    hasher.update(content)
    let inner = hasher.finalize()
    hasher.update(outerPad)
    hasher.update(inner)
    return hasher.finalize().elementsEqual(message.prefix(Self.codeBytes)) ? content : nil
  }

  // MARK: The table

  /// Reads the key from the database. Nil if the key is missing, if its owner is not trusted, or if the session's role
  /// may not read it.
  package static func read(_ place: Place, _ connection: PostgresConnection) throws -> MessageKey? {
    let isReadable = try connection.first(
      """
      SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS o ON o.oid = c.relowner
        JOIN pg_roles AS p ON p.oid = n.nspowner
      WHERE n.nspname = $1 AND c.relname = 'key' AND c.relkind = 'r'
        AND \(OwnSchema.isTrusted("o")) AND \(OwnSchema.isTrusted("p"))
      """, [place.rawValue])
    guard isReadable == "t" else { return nil }
    let row = try connection.query(
      "SELECT encode(inner_pad, 'hex'), encode(outer_pad, 'hex'), since FROM \(place.rawValue).key WHERE id = 1"
    ).first
    guard let row, let inner = bytes(row[0]), let outer = bytes(row[1]), let since = row[2].flatMap({ LSN($0) })
    else { return nil }
    return MessageKey(innerPad: inner, outerPad: outer, since: since)
  }

  private static func bytes(_ hex: String?) -> [UInt8]? {
    let digits = Array((hex ?? "").utf8)
    guard digits.count == padBytes * 2 else { return nil }
    let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
      UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
    }
    return bytes.count == padBytes ? bytes : nil
  }

  /// Creates the table of the key with a new secret, unless it exists. The caller opens the transaction, and owns the
  /// schema.
  ///
  /// - Parameter hadMessages: Whether an earlier version of Cairn may have written messages without an HMAC. If so,
  ///   messages without an HMAC are accepted up to the present LSN.
  package static func install(_ place: Place, _ connection: PostgresConnection, hadMessages: Bool = false) throws {
    guard try read(place, connection) == nil else { return }
    let table = "\(place.rawValue).key"
    try connection.execute(
      """
      CREATE TABLE IF NOT EXISTS \(table)(id integer PRIMARY KEY CHECK (id = 1), inner_pad bytea NOT NULL,
        outer_pad bytea NOT NULL, since pg_lsn NOT NULL)
      """)
    try connection.execute("REVOKE ALL ON \(table) FROM PUBLIC")
    let secret = randomBytes(padBytes)
    // Passed as parameters, which no view of running statements shows.
    try connection.query(
      """
      INSERT INTO \(table)(id, inner_pad, outer_pad, since) VALUES (1, $1::bytea, $2::bytea,
        CASE WHEN $3::boolean THEN pg_current_wal_insert_lsn() ELSE '0/0' END) ON CONFLICT DO NOTHING
      """, ["\\x" + secret.map { $0 ^ 0x36 }.hex, "\\x" + secret.map { $0 ^ 0x5c }.hex, hadMessages ? "t" : "f"])
    try grant(place, connection)
  }

  // Roles that may replicate can read the log anyway.
  private static func grant(_ place: Place, _ connection: PostgresConnection) throws {
    let roles = try connection.query(
      """
      SELECT rolname FROM pg_roles WHERE rolreplication AND NOT rolsuper
        AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
      """
    ).compactMap { $0[0] }
    for role in roles {
      // Roles belong to the whole server: another session may drop one meanwhile.
      do {
        try connection.savepoint { for statement in grants(place, to: role) { try connection.execute(statement) } }
      } catch let error as PostgresError where error.sqlState == "42704" { continue }
    }
  }

  /// Returns the statements that let a role read the key.
  package static func grants(_ place: Place, to role: String) -> [String] {
    [
      "GRANT USAGE ON SCHEMA \(place.rawValue) TO \(role.quotedName)",
      "GRANT SELECT ON \(place.rawValue).key TO \(role.quotedName)",
    ]
  }

  /// Returns the statements that let a role read the key, as one text for the operator.
  package static func grantText(_ place: Place, to role: String) -> String {
    grants(place, to: role).joined(separator: "; ")
  }

  // MARK: Sending

  /// Emits a message with an HMAC. Creates the schema and the key if they are missing. Throws `privilege-missing` if
  /// the role may not read the key.
  package static func emit(_ prefix: String, _ content: [UInt8], _ connection: PostgresConnection) throws {
    try ensure(connection)
    let sent = try connection.query(
      "SELECT \(call(prefix, "$1::bytea")) FROM cairn.key AS k WHERE k.id = 1", ["\\x" + content.hex])
    guard sent.count == 1 else { throw refusal(connection, try connection.first("SELECT current_user") ?? "") }
  }

  /// Creates the schema `cairn` and its key, if they are missing. A failure aborts the current transaction.
  package static func ensure(_ connection: PostgresConnection) throws {
    guard try read(.own, connection) == nil else { return }
    let role = try connection.first("SELECT current_user") ?? ""
    do {
      try connection.makingOnce {
        guard try read(.own, connection) == nil else { return }
        try connection.transaction {
          if try connection.first("SELECT 1 FROM pg_namespace WHERE nspname = 'cairn'") == nil {
            try connection.execute("CREATE SCHEMA cairn")
          }
          try OwnSchema.check("cairn", connection)
          try install(.own, connection)
        }
      }
    } catch let error as PostgresError where error.isPrivilege { throw refusal(connection, role) }
  }

  private static func refusal(_ connection: PostgresConnection, _ role: String) -> CairnError {
    CairnError(
      .privilegeMissing,
      "\(connection.place): role \(role) may neither read nor create the key of Cairn's messages, cairn.key",
      hint: "as its owner, or as a superuser: \(grantText(.own, to: role))")
  }
}
