import Changes

/// A compact list of differing rows.
struct SuspectList: ~Copyable {
  private struct Entry {
    let hash: UInt64
    /// The offsets in `keys` of the row's keys, as read at the source and at the target; -1 for an end that lacks the
    /// row.
    let source: Int
    let target: Int
    let rowBytes: Int
  }

  private var entries: [Entry] = []
  private var keys = ByteWriter()

  var count: Int { entries.count }

  /// Whether there are too many rows, or too long keys, to send the rows singly: 100,000 rows or 64 MiB. Then a repair
  /// sends the whole table.
  var isTooLarge: Bool { count > 100_000 || keys.count > 64 << 20 }

  /// Appends a row, with its encoded keys as stored at the source and the target; nil for an end that lacks the row.
  mutating func append(
    hash: UInt64, source: UnsafeRawBufferPointer?, target: UnsafeRawBufferPointer?, rowBytes: Int
  ) {
    let (here, there) = (place(source), place(target))
    entries.append(Entry(hash: hash, source: here, target: there, rowBytes: rowBytes))
  }

  mutating func append(_ suspect: Suspect) {
    var key = ByteWriter(capacity: 256)
    func place(_ values: [Value]?, _ list: inout SuspectList) -> Int {
      guard let values else { return -1 }
      key.removeAll()
      for value in values { key.append(value) }
      return list.place(key.bytes)
    }
    let (source, target) = (place(suspect.sourceKey, &self), place(suspect.targetKey, &self))
    entries.append(Entry(hash: suspect.hash, source: source, target: target, rowBytes: suspect.rowBytes))
  }

  private mutating func place(_ key: UnsafeRawBufferPointer?) -> Int {
    guard let key else { return -1 }
    defer { keys.appendCounted(key) }
    return keys.count
  }

  subscript(_ index: Int) -> Suspect {
    let entry = entries[index]
    return Suspect(
      hash: entry.hash, sourceKey: keys.values(at: entry.source), targetKey: keys.values(at: entry.target),
      rowBytes: entry.rowBytes)
  }

  mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    keys.removeAll()
  }
}

extension ByteWriter {
  func values(at place: Int) -> [Value]? {
    guard place >= 0 else { return nil }
    var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[place...]))
    guard let image = try? reader.readCounted() else { return nil }
    return try? ImageView(bytes: image).values().map { $0 ?? .null }
  }
}
