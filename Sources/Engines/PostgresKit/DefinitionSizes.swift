/// Chooses the tables whose definitions are small enough to be read.
///
///     DefinitionSizes([(oid: 7, owner: 10, bytes: 4_000), (oid: 8, owner: 10, bytes: 90_000_000)]).readable
///     // readable: [7], large: [8: 90_000_000]
struct DefinitionSizes {
  typealias Size = (oid: UInt32, owner: UInt32, bytes: Int)

  static let tableBytesMax = 16 << 20
  static let allBytesMax = 512 << 20

  private let sizes: [Size]

  init(_ sizes: [Size]) { self.sizes = sizes }

  /// The oids of the tables whose definitions may be read. `large` has the sizes, in bytes, of all other definitions.
  ///
  /// The definitions of all readable tables together have at most ``allBytesMax``.
  var readable: (readable: Set<UInt32>, large: [UInt32: Int]) {
    var (readable, large): (Set<UInt32>, [UInt32: Int]) = ([], [:])
    for size in sizes where size.bytes > Self.tableBytesMax { large[size.oid] = size.bytes }
    let owned = Dictionary(grouping: sizes.filter { $0.bytes <= Self.tableBytesMax }) { $0.owner }
    let owners = owned.map { owner, sizes in (owner: owner, sizes: sizes, sum: sizes.reduce(0) { $0 + $1.bytes }) }
      .sorted { ($0.sum, $0.owner) < ($1.sum, $1.owner) }
    var left = Self.allBytesMax
    for (index, owner) in owners.enumerated() {
      // An owner with less than an equal share leaves the rest to the owners with larger sums.
      let share = left / (owners.count - index)
      var sum = 0
      for (oid, _, bytes) in owner.sizes.sorted(by: { ($0.bytes, $0.oid) < ($1.bytes, $1.oid) }) {
        if bytes <= share - sum {
          sum += bytes
          readable.insert(oid)
        } else {
          large[oid] = bytes
        }
      }
      left -= sum
    }
    return (readable, large)
  }

  /// Returns the reason, as text for the operator, why a table with definitions of this size is refused.
  static func reason(_ bytes: Int, owner: String) -> String {
    guard bytes > tableBytesMax else {
      return
        "the definitions of all tables take more than \(allBytesMax >> 20) MiB, and those of role \(owner) more than an equal share; leave tables out"
    }
    let size = bytes == .max ? "more than the server can print" : "\(bytes >> 20) MiB in the catalog or as text"
    return
      "its definitions (CHECKs, defaults, indexes, types) take \(size), and \(tableBytesMax >> 20) MiB is the most that is read"
  }
}
