import Changes

/// Finds the differing rows of one range or of some groups, by hashes of keys and of whole rows. The caller adds all
/// rows of the source first, then those of the target.
struct Narrowing: ~Copyable {
  static let rowBytes = 64

  private struct Entry {
    let rowHash: UInt64
    /// The offset of the source row's encoded key; -1 if all values identify the row, -2 if only the target has the
    /// row.
    let key: Int
    var rowBytes: UInt32
    /// With a key: 1 until the target's row is read, then 0 if both rows are equal, -1 if they differ. Without a key:
    /// the number of equal source rows minus the number of equal target rows.
    var balance: Int32
  }

  private static let reservedMax = 1 << 18
  private static let bytesMax = 64 << 20

  private let isUnique: Bool
  private var entries: [UInt64: Entry] = [:]
  private var keys = ByteWriter()
  private var found = SuspectList()

  /// Reserves memory for about this number of rows.
  ///
  /// - Parameter isUnique: Whether the target has at most one row for each key.
  init(rows: Int, isUnique: Bool) {
    self.isUnique = isUnique
    entries.reserveCapacity(min(max(0, rows), Self.reservedMax))
  }

  /// The rows of the range or groups take more memory than allowed, as may happen if very many rows have similar
  /// hashes.
  struct TooMany: Error {}

  func check() throws {
    if entries.count * Self.rowBytes + keys.count > Self.bytesMax { throw TooMany() }
  }

  mutating func takeSource(_ mark: borrowing RowMark) {
    if mark.key.isEmpty { return count(mark, 1) }
    entries[mark.keyHash] = Entry(
      rowHash: mark.rowHash, key: keys.count, rowBytes: UInt32(clamping: mark.bytes), balance: 1)
    keys.appendCounted(mark.key)
  }

  /// Adds a row of the target. All rows of the source must have been added before.
  mutating func takeTarget(_ mark: borrowing RowMark) {
    if mark.key.isEmpty { return count(mark, -1) }
    guard var entry = entries[mark.keyHash] else {
      if !isUnique {
        entries[mark.keyHash] = Entry(rowHash: mark.rowHash, key: -2, rowBytes: 0, balance: -1)
      }
      return found.append(hash: mark.keyHash, source: nil, target: mark.key, rowBytes: mark.bytes)
    }
    // Report one suspect for each key, even if the target has several rows with it.
    guard entry.balance >= 0 else { return }
    if entry.balance == 1, entry.rowHash == mark.rowHash {
      entry.balance = 0
    } else {
      entry.balance = -1
      found.append(
        hash: mark.keyHash, source: key(entry.key), target: mark.key, rowBytes: max(Int(entry.rowBytes), mark.bytes))
    }
    entries[mark.keyHash] = entry
  }

  private mutating func count(_ mark: borrowing RowMark, _ step: Int32) {
    let bytes = UInt32(clamping: mark.bytes)
    var entry = entries[mark.keyHash] ?? Entry(rowHash: mark.rowHash, key: -1, rowBytes: bytes, balance: 0)
    entry.balance &+= step
    // The rows are read again at both ends, so the greater number of bytes counts.
    entry.rowBytes = max(entry.rowBytes, bytes)
    entries[mark.keyHash] = entry
  }

  private func key(_ place: Int) -> UnsafeRawBufferPointer? {
    var reader = ByteReader(UnsafeRawBufferPointer(rebasing: keys.bytes[place...]))
    return try? reader.readCounted()
  }

  /// Passes to `take` the differing rows that were found since the last call of this function.
  mutating func drain(_ take: (Suspect) throws -> Void) rethrows {
    for index in 0..<found.count { try take(found[index]) }
    found.removeAll()
  }

  /// Passes to `take` the remaining differing rows, after all rows of the target have been added.
  mutating func finish(_ take: (Suspect) throws -> Void) rethrows {
    try drain(take)
    for (hash, entry) in entries {
      if entry.key == -1, entry.balance != 0 {
        try take(Suspect(hash: hash, rowBytes: Int(entry.rowBytes)))
      } else if entry.key >= 0, entry.balance == 1 {
        try take(Suspect(hash: hash, sourceKey: keys.values(at: entry.key), rowBytes: Int(entry.rowBytes)))
      }
    }
  }
}
