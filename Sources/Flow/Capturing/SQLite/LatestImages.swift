import Changes

/// The last values of each updated row in the journal. They correct outdated old values, which AFTER triggers log if
/// foreign key actions or BEFORE triggers changed the row.
struct LatestImages {
  private static let countMax = 4096

  private var images: [Int: [UInt8]] = [:]
  private var order: [Int] = []

  /// Stores the values of a row after an update.
  ///
  /// - Parameter key: The hash of table shape and key.
  mutating func note(_ key: Int, _ image: UnsafeRawBufferPointer) {
    guard images.updateValue(Array(image), forKey: key) == nil else { return }
    order.append(key)
    guard order.count > Self.countMax else { return }
    for stale in order.prefix(Self.countMax / 2) { images[stale] = nil }
    order.removeFirst(Self.countMax / 2)
  }

  func image(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images[key] }

  mutating func take(_ key: Int) -> [UInt8]? { images.isEmpty ? nil : images.removeValue(forKey: key) }

  mutating func removeAll() {
    images.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
  }
}
