import Changes
import SQLiteKit

/// A list of records in a temporary SQLite database, which is deleted when it is closed. A record is found by its
/// number or by a hash.
///
///     let file = try SpillFile()
///     try file.append(hash: 7, bytes)                 // record 0
///     try file.forEach(hash: 7) { reader in … }
package final class SpillFile {
  /// The number of records, which are numbered from 0.
  package private(set) var count = 0
  private let insert: Statement
  private let update: Statement
  private let find: Statement
  private let all: Statement
  private let get: Statement
  private let database: Database
  private let share: TemporaryShare

  package init(in space: TemporarySpace = .shared) throws {
    share = TemporaryShare(of: space)
    (database, insert, update, find, all, get) = try Self.naming {
      let database = try Database.temporary(
        cacheKiB: 8192,
        """
        CREATE TABLE record(number INTEGER PRIMARY KEY, hash INTEGER NOT NULL, bytes BLOB NOT NULL);
        CREATE INDEX record_hash ON record(hash)
        """)
      return (
        database, try database.prepare("INSERT INTO record VALUES (?, ?, ?)"),
        try database.prepare("UPDATE record SET bytes = ? WHERE number = ?"),
        try database.prepare("SELECT number, bytes FROM record WHERE hash = ? ORDER BY number DESC"),
        try database.prepare("SELECT bytes FROM record WHERE hash = ? ORDER BY number"),
        try database.prepare("SELECT bytes FROM record WHERE number = ?")
      )
    }
  }

  package func append(hash: UInt64, _ bytes: UnsafeRawBufferPointer) throws {
    try Self.naming {
      try share.makeRoom(for: bytes.count, in: database)
      try insert.bind(Int64(count), at: 1)
      try insert.bind(Int64(bitPattern: hash), at: 2)
      try insert.bind(.blob(bytes), at: 3)
      _ = try insert.step()
      count += 1
    }
  }

  package func replace(_ number: Int, by bytes: UnsafeRawBufferPointer) throws {
    try Self.naming {
      try share.makeRoom(for: bytes.count, in: database)
      try update.bind(.blob(bytes), at: 1)
      try update.bind(Int64(number), at: 2)
      _ = try update.step()
    }
  }

  package func holds(hash: UInt64) throws -> Bool {
    try Self.naming {
      try find.bind(Int64(bitPattern: hash), at: 1)
      defer { find.reset() }
      return try find.step()
    }
  }

  /// Calls `body` with the records of this hash, the last one first, until it returns a result. Returns that result;
  /// nil if `body` never returns one.
  package func last<T>(hash: UInt64, _ body: (_ number: Int, inout ByteReader) throws -> T?) throws -> T? {
    try Self.naming {
      try find.bind(Int64(bitPattern: hash), at: 1)
      defer { find.reset() }
      while try find.step() {
        let number = Int(find.integer(0))
        if let found = try Self.read(find.value(1), { try body(number, &$0) }) { return found }
      }
      return nil
    }
  }

  /// Calls `body` with each record that has this hash, the first one first.
  package func forEach(hash: UInt64, _ body: (inout ByteReader) throws -> Void) throws {
    try Self.naming {
      try all.bind(Int64(bitPattern: hash), at: 1)
      defer { all.reset() }
      while try all.step() { try Self.read(all.value(0), body) }
    }
  }

  package func read<T>(_ number: Int, _ body: (inout ByteReader) throws -> T) throws -> T {
    try Self.naming {
      try get.bind(Int64(number), at: 1)
      defer { get.reset() }
      guard try get.step() else { throw DecodingError(offset: 0, problem: "record \(number) is missing") }
      return try Self.read(get.value(0), body)
    }
  }

  private static func read<T>(_ value: Value, _ body: (inout ByteReader) throws -> T) throws -> T {
    guard case .blob(let bytes) = value else { throw DecodingError(offset: 0, problem: "a record is not bytes") }
    return try bytes.withUnsafeBytes { bytes in
      var reader = ByteReader(bytes)
      return try body(&reader)
    }
  }

  /// Runs a body. If it throws an SQLite error, throws an error that names the temporary file instead.
  private static func naming<T>(_ body: () throws -> T) throws -> T {
    func failed(_ code: ErrorCode, _ problem: String) -> CairnError {
      CairnError(
        code, "the temporary file for rows of a transaction failed: \(problem)",
        hint: "free space in the folder for temporary files (SQLITE_TMPDIR, else /var/tmp)", remedy: .retry)
    }
    do { return try body() } catch let error as SQLiteError {
      throw failed(error.asCairnError.code, "\(error)")
    } catch let error as DecodingError { throw failed(.ioFailed, "\(error)") }
  }
}
