import Changes

/// Counts equal rows, by the hash of all their values. It also keeps the values of one row for each hash.
final class RowCounts {
  /// The memory, in bytes, that one hash and its count take. The values of a row that is kept for the hash are extra.
  static let hashBytes = 24

  /// The hashes whose rows are counted, in ascending order.
  let hashes: [UInt64]
  private var counts: [Int32]
  /// For each hash, the offset in `rows` at which the kept row begins; -1 if no row is kept for the hash.
  private var places: [Int]
  private var rows = ByteWriter()

  /// Creates a counter for each of these hashes; all counts are 0.
  ///
  /// - Parameter hashes: The hashes in ascending order.
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

  /// The memory for the values of the kept rows, in bytes.
  var bytes: Int { rows.count }

  /// Counts a row `times` times if its hash is one of ``hashes``. Keeps the values of the first row with each hash.
  func add(_ hash: UInt64, times: Int = 1, _ row: () -> [Value]) {
    guard let index = index(hash) else { return }
    let (sum, isTooMany) = counts[index].addingReportingOverflow(Int32(clamping: times))
    counts[index] = isTooMany ? .max : sum
    guard places[index] < 0 else { return }
    places[index] = rows.count
    rows.appendImage(row())
  }

  subscript(_ hash: UInt64) -> Int { index(hash).map { Int(counts[$0]) } ?? 0 }

  /// Returns the values of the row that is kept for this hash; nil if none is kept.
  func row(_ hash: UInt64) -> [Value]? {
    index(hash).flatMap { rows.values(at: places[$0]) }
  }

  /// Frees the values of the kept rows. The counts stay.
  func forgetRows() {
    places = Array(repeating: -1, count: hashes.count)
    rows = ByteWriter()
  }
}
