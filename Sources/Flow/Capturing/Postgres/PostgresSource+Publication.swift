import Changes
import PostgresKit
import SystemKit

// The publication of a capture.
extension PostgresSource {
  enum Unpublished {
    /// Capture's role may not change the publication. The error's hint has the SQL statement, which another role must
    /// run.
    case forbidden(CairnError)
    case locked
  }

  /// Creates the publication, or adds missing tables to it. Returns the tables that could not be added, each with the
  /// reason.
  ///
  /// - Parameter isPatient: Whether to wait 2.5 s for the first locked table, long enough for an autovacuum to give up
  ///   its lock.
  func publish(_ tables: [PostgresTable], isPatient: Bool = false) throws -> [UInt32: Unpublished] {
    let there = try publication()
    let missing = tables.filter { there?.whole.contains($0.oid) != true }
    guard there == nil || !missing.isEmpty else { return [:] }
    let first = there == nil && isPatient ? Self.vacuumMilliseconds : Self.lockMilliseconds
    guard let reason = try publish(missing, there, first) else { return [:] }
    guard there != nil else { return Dictionary(uniqueKeysWithValues: missing.map { ($0.oid, reason) }) }
    // One of the tables may be the reason: then the others can be published without waiting for its owner.
    var failures: [UInt32: Unpublished] = [:]
    var lockedCount = 0
    for table in missing {
      let usual = lockedCount < Self.lockedTablesWaited ? Self.lockMilliseconds : 1
      let patience = isPatient && lockedCount == 0 ? Self.vacuumMilliseconds : usual
      guard let reason = try publish([table], try publication(), patience) else { continue }
      failures[table.oid] = reason
      if case .locked = reason { lockedCount += 1 }
    }
    return failures
  }

  private static let lockMilliseconds = 100
  /// The time to wait for an autovacuum that holds a lock, ms. An autovacuum gives up after `deadlock_timeout`, 1 s by
  /// default.
  private static let vacuumMilliseconds = 2500
  /// The highest number of locked tables for which publishing waits the full time. For each further table, it waits 1
  /// ms.
  private static let lockedTablesWaited = 10

  private func publish(
    _ missing: [PostgresTable], _ there: Publication?, _ lockMilliseconds: Int
  ) throws -> Unpublished? {
    let statements = there.map { mend($0, missing) } ?? [make(missing)]
    do {
      try connection.transaction {
        try connection.execute("SET LOCAL lock_timeout = \(lockMilliseconds)")
        for statement in statements { try connection.execute(statement) }
      }
      return nil
    } catch let error as PostgresError where error.isLockTimeout {
      return .locked
    } catch let error as PostgresError where error.isPrivilege {
      let foreign = missing.first { !$0.isOwned }
      let text = statements.joined(separator: "; ")
      let why = foreign.map { ": table \($0.displayName) belongs to \($0.owner)" } ?? ""
      return .forbidden(
        CairnError(
          .privilegeMissing,
          "\(connection.place): the publication cannot be created: \(error.message)\(why)",
          hint: "run as the owner of the tables, with CREATE on the database, or as a superuser: \(text)"))
    } catch let error as PostgresError where error.isOfPublishedTable {
      return .forbidden(error.refusing(missing.first, statements.joined(separator: "; ")))
    }
  }

  /// Returns the tables with which a capture begins. Waits up to a minute for tables that another session keeps locked,
  /// then throws `database-busy`.
  func unlockedTables(_ patterns: TablePatterns, tell: (String) -> Void) throws -> [PostgresTable] {
    var found: [PostgresTable] = []
    try waitToBegin(tell: tell) {
      let (tables, locked) = try connection.userTables(patience: PostgresCopier.patience, patterns.includes)
      found = tables
      return locked
    }
    return found
  }

  /// Publishes the tables with which a capture begins. Waits up to a minute for tables that another session keeps
  /// locked.
  ///
  /// - Throws: `privilege-missing` if capture's role may not publish one of the tables; `database-busy` after the
  ///   minute.
  func publishFirst(_ tables: [PostgresTable], tell: (String) -> Void) throws {
    try waitToBegin(tell: tell) {
      let failures = try publish(tables, isPatient: true)
      for case .forbidden(let error) in failures.values { throw error }
      return tables.filter { failures[$0.oid] != nil }
    }
  }

  /// Calls `attempt` until no table is locked; throws `database-busy` after a minute.
  ///
  /// - Parameter attempt: Returns the tables that were locked.
  private func waitToBegin(tell: (String) -> Void, _ attempt: () throws -> [PostgresTable]) throws {
    let begun = Clock.monotonicMilliseconds
    var hasTold = false
    while true {
      let locked = try attempt()
      guard let first = locked.first else { return }
      let waited = Clock.monotonicMilliseconds - begun
      let holders = try catalog.lockHolders(of: locked.map(\.oid))
      let table = locked.first { holders[$0.oid] != nil } ?? first
      let holder = holders[table.oid]
      let what = "table \(table.displayName), which \(holder.map(\.description) ?? "another session") keeps locked"
      if waited > Self.beginReportMilliseconds, !hasTold {
        hasTold = true
        tell("capture must wait before it can read and publish \(what)")
      }
      guard waited < Self.beginMillisecondsMax else {
        throw CairnError(
          .databaseBusy, "\(connection.place): capture must wait before it can read and publish \(what)",
          hint: holder?.hint ?? "end that session, then run again", remedy: .retry,
          context: ["table": table.displayName])
      }
      Pulse.beat()
      Clock.sleep(milliseconds: 200)
    }
  }

  private static let beginReportMilliseconds: Int64 = 3000
  private static let beginMillisecondsMax: Int64 = 60_000

  /// Removes a table from the publication. Returns the reason if PostgreSQL did not remove the table.
  func unpublish(_ table: PostgresTable) throws -> Unpublished? {
    let statement = "ALTER PUBLICATION \(name.quotedName) DROP TABLE \(table.sqlName)"
    do {
      try connection.transaction {
        try connection.execute("SET LOCAL lock_timeout = \(Self.lockMilliseconds)")
        try connection.execute(statement)
      }
      return nil
    } catch let error as PostgresError where error.isLockTimeout {
      return .locked
    } catch let error as PostgresError where error.isPrivilege {
      return .forbidden(
        CairnError(.privilegeMissing, "\(connection.place): \(error.message)", hint: "run as its owner: \(statement)"))
    } catch let error as PostgresError where error.isOfPublishedTable {
      return .forbidden(error.refusing(table, statement))
    }
  }

  /// Returns whether this transaction published the table, and no later transaction removed it from the publication.
  func isPublished(_ relation: UInt32, since transaction: UInt32) throws -> Bool {
    try waitUntilVisible(transaction)
    return try connection.query(
      """
      SELECT 1 FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid
      WHERE p.pubname = $1 AND r.prrelid = $2::oid AND r.xmin::text = $3
      """, [name, String(relation), String(transaction)]
    ).first != nil
  }

  /// Returns whether an apply created and published a table in one transaction. If so, the stream has every change of
  /// the table.
  func isPublishedByApply(_ relation: UInt32) throws -> Bool {
    let isReadable = try connection.first(
      "SELECT has_table_privilege(to_regclass('cairn.table_state'), 'SELECT')::text")
    guard isReadable == "true" else { return false }
    return try connection.query(
      """
      SELECT 1 FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid
        JOIN pg_class AS c ON c.oid = r.prrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = -1 AND a.xmin = r.xmin
        JOIN cairn.table_state AS t ON t.schema_name = n.nspname AND t.table_name = c.relname AND t.created
      WHERE p.pubname = $1 AND r.prrelid = $2::oid
      """, [name, String(relation)]
    ).first != nil
  }

  /// Waits up to 5 s until the catalog shows a transaction of the stream, then returns whether the table exists.
  func isTable(_ relation: UInt32, after transaction: UInt32) throws -> Bool {
    try waitUntilVisible(transaction)
    return try connection.first(
      "SELECT 1 FROM pg_class WHERE oid = $1::oid AND relkind IN ('r', 'p', 'f')", [String(relation)]) != nil
  }

  /// Waits up to 5 s until new snapshots show a transaction that the stream has brought.
  private func waitUntilVisible(_ transaction: UInt32) throws {
    let limit = Clock.monotonicMilliseconds + Self.visibilityMillisecondsMax
    let sql = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND transactionid = $1::xid"
    while Clock.monotonicMilliseconds < limit, try connection.first(sql, [String(transaction)]) != nil {
      Pulse.beat()
      Clock.sleep(milliseconds: 1)
    }
  }

  /// The longest wait for a transaction to become visible, ms. A commit may wait for a standby.
  private static let visibilityMillisecondsMax: Int64 = 5000

  private func make(_ tables: [PostgresTable]) -> String {
    let list = Self.list(tables)
    return
      "CREATE PUBLICATION \(name.quotedName)\(list.isEmpty ? "" : " FOR TABLE \(list)") WITH (publish_via_partition_root = true)"
  }

  private func mend(_ publication: Publication, _ missing: [PostgresTable]) -> [String] {
    let alter = "ALTER PUBLICATION \(name.quotedName)"
    let narrowed = missing.filter { publication.narrowed.contains($0.oid) }
    let absent = missing.filter { !publication.tables.contains($0.oid) }
    var statements: [String] = []
    if !publication.isWhole {
      statements.append(
        "\(alter) SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)")
    }
    if !narrowed.isEmpty { statements.append("\(alter) DROP TABLE \(Self.list(narrowed))") }
    if !(narrowed + absent).isEmpty { statements.append("\(alter) ADD TABLE \(Self.list(narrowed + absent))") }
    return statements
  }

  /// The tables without the ones that inherit from them, which are published by themselves if they are captured.
  private static func list(_ tables: [PostgresTable]) -> String {
    tables.map(\.sqlName).joined(separator: ", ")
  }

  struct Publication {
    var tables: Set<UInt32>
    var narrowed: Set<UInt32>
    /// Whether the publication has every kind of change, and names the root table in changes of partitions.
    var isWhole: Bool
    var whole: Set<UInt32> { isWhole ? tables.subtracting(narrowed) : [] }
  }

  func publication() throws -> Publication? {
    let found = try connection.query(
      """
      SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate AND (pubviaroot OR NOT EXISTS (
        SELECT 1 FROM pg_publication_rel AS r JOIN pg_class AS c ON c.oid = r.prrelid
        WHERE r.prpubid = p.oid AND c.relkind = 'p')) FROM pg_publication AS p WHERE pubname = $1
      """, [name])
    guard let row = found.first else { return nil }
    let tables = try connection.query(
      row[0] == "t"
        ? "SELECT oid, $1::text, false FROM pg_class WHERE relkind IN ('r', 'p')"
        : """
        SELECT prrelid, pubname, prqual IS NOT NULL OR prattrs IS NOT NULL
        FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid WHERE p.pubname = $1
        """, [name])
    func oids(_ rows: [[String?]]) -> Set<UInt32> { Set(rows.compactMap { $0[0].flatMap { UInt32($0) } }) }
    return Publication(
      tables: oids(tables), narrowed: oids(tables.filter { $0[2] == "t" }), isWhole: row[1] == "t")
  }

  /// Returns the tables whose changes are all published; nil if the publication does not exist.
  func published() throws -> Set<UInt32>? { try publication()?.whole }
}

extension PostgresError {
  /// Whether the table is the reason for which the publication was not changed. A table that was dropped or renamed
  /// meanwhile is not.
  fileprivate var isOfPublishedTable: Bool { isOfStatement && !["3F000", "42P01", "42704"].contains(sqlState) }

  fileprivate func refusing(_ table: PostgresTable?, _ statement: String) -> CairnError {
    CairnError(
      .tableRefused,
      "\(place): the publication cannot be changed for table \(table?.displayName ?? ""): \(message)",
      hint: "mend what the message names, or leave the table out with 'tables'; capture tries again: \(statement)",
      context: table.map { ["table": $0.displayName] } ?? [:])
  }
}
