/// The hashes of one segment with the stretches in which they are, while an index is built.
///
///     entries.add(hash, stretch: 3)
///     entries.finish()
struct IndexEntries {
  struct Entry: Equatable {
    var hash: UInt64
    var stretch: UInt32
  }

  /// The highest number of entries. A segment with more is indexed without them, as they would not fit into the index of
  /// a segment of 16 MiB. A peer decides how many changes a segment has, so the number also bounds memory: 64 MiB.
  static let countMax = 1_000_000
  private(set) var all: [Entry] = []
  private(set) var isTooLarge = false
  private var distinct = 0

  mutating func add(_ hash: UInt64, stretch: Int) {
    guard !isTooLarge else { return }
    if let last = all.last, last.hash == hash, last.stretch == UInt32(stretch) { return }
    all.append(Entry(hash: hash, stretch: UInt32(stretch)))
    guard all.count >= 2 * Self.countMax else { return }
    finish()
    if distinct > Self.countMax {
      isTooLarge = true
      all = []
    }
  }

  /// Sorts the entries by hash and stretch, and removes those that are there twice.
  mutating func finish() {
    sort()
    var kept = 0
    for index in all.indices where index == 0 || all[index] != all[kept - 1] {
      all[kept] = all[index]
      kept += 1
    }
    all.removeLast(all.count - kept)
    distinct = kept
  }

  // A radix sort: entries are added in the order of their stretches, and each pass keeps the order of equal digits.
  private mutating func sort() {
    var isOrdered = true
    for index in all.indices.dropFirst() where all[index].stretch < all[index - 1].stretch { isOrdered = false }
    guard isOrdered, all.count > 64 else {
      all.sort { ($0.hash, $0.stretch) < ($1.hash, $1.stretch) }
      return
    }
    var other = all
    for shift in stride(from: UInt64(0), to: 64, by: 11) {
      var counts = [Int](repeating: 0, count: 2049)
      for entry in all { counts[Int(entry.hash >> shift & 2047) + 1] += 1 }
      for digit in 1...2048 { counts[digit] += counts[digit - 1] }
      other.withUnsafeMutableBufferPointer { other in
        for entry in all {
          let digit = Int(entry.hash >> shift & 2047)
          other[counts[digit]] = entry
          counts[digit] += 1
        }
      }
      swap(&all, &other)
    }
  }
}
