import SQLiteKit

extension Database {
  /// Creates a temporary database without a name, which is deleted when it is closed, and begins a transaction.
  ///
  /// - Parameter cacheKiB: The memory for its pages, in KiB, above which they go to a file.
  /// - Parameter schema: The SQL that creates its tables.
  static func temporary(cacheKiB: Int, _ schema: String) throws -> Database {
    let database = try Database(path: "", mode: .create)
    try database.executeScript(
      """
      PRAGMA journal_mode = OFF;
      PRAGMA synchronous = OFF;
      PRAGMA cache_size = -\(cacheKiB);
      \(schema);
      BEGIN
      """)
    return database
  }
}
