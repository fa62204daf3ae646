import Changes

/// Counts equal rows by the hash of all their values, and keeps one row for each hash.
final class RowCounts {
  static let hashBytes = 24

  let hashes: [UInt64]
  private var counts: [Int32]
  /// The offset in `rows` of the kept row of each hash; -1 if there is none.
  private var places: [Int]
  private var rows = ByteWriter()

  /// Creates a counter for each of these hashes, which are in ascending order.
  init(_ hashes: [UInt64]) {
    self.hashes = hashes
    counts = Array(repeating: 0, count: hashes.count)
    places = Array(repeating: -1, count: hashes.count)
  }

  private func index(_ hash: UInt64) -> Int? {
    var (low, high) = (0, hashes.count)
    while low < high {
      let middle = (low + high) / 2
      if hashes[middle] < hash { low = middle + 1 } else { high = middle }
    }
    return low < hashes.count && hashes[low] == hash ? low : nil
  }

  func contains(_ hash: UInt64) -> Bool { index(hash) != nil }

  var bytes: Int { rows.count }

  /// Counts a row if its hash is one of ``hashes``, and keeps the first row of each hash.
  func add(_ hash: UInt64, times: Int = 1, _ row: () -> [Value]) {
    guard let index = index(hash) else { return }
    let (sum, isTooMany) = counts[index].addingReportingOverflow(Int32(clamping: times))
    counts[index] = isTooMany ? .max : sum
    guard places[index] < 0 else { return }
    places[index] = rows.count
    rows.appendImage(row())
  }

  subscript(_ hash: UInt64) -> Int { index(hash).map { Int(counts[$0]) } ?? 0 }

  func row(_ hash: UInt64) -> [Value]? {
    index(hash).flatMap { rows.values(at: places[$0]) }
  }

  func forgetRows() {
    places = Array(repeating: -1, count: hashes.count)
    rows = ByteWriter()
  }
}
