/// Decides, by the sizes of tables' definitions in the catalog, which of the tables may be read.
///
///     DefinitionSizes([(oid: 7, bytes: 4_000), (oid: 8, bytes: 90_000_000)]).readable
///     // readable: [7], large: [8: 90_000_000]
struct DefinitionSizes {
  static let tableBytesMax = 16 << 20
  static let allBytesMax = 512 << 20

  private let sizes: [(oid: UInt32, bytes: Int)]

  init(_ sizes: [(oid: UInt32, bytes: Int)]) { self.sizes = sizes }

  /// The oids of the tables that may be read, and the sizes of all others. The largest ones are left out first.
  var readable: (readable: Set<UInt32>, large: [UInt32: Int]) {
    var (readable, large): (Set<UInt32>, [UInt32: Int]) = ([], [:])
    var sum = 0
    for (oid, bytes) in sizes.sorted(by: { ($0.bytes, $0.oid) < ($1.bytes, $1.oid) }) {
      if bytes <= Self.tableBytesMax, bytes <= Self.allBytesMax - sum {
        sum += bytes
        readable.insert(oid)
      } else {
        large[oid] = bytes
      }
    }
    return (readable, large)
  }

  /// Returns the reason why a table with definitions of this size cannot be captured.
  static func reason(_ bytes: Int) -> String {
    bytes > tableBytesMax
      ? "its definitions (CHECKs, defaults, indexes, types) take \(bytes >> 20) MiB in the catalog, and \(tableBytesMax >> 20) MiB is the most that is read"
      : "the definitions of all tables take more than \(allBytesMax >> 20) MiB in the catalog; leave tables out"
  }
}
