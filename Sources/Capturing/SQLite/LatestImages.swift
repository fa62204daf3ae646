import Changes

/// The last images of updated rows in the journal, by a hash of layout and key.
///
/// An AFTER trigger gets the old values as they were when its statement reached the row. Changes of foreign key actions
/// and BEFORE triggers to that row since then are earlier in the journal, and are missing in those values.
struct LatestImages {
  private static let countMax = 4096

  private var images: [Int: [UInt8]] = [:]
  private var order: [Int] = []

  /// Remembers a row as it is after an update.
  mutating func note(_ key: Int, _ image: UnsafeRawBufferPointer) {
    guard images.updateValue(Array(image), forKey: key) == nil else { return }
    order.append(key)
    guard order.count > Self.countMax else { return }
    for stale in order.prefix(Self.countMax / 2) { images[stale] = nil }
    order.removeFirst(Self.countMax / 2)
  }

  func image(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images[key] }

  /// Returns the image of a row that no longer exists, and forgets it.
  mutating func take(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images.removeValue(forKey: key) }

  mutating func removeAll() {
    images.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
  }
}
