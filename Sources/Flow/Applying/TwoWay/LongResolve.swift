/// Detects that apply has been resolving the rows of one transaction for a second or longer.
///
/// ``isDue(now:)`` is called for each row, checks the time at every 256th row, and returns true only once.
struct LongResolve {
  private let begunAt: Int64
  private var rows = 0
  private var isTold = false

  init(now: Int64) { begunAt = now }

  mutating func isDue(now: @autoclosure () -> Int64) -> Bool {
    rows += 1
    guard !isTold, rows % 256 == 0, now() - begunAt >= 1000 else { return false }
    isTold = true
    return true
  }
}
