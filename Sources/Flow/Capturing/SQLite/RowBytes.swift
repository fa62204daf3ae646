/// An estimate of the bytes of a journal row: it rises at once and falls slowly.
///
///     var bytes = RowBytes()
///     bytes.add(rows: 2, bytes: 500)
///     bytes.endLook()
///     bytes.news()  // 250
struct RowBytes {
  private var average: Int64 = 0
  private var look: (rows: Int64, bytes: Int64) = (0, 0)
  var noted: Int64 = 0 {
    didSet { average = max(average, noted) }
  }

  mutating func add(rows: Int64, bytes: Int64) { look = (look.rows + rows, look.bytes + bytes) }

  /// Updates the estimated bytes of a journal row at the end of one reading of the journal.
  ///
  /// - Parameter sent: The number of rows that a refresh sent, and their bytes.
  mutating func endLook(_ sent: (rows: Int64, bytes: Int64) = (0, 0)) {
    add(rows: sent.rows, bytes: sent.bytes)
    defer { look = (0, 0) }
    guard look.rows > 0 else { return }
    let now = max(1, look.bytes / look.rows)
    average = now > average ? now : average - (average - now) / 16
  }

  /// Returns the estimated bytes of a journal row if the stored estimate differs by more than a tenth, else nil.
  mutating func news() -> Int64? {
    guard average > 0, abs(average - noted) > noted / 10 else { return nil }
    noted = average
    return average
  }
}
