import Changes
import TestServers

/// Headers of segments and blocks whose checksums are right, and whose numbers are those of an attacker.
///
///     for n in 0..<HostileHeaders.count { try take(HostileHeaders.segment(name, n)) }
package enum HostileHeaders {
  /// The numbers of the header that ``HostileSegment/init(_:id:number:created:first:chain:_:)`` takes by themselves.
  struct Start {
    var number: UInt64 = 1
    var created: Int64 = 0
    var first: UInt64 = 1
    var chain = ChainHash.zero
    var fields = HostileSegment.HeaderFields()
  }

  /// One change for each field of a segment's header.
  static let ofSegments: [@Sendable (inout Start, UInt64) -> Void] = [
    { $0.number = $1 }, { $0.created = Int64(bitPattern: $1) }, { $0.first = $1 }, { $0.chain = hash($1) },
    { $0.fields.version = .init(clamping: $1) }, { $0.fields.length = .init(clamping: $1) },
    { $0.fields.reserved = .init(clamping: $1) }, { $0.fields.originLength = .init(clamping: $1) },
    { $0.fields.nameLength = .init(clamping: $1) },
  ]

  /// One change for each field of a block's header.
  static let ofBlocks: [@Sendable (inout HostileSegment.BlockFields, UInt64) -> Void] = [
    { $0.storedLength = .init(clamping: $1) }, { $0.contentLength = .init(clamping: $1) },
    { $0.codec = .init(clamping: $1) }, { $0.flags = .init(clamping: $1) }, { $0.reserved = .init(clamping: $1) },
    { $0.contentOffset = $1 }, { $0.durable = $1 }, { $0.chain = hash($1) },
    { $0.reservedAtEnd = .init(clamping: $1) },
    {
      $0.codec = 1
      $0.contentLength = .init(clamping: $1)
    },
  ]

  static let numbers: [UInt64] =
    HostileTrails.numbers + [
      7, 8, 87, 88, 95, 96, 97, 511, 512, 513, 1 << 15, 1 << 16 - 1, 1 << 20, 1 << 26, 1 << 26 + 16, 1 << 30,
      1 << 30 + 16, 1 << 30 + 17, 1 << 32 - 1, UInt64(bitPattern: .min + 1),
    ]

  /// The number of segments that ``segment(_:_:)`` makes.
  package static var count: Int { (ofSegments.count + ofBlocks.count) * numbers.count }

  /// Segment `n`: every field with every number, one at a time.
  package static func segment(_ name: TrailName, _ n: Int) -> HostileSegment {
    let (field, number) = (n / numbers.count, numbers[n % numbers.count])
    var start = Start()
    var fields = HostileSegment.BlockFields()
    if field < ofSegments.count {
      ofSegments[field](&start, number)
    } else {
      ofBlocks[field - ofSegments.count](&fields, number)
    }
    var records = HostileRecords()
    let first = start.first
    records.begin(first, clock: 1)
    records.marker("x")
    records.commit(first, changes: 0)
    var segment = HostileSegment(
      name, number: start.number, created: start.created, first: first, chain: start.chain, start.fields)
    segment.block(records.bytes, HostileSegment.Flags.border, fields)
    segment.seal()
    return segment
  }

  private static func hash(_ number: UInt64) -> ChainHash {
    let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
    return ChainHash(bytes + bytes + bytes + bytes) ?? .zero
  }
}
