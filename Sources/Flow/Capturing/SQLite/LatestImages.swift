import Changes

/// The last values of each updated row in the journal, by a hash of table shape and key.
///
/// An AFTER trigger gets the old values as they were when its statement reached the row. Foreign key actions and BEFORE
/// triggers may have changed the row after that. These changes are earlier in the journal, so the old values are
/// corrected with the values that are kept here.
struct LatestImages {
  private static let countMax = 4096

  private var images: [Int: [UInt8]] = [:]
  private var order: [Int] = []

  /// Remembers the values of a row after an update; `key` is the hash of table shape and key.
  mutating func note(_ key: Int, _ image: UnsafeRawBufferPointer) {
    guard images.updateValue(Array(image), forKey: key) == nil else { return }
    order.append(key)
    guard order.count > Self.countMax else { return }
    for stale in order.prefix(Self.countMax / 2) { images[stale] = nil }
    order.removeFirst(Self.countMax / 2)
  }

  func image(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images[key] }

  /// Returns the last values of a row, and forgets them, because the row no longer exists; nil if there are none.
  mutating func take(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images.removeValue(forKey: key) }

  mutating func removeAll() {
    images.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
  }
}
