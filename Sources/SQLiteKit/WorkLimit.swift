import CSQLite

/// Ends a statement that does too much: SQLite asks it after so many of its instructions.
///
/// Source: https://sqlite.org/c3ref/progress_handler.html
final class WorkLimit {
  private static let step: Int32 = 10_000
  private var left = Int.max

  /// The limit must live as long as the database.
  func watch(_ database: Database) {
    sqlite3_progress_handler(
      database.handle, Self.step,
      { context in
        guard let context else { return 0 }
        return Unmanaged<WorkLimit>.fromOpaque(context).takeUnretainedValue().isSpent ? 1 : 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// From here on so many instructions are allowed, to the nearest ten thousand.
  func allow(_ instructions: Int) { left = instructions / Int(Self.step) }

  private var isSpent: Bool {
    left -= 1
    return left < 0
  }
}
