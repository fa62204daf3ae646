import Glibc

extension PostgresConnection {
  /// Runs `body` between BEGIN and COMMIT. An error rolls back.
  package func transaction<T>(_ begin: String = "BEGIN", _ body: () throws -> T) throws -> T {
    try execute(begin)
    do {
      let result = try body()
      try execute("COMMIT")
      return result
    } catch {
      rollback()
      throw error
    }
  }

  /// Runs `body` in a savepoint of the open transaction. If it throws, the transaction is as it was before, and goes on.
  func savepoint<T>(_ body: () throws -> T) throws -> T {
    try execute("SAVEPOINT cairn_part")
    do {
      let result = try body()
      try execute("RELEASE SAVEPOINT cairn_part")
      return result
    } catch {
      if isUsable { try executeScript("ROLLBACK TO SAVEPOINT cairn_part; RELEASE SAVEPOINT cairn_part") }
      throw error
    }
  }

  /// Runs `body`, which creates database objects, and runs it again if another session creates the same objects at the
  /// same time.
  package func makingOnce(_ body: () throws -> Void) throws {
    for _ in 0..<10 {
      // A unique violation of a catalog; an existing schema, table or object; a catalog row that another session
      // changed meanwhile.
      do { return try body() } catch let error as PostgresError
        where ["23505", "42P06", "42P07", "42710", "XX000"].contains(error.sqlState)
      { usleep(20_000) }
    }
    try body()
  }

  /// Rolls back the open transaction, if there is one.
  package func rollback() {
    if isUsable, isInTransaction { _ = try? execute("ROLLBACK") }
  }
}
