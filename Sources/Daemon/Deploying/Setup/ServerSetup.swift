import Capturing
import Changes
import PostgresKit

/// The steps after which a role that is no superuser can capture a PostgreSQL database, or apply to it. They are about
/// the role, its rights, and settings of the server.
///
///     try ServerSetup(connection, role: "cairn", purposes: [.target], TablePatterns(["*"])).steps()
package struct ServerSetup {
  package enum Purpose: Sendable { case source, target }

  /// A table with what the role may do there.
  package struct Table: Sendable {
    package var namespace: String
    package var name: String
    package var owner: String
    package var isOfSuperuser = false
    /// Whether the role owns the table, or is a member of its owner.
    package var isOwned = false
    /// Whether the role may read and write rows of the table.
    package var isWritable = false

    package init(namespace: String, name: String, owner: String) {
      (self.namespace, self.name, self.owner) = (namespace, name, owner)
    }

    fileprivate var quoted: String { "\(namespace.quotedName).\(name.quotedName)" }
  }

  /// The state of the server.
  package struct Facts: Sendable {
    package var database = ""
    /// Whether the session is that of a superuser.
    package var isAdministrator = false
    package var isStandby = false
    package var walLevel = "replica"
    /// The value of `wal_level` after the next start of the server, if it is known.
    package var comingWALLevel: String?
    package var hasRole = false
    package var canLogin = false
    package var isSuperuser = false
    package var canReplicate = false
    package var mayCreate = false
    package var maySetReplicationRole = false
    package var hasEventTriggers = false
    /// The keys of messages that exist, and that the role may not read.
    package var unreadableKeys: [MessageKey.Place] = []
    /// Schemas of the tables, and `public`, in which the role may not create tables.
    package var closedSchemas: [String] = []
    package var tables: [Table] = []

    package init() {}
  }

  package let facts: Facts
  private let role: String
  private let purposes: Set<Purpose>

  package init(_ facts: Facts, role: String, purposes: Set<Purpose>) {
    (self.facts, self.role, self.purposes) = (facts, role, purposes)
  }

  /// Returns all steps, also those that are done.
  ///
  /// - Throws: `server-setting` for a standby; `privilege-missing` if steps are missing, and the session's role is no
  ///   superuser.
  package func steps() throws(CairnError) -> [SetupStep] {
    if facts.isStandby {
      throw CairnError(
        .serverSetting, "the server is a standby, which cannot be changed", hint: "connect to the primary")
    }
    var steps = [
      statement("role \(role) exists", facts.hasRole, "CREATE ROLE \(role.quotedName) LOGIN"),
      statement(
        "role \(role) may log in", facts.canLogin || !facts.hasRole, "ALTER ROLE \(role.quotedName) LOGIN"),
    ]
    if facts.isSuperuser {
      steps.append(
        SetupStep(
          "role \(role) is no superuser", isDone: false, "ALTER ROLE \(role.quotedName) NOSUPERUSER", .nothing))
    }
    steps.append(
      statement(
        "role \(role) may create schemas in \(facts.database)", facts.mayCreate,
        "GRANT CREATE, CONNECT, TEMPORARY ON DATABASE \(facts.database.quotedName) TO \(role.quotedName)"))
    if purposes.contains(.source) { steps += sourceSteps() }
    if purposes.contains(.target) { steps += targetSteps() }
    if !facts.isAdministrator, let missing = steps.first(where: { $0.state == .missing }) {
      throw CairnError(
        .privilegeMissing, "this role is no superuser, and a step is missing: \(missing.what)",
        hint: "give the URL of a superuser, or have a superuser run: \(missing.command)")
    }
    return steps
  }

  private func statement(_ what: String, _ isDone: Bool, _ sql: String) -> SetupStep {
    SetupStep(what, isDone: isDone, sql, .statement(sql))
  }

  private func sourceSteps() -> [SetupStep] {
    var steps = [
      statement(
        "wal_level is logical", facts.walLevel == "logical" || facts.comingWALLevel == "logical",
        "ALTER SYSTEM SET wal_level = logical")
    ]
    if facts.walLevel != "logical" {
      steps.append(
        SetupStep(
          "the server runs with wal_level = logical", isDone: false,
          "restart the server, such as: systemctl restart postgresql", .nothing))
    }
    steps += [
      statement(
        "role \(role) may replicate", facts.canReplicate, "ALTER ROLE \(role.quotedName) REPLICATION"),
      SetupStep(
        "event triggers report schema changes", isDone: facts.hasEventTriggers,
        "'cairn setup' creates them", .eventTriggers),
    ]
    for place in facts.unreadableKeys {
      steps += MessageKey.grants(place, to: role).map { sql in
        statement("role \(role) may read the key of messages in schema \(place.rawValue)", false, sql)
      }
    }
    return steps + ownerSteps()
  }

  // PostgreSQL lets only the owner of a table publish it.
  private func ownerSteps() -> [SetupStep] {
    var owners: Set<[UInt8]> = []
    return facts.tables.filter { !$0.isOwned && !facts.isSuperuser }.compactMap { table in
      if table.isOfSuperuser {
        return SetupStep(
          "role \(role) may publish \(table.namespace).\(table.name)", isDone: false,
          "ALTER TABLE \(table.quoted) OWNER TO ROLE-OF-THE-PROGRAM (a superuser owns it), then 'cairn setup' again",
          .nothing)
      }
      guard owners.insert(Array(table.owner.utf8)).inserted else { return nil }
      return statement(
        "role \(role) may publish tables of role \(table.owner)", false,
        "GRANT \(table.owner.quotedName) TO \(role.quotedName)")
    }
  }

  private func targetSteps() -> [SetupStep] {
    var steps = [
      statement(
        "role \(role) may switch triggers off in its sessions", facts.maySetReplicationRole,
        "GRANT SET ON PARAMETER session_replication_role TO \(role.quotedName)")
    ]
    steps += facts.closedSchemas.map { schema in
      statement(
        "role \(role) may create tables in schema \(schema)", false,
        "GRANT USAGE, CREATE ON SCHEMA \(schema.quotedName) TO \(role.quotedName)")
    }
    steps += facts.tables.filter { !$0.isOwned && !$0.isWritable && !facts.isSuperuser }.map { table in
      statement(
        "role \(role) may read and write rows of \(table.namespace).\(table.name)", false,
        "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON \(table.quoted) TO \(role.quotedName)")
    }
    return steps
  }
}

/// Reads what is there, and does the steps.
extension ServerSetup {
  /// Reads the facts about the database of a connection.
  ///
  /// - Parameter role: The role of Cairn.
  /// - Parameter tables: The tables that are captured or applied, as patterns.
  package init(
    _ connection: PostgresConnection, role: String, purposes: Set<Purpose>, _ tables: TablePatterns
  ) throws {
    var facts = Facts()
    let row = try connection.query(
      """
      SELECT current_database(), (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), pg_is_in_recovery(),
        current_setting('wal_level'), r.rolname IS NOT NULL, coalesce(r.rolcanlogin, false),
        coalesce(r.rolsuper, false), coalesce(r.rolreplication OR r.rolsuper, false),
        coalesce(has_database_privilege(r.oid, current_database(), 'CREATE')
          AND has_database_privilege(r.oid, current_database(), 'CONNECT')
          AND has_database_privilege(r.oid, current_database(), 'TEMPORARY'), false),
        coalesce(has_parameter_privilege(r.oid, 'session_replication_role', 'SET'), false)
      FROM (VALUES ($1::text)) AS v(name) LEFT JOIN pg_roles AS r ON r.rolname = v.name
      """, [role]
    ).first
    guard let row else { throw CairnError(.bug, "the server gave no row about itself", hint: "report this") }
    func isTrue(_ column: Int) -> Bool { row[column] == "t" }
    (facts.database, facts.walLevel) = (row[0] ?? "", row[3] ?? "")
    (facts.isAdministrator, facts.isStandby, facts.hasRole) = (isTrue(1), isTrue(2), isTrue(4))
    (facts.canLogin, facts.isSuperuser, facts.canReplicate) = (isTrue(5), isTrue(6), isTrue(7))
    (facts.mayCreate, facts.maySetReplicationRole) = (isTrue(8), isTrue(9))
    if purposes.contains(.source) {
      facts.hasEventTriggers = try SourceSetup.hasEventTriggers(connection)
      facts.unreadableKeys = try Self.unreadableKeys(connection, role)
      if facts.isAdministrator {
        facts.comingWALLevel = try connection.first(
          "SELECT setting FROM pg_file_settings WHERE name = 'wal_level' AND error IS NULL ORDER BY seqno DESC LIMIT 1")
      }
    }
    facts.tables = try Self.tables(connection, role, tables)
    if purposes.contains(.target) { facts.closedSchemas = try Self.closedSchemas(connection, role, facts.tables) }
    self.init(facts, role: role, purposes: purposes)
  }

  private static func tables(
    _ connection: PostgresConnection, _ role: String, _ patterns: TablePatterns
  ) throws -> [Table] {
    try connection.query(
      """
      SELECT n.nspname, c.relname, o.rolname, o.rolsuper, r.oid IS NOT NULL AND pg_has_role(r.oid, c.relowner, 'MEMBER'),
        r.oid IS NOT NULL AND has_table_privilege(r.oid, c.oid, 'SELECT') AND has_table_privilege(r.oid, c.oid, 'INSERT')
          AND has_table_privilege(r.oid, c.oid, 'UPDATE') AND has_table_privilege(r.oid, c.oid, 'DELETE')
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS o ON o.oid = c.relowner
        LEFT JOIN pg_roles AS r ON r.rolname = $1
      WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
        AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND n.nspname NOT LIKE 'pg\\_%'
        AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
          AND d.deptype = 'e')
      ORDER BY n.nspname, c.relname
      """, [role]
    ).compactMap { row in
      guard let namespace = row[0], let name = row[1], patterns.includes(namespace: namespace, name: name) else {
        return nil
      }
      var table = Table(namespace: namespace, name: name, owner: row[2] ?? "")
      (table.isOfSuperuser, table.isOwned, table.isWritable) = (row[3] == "t", row[4] == "t", row[5] == "t")
      return table
    }
  }

  private static func closedSchemas(
    _ connection: PostgresConnection, _ role: String, _ tables: [Table]
  ) throws -> [String] {
    let closed = try connection.query(
      """
      SELECT n.nspname FROM pg_namespace AS n LEFT JOIN pg_roles AS r ON r.rolname = $1
      WHERE NOT coalesce(
        has_schema_privilege(r.oid, n.oid, 'CREATE') AND has_schema_privilege(r.oid, n.oid, 'USAGE'), false)
      ORDER BY n.nspname
      """, [role]
    ).compactMap { $0[0] }
    let needed = ["public"] + tables.map(\.namespace)
    return closed.filter { schema in needed.contains { $0.hasSameBytes(as: schema) } }
  }

  /// Returns the keys of messages that exist, and that the role may not read.
  private static func unreadableKeys(
    _ connection: PostgresConnection, _ role: String
  ) throws -> [MessageKey.Place] {
    try [MessageKey.Place.own, .triggers].filter { place in
      try connection.first(
        """
        SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
          LEFT JOIN pg_roles AS r ON r.rolname = $2
        WHERE n.nspname = $1 AND c.relname = 'key' AND NOT coalesce(
          has_schema_privilege(r.oid, n.oid, 'USAGE') AND has_table_privilege(r.oid, c.oid, 'SELECT'), false)
        """, [place.rawValue, role]) != nil
    }
  }

  /// Does one step.
  package static func perform(_ deed: SetupStep.Deed, _ connection: PostgresConnection) throws {
    switch deed {
    case .statement(let sql): try connection.execute(sql)
    case .eventTriggers: try SourceSetup.createEventTriggers(connection)
    case .program, .share, .create, .write, .nothing: break
    }
  }
}
