import CSQLite

/// Ends a statement that runs too many SQLite instructions. SQLite checks the limit after every 10,000 instructions.
///
/// Source: https://sqlite.org/c3ref/progress_handler.html
final class WorkLimit {
  private static let step: Int32 = 10_000
  private var left = Int.max

  func watch(_ database: Database) {
    sqlite3_progress_handler(
      database.handle, Self.step,
      { context in
        guard let context else { return 0 }
        return Unmanaged<WorkLimit>.fromOpaque(context).takeUnretainedValue().isSpent ? 1 : 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Allows this number of SQLite instructions from now on, counted in steps of 10,000.
  func allow(_ instructions: Int) { left = instructions / Int(Self.step) }

  private var isSpent: Bool {
    left -= 1
    return left < 0
  }
}
