/// The hashes of one segment with the stretches in which they are, while an index is built.
///
///     entries.add(hash, stretch: 3)
///     entries.finish()
struct IndexEntries {
  struct Entry: Equatable {
    var hash: UInt64
    var stretch: UInt32

    static func < (a: Entry, b: Entry) -> Bool { a.hash != b.hash ? a.hash < b.hash : a.stretch < b.stretch }
  }

  /// The highest number of entries. A segment with more is indexed without them, as they would not fit into the index of
  /// a segment of 16 MiB. A peer decides how many changes a segment has, so the number also bounds memory: 64 MiB.
  static let countMax = 1_000_000
  /// The entries that were sorted: by hash and stretch, and none twice.
  private(set) var all: [Entry] = []
  private(set) var isTooLarge = false
  /// How many entries were sorted until now. No entry is sorted twice, so this is no more than were added.
  private(set) var sortedCount = 0
  private var added: [Entry] = []
  private let most: Int

  init(most: Int = countMax) { self.most = most }

  mutating func add(_ hash: UInt64, stretch: Int) {
    guard !isTooLarge else { return }
    if let last = added.last, last.hash == hash, last.stretch == UInt32(stretch) { return }
    added.append(Entry(hash: hash, stretch: UInt32(stretch)))
    if added.count >= most { finish() }
  }

  /// Sorts the entries that were added by hash and stretch, and removes those that are there twice.
  mutating func finish() {
    guard !added.isEmpty else { return }
    sortedCount += added.count
    sort()
    merge()
  }

  private mutating func merge() {
    var merged: [Entry] = []
    merged.reserveCapacity(min(most, all.count + added.count) + 1)
    var (old, new) = (0, 0)
    while old < all.count || new < added.count {
      let isOld = new == added.count || (old < all.count && all[old] < added[new])
      let next = isOld ? all[old] : added[new]
      if isOld { old += 1 } else { new += 1 }
      if merged.last != next { merged.append(next) }
      if merged.count > most {
        isTooLarge = true
        merged = []
        break
      }
    }
    (all, added) = (merged, [])
  }

  // A radix sort: entries are added in the order of their stretches, and each pass keeps the order of equal digits.
  private mutating func sort() {
    var isOrdered = true
    for index in added.indices.dropFirst() where added[index].stretch < added[index - 1].stretch { isOrdered = false }
    guard isOrdered, added.count > 64 else {
      added.sort { $0 < $1 }
      return
    }
    var other = added
    for shift in stride(from: UInt64(0), to: 64, by: 11) {
      var counts = [Int](repeating: 0, count: 2049)
      for entry in added { counts[Int(entry.hash >> shift & 2047) + 1] += 1 }
      for digit in 1...2048 { counts[digit] += counts[digit - 1] }
      other.withUnsafeMutableBufferPointer { other in
        for entry in added {
          let digit = Int(entry.hash >> shift & 2047)
          other[counts[digit]] = entry
          counts[digit] += 1
        }
      }
      swap(&added, &other)
    }
  }
}
