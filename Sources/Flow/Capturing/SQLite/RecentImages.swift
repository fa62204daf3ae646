import Changes

/// The last images of rows by a key: at most 4,096, and 64 MiB together. The oldest go first; the last two stay, of
/// whatever size.
struct RecentImages<Key: Hashable> {
  private struct Image {
    let bytes: [UInt8]
    let tick: UInt64
  }

  private let countMax: Int
  private let bytesMax: Int
  private var images: [Key: Image] = [:]
  /// The keys in the order in which they came; one whose image was taken or replaced meanwhile is passed over.
  private var order: [(key: Key, tick: UInt64)] = []
  private var tick: UInt64 = 0
  /// The size of all images, in bytes.
  private(set) var bytes = 0

  init(countMax: Int = 4096, bytesMax: Int = 64 << 20) { (self.countMax, self.bytesMax) = (countMax, bytesMax) }

  var isEmpty: Bool { images.isEmpty }

  func image(_ key: Key) -> [UInt8]? { images.isEmpty ? nil : images[key]?.bytes }

  /// Stores the image of a row, in place of an earlier one.
  mutating func note(_ key: Key, _ image: UnsafeRawBufferPointer) {
    tick += 1
    let before = images.updateValue(Image(bytes: Array(image), tick: tick), forKey: key)
    bytes += image.count - (before?.bytes.count ?? 0)
    order.append((key, tick))
    if images.count > countMax || bytes > bytesMax || order.count > 2 * countMax { shrink() }
  }

  mutating func take(_ key: Key) -> [UInt8]? {
    guard !images.isEmpty, let image = images.removeValue(forKey: key)?.bytes else { return nil }
    bytes -= image.count
    return image
  }

  mutating func removeAll() {
    images.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
    bytes = 0
  }

  /// Forgets the oldest images until half of what may be kept is left.
  private mutating func shrink() {
    order.removeAll { images[$0.key]?.tick != $0.tick }
    var stale = 0
    while order.count - stale > 2, order.count - stale > countMax / 2 || bytes > bytesMax / 2 {
      _ = take(order[stale].key)
      stale += 1
    }
    order.removeFirst(stale)
  }
}
