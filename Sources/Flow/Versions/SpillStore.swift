import Changes
import SQLiteKit

/// The row versions of a version window in a temporary SQLite database. The store replaces ``MemoryStore`` when there
/// are too many versions for memory.
final class SpillStore {
  private(set) var count = 0
  private let insert: Statement
  private let find: Statement
  private let delete: Statement
  private let first: Statement
  private let rows: Statement
  private let database: Database
  private let share: TemporaryShare

  init(in space: TemporarySpace = .shared) throws {
    share = TemporaryShare(of: space)
    (database, insert, find, delete, first, rows) = try Self.naming {
      let database = try Database.temporary(
        cacheKiB: 16384,
        """
        CREATE TABLE version (
          row INTEGER, origin INTEGER, number INTEGER, clock INTEGER, segment INTEGER, place INTEGER,
          PRIMARY KEY (row, origin, number)) WITHOUT ROWID;
        CREATE INDEX version_number ON version(origin, number)
        """)
      return (
        database, try database.prepare("INSERT OR IGNORE INTO version VALUES (?, ?, ?, ?, ?, ?)"),
        try database.prepare(
          "SELECT origin, number, clock, segment, place FROM version WHERE row = ? ORDER BY origin, number DESC"
        ),
        try database.prepare("DELETE FROM version WHERE row = ? AND origin = ? AND number = ?"),
        try database.prepare(
          "SELECT origin, number, clock, segment, place FROM version WHERE origin = ? ORDER BY number LIMIT 1"
        ),
        try database.prepare(
          "SELECT DISTINCT row FROM version WHERE origin = ? AND number > ? AND number <= ?")
      )
    }
  }

  func holds(_ row: UInt64) throws -> Bool {
    try Self.naming {
      try find.bind(Self.stored(row), at: 1)
      defer { find.reset() }
      return try find.step()
    }
  }

  func add(_ row: UInt64, _ entry: WindowEntry) throws {
    try Self.naming {
      try share.makeRoom(for: 0, in: database)
      try insert.bind(Self.stored(row), at: 1)
      try insert.bind(Int64(entry.origin), at: 2)
      try insert.bind(Self.stored(entry.number), at: 3)
      try insert.bind(Self.stored(entry.clock), at: 4)
      try insert.bind(Self.stored(entry.begin.segment), at: 5)
      try insert.bind(Self.stored(entry.begin.offset), at: 6)
      _ = try insert.step()
      count += Int(database.changes)
    }
  }

  func forEach(of row: UInt64, _ body: (WindowEntry) -> Void) throws {
    try Self.naming {
      try find.bind(Self.stored(row), at: 1)
      while try find.step() { body(Self.entry(find)) }
    }
  }

  /// Calls `body` with every version, ordered by trail and transaction number.
  func forEach(_ body: (_ row: UInt64, WindowEntry) -> Void) throws {
    try Self.naming {
      let all = try database.prepare(
        "SELECT origin, number, clock, segment, place, row FROM version ORDER BY origin, number")
      while try all.step() { body(UInt64(bitPattern: all.integer(5)), Self.entry(all)) }
    }
  }

  func rows(of origin: Int, after: UInt64, through: UInt64) throws -> [UInt64] {
    try Self.naming {
      try rows.bind(Int64(origin), at: 1)
      try rows.bind(Self.stored(after), at: 2)
      try rows.bind(Self.stored(through), at: 3)
      var found: [UInt64] = []
      while try rows.step() { found.append(UInt64(bitPattern: rows.integer(0))) }
      return found
    }
  }

  func remove(of row: UInt64, where isGone: (WindowEntry) -> Bool) throws {
    var gone: [WindowEntry] = []
    try forEach(of: row) { if isGone($0) { gone.append($0) } }
    try Self.naming {
      for entry in gone {
        try delete.bind(Self.stored(row), at: 1)
        try delete.bind(Int64(entry.origin), at: 2)
        try delete.bind(Self.stored(entry.number), at: 3)
        _ = try delete.step()
        count -= Int(database.changes)
      }
    }
  }

  func oldest(of origin: Int) throws -> WindowEntry? {
    try Self.naming {
      try first.bind(Int64(origin), at: 1)
      defer { first.reset() }
      return try first.step() ? Self.entry(first) : nil
    }
  }

  private static func entry(_ statement: Statement) -> WindowEntry {
    WindowEntry(
      origin: Int(statement.integer(0)), number: UInt64(bitPattern: statement.integer(1)),
      clock: UInt64(bitPattern: statement.integer(2)),
      begin: Position(
        segment: UInt64(bitPattern: statement.integer(3)),
        offset: UInt64(bitPattern: statement.integer(4))))
  }

  private static func stored(_ value: UInt64) -> Int64 { Int64(bitPattern: value) }

  private static func naming<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SQLiteError {
      throw CairnError(
        error.asCairnError.code,
        "the temporary file for versions of rows that another node may not have failed: \(error)",
        hint:
          "free space in the folder for temporary files (SQLITE_TMPDIR, else /var/tmp), and check that all nodes can be reached",
        remedy: .retry)
    }
  }
}
