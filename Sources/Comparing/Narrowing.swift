import Changes

/// Finds the rows in which parts of both ends differ, by hashes of their keys and of themselves.
struct Narrowing {
  /// What is held in memory for one row, besides its key.
  static let rowBytes = 96

  private struct Entry {
    var rowHash: UInt64
    /// Rows of the source less those of the target; of rows with a key 1 until the target's was seen.
    var balance: Int
    var key: [UInt8]
  }

  let table: ComparedTable
  private var entries: [UInt64: Entry] = [:]
  private var suspects: [Suspect] = []

  init(_ table: ComparedTable) { self.table = table }

  mutating func takeSource(_ mark: borrowing RowMark) {
    if mark.key.isEmpty {
      count(mark.keyHash, 1)
    } else {
      entries[mark.keyHash] = Entry(rowHash: mark.rowHash, balance: 1, key: Array(mark.key))
    }
  }

  /// After all of the source's.
  mutating func takeTarget(_ mark: borrowing RowMark) {
    if mark.key.isEmpty {
      return count(mark.keyHash, -1)
    }
    guard let entry = entries.removeValue(forKey: mark.keyHash) else {
      suspects.append(Suspect(hash: mark.keyHash, targetKey: Self.values(mark.key)))
      return
    }
    guard entry.rowHash != mark.rowHash else { return }
    suspects.append(
      Suspect(
        hash: mark.keyHash, sourceKey: entry.key.withUnsafeBytes(Self.values), targetKey: Self.values(mark.key)))
  }

  private mutating func count(_ hash: UInt64, _ step: Int) {
    entries[hash, default: Entry(rowHash: hash, balance: 0, key: [])].balance += step
  }

  mutating func finish() -> [Suspect] {
    for (hash, entry) in entries where entry.balance != 0 {
      suspects.append(
        Suspect(hash: hash, sourceKey: entry.key.isEmpty ? nil : entry.key.withUnsafeBytes(Self.values)))
    }
    entries = [:]
    return Self.merged(suspects)
  }

  /// One suspect for each key, also where a target has several rows of it.
  private static func merged(_ suspects: [Suspect]) -> [Suspect] {
    var places: [UInt64: Int] = [:]
    var merged: [Suspect] = []
    for suspect in suspects {
      guard suspect.isKeyed, let place = places[suspect.hash] else {
        places[suspect.hash] = merged.count
        merged.append(suspect)
        continue
      }
      merged[place].sourceKey = merged[place].sourceKey ?? suspect.sourceKey
      merged[place].targetKey = merged[place].targetKey ?? suspect.targetKey
    }
    return merged
  }

  private static func values(_ bytes: UnsafeRawBufferPointer) -> [Value] {
    var reader = ByteReader(bytes)
    var values: [Value] = []
    while !reader.isAtEnd, let value = (try? reader.readColumn())?.value { values.append(value) }
    return values
  }
}
