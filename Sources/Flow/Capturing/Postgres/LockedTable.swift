import Changes
import PostgresKit
import SystemKit

/// A table that another session keeps locked, so that its definition cannot be read.
package struct LockedTable {
  package let table: PostgresTable
  let holder: PostgresCatalog.LockHolder?

  package var reason: String { "\(holder.map(\.description) ?? "another session") keeps it locked" }
  package var remedy: String { holder?.hint ?? "end that session" }

  /// The wait for locks in one reading of all tables. It is long enough for an autovacuum to give up its lock.
  static let patience = "SET LOCAL lock_timeout = 2500"
  /// The time in ms after which a caller that needs all tables gets an error.
  static let waitMilliseconds: Int64 = 5000
}

extension PostgresConnection {
  /// Returns the tables of users like ``userTables(_:)``, and names the sessions that keep some of them locked.
  ///
  /// - Parameter passesLocked: Whether to return locked tables apart. If false, waits five seconds for them.
  /// - Throws: `database-busy` for a table that stays locked.
  package func tables(
    passesLocked: Bool, _ isMeant: (_ namespace: String, _ name: String) -> Bool = { _, _ in true }
  ) throws -> (tables: [PostgresTable], locked: [LockedTable]) {
    let begun = Clock.monotonicMilliseconds
    while true {
      let (tables, locked) = try userTables(patience: LockedTable.patience, isMeant)
      if locked.isEmpty { return (tables, []) }
      guard passesLocked || Clock.monotonicMilliseconds - begun >= LockedTable.waitMilliseconds else {
        Pulse.beat()
        Clock.sleep(milliseconds: 200)
        continue
      }
      let holders = try PostgresCatalog(connection: self, publication: "").lockHolders(of: locked.map(\.oid))
      let named = locked.map { LockedTable(table: $0, holder: holders[$0.oid]) }
      if passesLocked { return (tables, named) }
      guard let first = named.first(where: { $0.holder != nil }) ?? named.first else { continue }
      throw busy(first.table.displayName, first.reason, first.remedy)
    }
  }

  /// Runs `body`, a transaction that reads one table, with a limit for its waits for locks.
  ///
  /// - Parameter table: The schema and the name, each quoted.
  /// - Throws: `database-busy` if another session keeps the table locked.
  package func reading<T>(_ table: String, _ body: () throws -> T) throws -> T {
    do {
      return try transaction("BEGIN READ ONLY") {
        try execute("SET LOCAL lock_timeout = \(LockedTable.waitMilliseconds)")
        return try body()
      }
    } catch let error as PostgresError where error.isLockTimeout {
      let oid = try first("SELECT to_regclass($1)::oid", [table]).flatMap { UInt32($0) } ?? 0
      let holder = try PostgresCatalog(connection: self, publication: "").lockHolders(of: [oid])[oid]
      let who = holder.map(\.description) ?? "another session"
      throw busy(table, "\(who) keeps it locked", holder?.hint ?? "end that session")
    }
  }

  private func busy(_ table: String, _ reason: String, _ remedy: String) -> CairnError {
    CairnError(
      .databaseBusy, "\(place): table \(table) cannot be read: \(reason)", hint: "\(remedy); then run again",
      remedy: .retry, context: ["table": table])
  }
}
