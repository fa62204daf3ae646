import Changes

/// What the journal last showed of rows that were updated, by a hash of layout and key.
///
/// An AFTER trigger gets the old values as they were when its statement came to the row. What foreign key actions and BEFORE
/// triggers have done to that row since stands in the journal before it, and is missing there.
struct LatestImages {
  private static let countMax = 4096

  private var images: [Int: [UInt8]] = [:]
  private var order: [Int] = []

  /// The row as it is after an update.
  mutating func note(_ key: Int, _ image: UnsafeRawBufferPointer) {
    guard images.updateValue(Array(image), forKey: key) == nil else { return }
    order.append(key)
    guard order.count > Self.countMax else { return }
    for stale in order.prefix(Self.countMax / 2) { images[stale] = nil }
    order.removeFirst(Self.countMax / 2)
  }

  func image(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images[key] }

  /// The row is gone.
  mutating func take(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images.removeValue(forKey: key) }

  mutating func removeAll() {
    images.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
  }
}
