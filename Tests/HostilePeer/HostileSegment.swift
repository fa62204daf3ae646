import Changes
import CodecKit

/// A segment of a trail as a hostile peer makes it. Magic, checksums and chain hashes are right, and it holds whatever
/// else the attack wants. It shares no code with the writer of trails (`docs/trail-format.md`).
///
///     var segment = HostileSegment(.init(origin: "evil", name: "x"), number: .max)
///     segment.seal()
///     push(segment.bytes)
package struct HostileSegment {
  package struct Flags {
    package static let none: UInt8 = 0
    package static let border: UInt8 = 1
    package static let seal: UInt8 = 7
  }

  package let name: TrailName
  package let id: TrailID
  package let number: UInt64
  package private(set) var bytes: [UInt8]
  /// Before the segment.
  package let start: ChainHash
  /// The chain hash after the last block.
  package private(set) var chain: ChainHash
  private var contentOffset: UInt64 = 0

  /// Numbers of a segment's header in place of the right ones.
  package struct HeaderFields {
    package var version: UInt16 = 1
    package var length: UInt16 = 512
    package var reserved: UInt32 = 0
    package var originLength: UInt16?
    package var nameLength: UInt16?
    package init() {}
  }

  /// Numbers of a block's header in place of the right ones; nil: the right one.
  package struct BlockFields {
    package var storedLength: UInt32?
    package var contentLength: UInt32?
    package var codec: UInt8?
    package var flags: UInt8?
    package var reserved: UInt16 = 0
    package var contentOffset: UInt64?
    package var durable: UInt64 = 0
    package var chain: ChainHash?
    package var reservedAtEnd: UInt32 = 0
    package init() {}
  }

  package init(
    _ name: TrailName, id: TrailID = HostileSegment.id(7), number: UInt64 = 1, created: Int64 = 1_772_368_200_000_000,
    first: UInt64 = 1, chain: ChainHash = .zero, _ fields: HeaderFields = .init()
  ) {
    (self.name, self.id, self.number, start, self.chain) = (name, id, number, chain, chain)
    var out = ByteWriter(capacity: 512)
    out.appendFixed(UInt64(0x4c52_544e_5249_4143))
    out.appendFixed(fields.version)
    out.appendFixed(fields.length)
    out.appendFixed(fields.reserved)
    out.append(id.bytes)
    out.appendFixed(number)
    out.appendFixed(created)
    out.appendFixed(first)
    out.append(chain.bytes)
    for (part, length) in [(name.origin, fields.originLength), (name.name, fields.nameLength)] {
      out.appendFixed(length ?? UInt16(part.utf8.count))
      out.append(Array(part.utf8))
    }
    // The checksum is where the length says that the header ends.
    while out.count < Int(fields.length) - 4 { out.append(0) }
    out.appendFixed(CRC32C.of(out.bytes))
    bytes = Array(out.bytes)
  }

  package static func id(_ byte: UInt8) -> TrailID { TrailID(Array(repeating: byte, count: 16)).unsafelyUnwrapped }

  /// A block with content that is stored as it is.
  package mutating func block(_ content: [UInt8], _ flags: UInt8 = Flags.border, _ fields: BlockFields = .init()) {
    append(content, contentLength: UInt32(content.count), codec: 0, flags, fields)
    if !content.isEmpty, let hasher = try? SHA256() {
      chain = content.withUnsafeBytes { hasher.chain(before: chain, content: $0) }
    }
    contentOffset += UInt64(content.count)
  }

  package mutating func seal() { block([], Flags.seal) }

  /// A block of stored bytes that claims to unpack to so many. Later blocks have no right chain hash.
  package mutating func packed(_ stored: [UInt8], contentLength: UInt32, _ flags: UInt8 = Flags.border) {
    append(stored, contentLength: contentLength, codec: 1, flags)
    contentOffset += UInt64(contentLength)
  }

  /// Four bytes of zstd for each 128 KiB of zeros.
  package mutating func bomb(contentLength: Int) {
    packed(Self.zeros(contentLength), contentLength: UInt32(contentLength))
  }

  /// A whole transaction with a record of so many zeros, of a kind that readers skip, in one block that is packed small.
  package mutating func largeTransaction(zeros: Int) { largeBlock(zeros: zeros, begins: true, ends: true) }

  /// A block that is packed small, with a record of so many zeros, of a kind that readers skip.
  package mutating func largeBlock(zeros: Int, begins: Bool, ends: Bool) {
    var (begin, commit) = (HostileRecords(), HostileRecords())
    var head = ByteWriter()
    if begins { begin.begin(1) }
    if ends { commit.commit(1, changes: 0) }
    head.append(0xf0)
    head.appendVarint(UInt64(zeros))
    let (before, after) = (begin.bytes + Array(head.bytes), commit.bytes)
    let content = before + Array(repeating: 0, count: zeros) + after
    append(
      Self.zeros(zeros, before: before, after: after), contentLength: UInt32(content.count), codec: 1,
      ends ? Flags.border : Flags.none)
    if let hasher = try? SHA256() { chain = content.withUnsafeBytes { hasher.chain(before: chain, content: $0) } }
    contentOffset += UInt64(content.count)
  }

  /// A frame of zstd with nothing but repeated zeros, between bytes that are not packed. Source: RFC 8878, section 3.1.1.
  package static func zeros(_ count: Int, before: [UInt8] = [], after: [UInt8] = []) -> [UInt8] {
    var out = ByteWriter()
    out.appendFixed(UInt32(0xfd2f_b528))
    out.append(0xa0)  // Single segment, content size in four bytes.
    out.appendFixed(UInt32(before.count + count + after.count))
    func begin(_ size: Int, type: UInt32, isLast: Bool) {
      let header = UInt32(size) << 3 | type << 1 | (isLast ? 1 : 0)
      for shift in [0, 8, 16] { out.append(UInt8(truncatingIfNeeded: header >> UInt32(shift))) }
    }
    if !before.isEmpty {
      begin(before.count, type: 0, isLast: false)
      out.append(before)
    }
    var left = count
    while left > 0 {
      let size = min(left, 128 << 10)
      left -= size
      begin(size, type: 1, isLast: left == 0 && after.isEmpty)
      out.append(0)
    }
    if !after.isEmpty {
      begin(after.count, type: 0, isLast: true)
      out.append(after)
    }
    return Array(out.bytes)
  }

  private mutating func append(
    _ stored: [UInt8], contentLength: UInt32, codec: UInt8, _ flags: UInt8, _ fields: BlockFields = .init()
  ) {
    var head = ByteWriter(capacity: 72)
    head.appendFixed(UInt32(0x4b4c_4243))
    head.appendFixed(fields.storedLength ?? UInt32(stored.count))
    head.appendFixed(fields.contentLength ?? contentLength)
    head.append(fields.codec ?? codec)
    head.append(fields.flags ?? flags)
    head.appendFixed(fields.reserved)
    head.appendFixed(fields.contentOffset ?? contentOffset)
    head.appendFixed(fields.durable)
    head.append((fields.chain ?? chain).bytes)
    head.appendFixed(fields.reservedAtEnd)
    let start = CRC32C.of(head.bytes)
    head.appendFixed(stored.withUnsafeBytes { CRC32C.of($0, continuing: start) })
    bytes += Array(head.bytes) + stored
  }
}

/// Records, encoded as a trail has them.
package struct HostileRecords {
  package private(set) var bytes: [UInt8] = []

  package init() {}

  package mutating func add(_ kind: UInt8, _ encode: (inout ByteWriter) -> Void) {
    var payload = ByteWriter()
    encode(&payload)
    var record = ByteWriter()
    record.append(kind)
    record.appendCounted(payload.bytes)
    bytes += Array(record.bytes)
  }

  package mutating func begin(
    _ number: UInt64, time: Int64 = 1_772_368_200_000_000, clock: UInt64? = nil, flags: TransactionHeader.Flags = [],
    sourcePosition: [UInt8] = [], dependencies: [TransactionHeader.Dependency] = []
  ) {
    add(RecordKind.begin) {
      $0.append(
        TransactionHeader(
          number: number, commitTime: time, clock: clock ?? 1_772_368_200_000_000 + number, flags: flags,
          sourcePosition: sourcePosition, dependencies: dependencies))
    }
  }

  package mutating func commit(_ number: UInt64, changes: UInt64) {
    add(RecordKind.commit) {
      $0.appendVarint(number)
      $0.appendVarint(changes)
    }
  }

  package mutating func schema(_ id: UInt64, _ schema: TableSchema) {
    add(RecordKind.schema) {
      $0.appendVarint(id)
      $0.append(schema)
    }
  }

  package mutating func ddl(_ ddl: DDL) { add(RecordKind.ddl) { $0.append(ddl) } }
  package mutating func refresh(_ id: UInt64, _ event: Refresh.Event) {
    add(RecordKind.refresh) { $0.append(Refresh(schemaID: id, event: event)) }
  }

  package mutating func row(_ id: UInt64, _ values: [Value?]) {
    add(RecordKind.refreshRow) {
      $0.appendVarint(id)
      $0.appendImage(values)
    }
  }

  package mutating func waiting(_ id: UInt64, _ values: [Value?], clock: UInt64, origin: String, number: UInt64) {
    add(RecordKind.waitingRow) {
      $0.appendWaitingRow(schema: id, values, clock: clock, origin: origin, number: number)
    }
  }

  /// `flags` beside those of the images; `replaced` is the version of the row that the change says to replace.
  package mutating func change(
    _ operation: Changes.Operation, _ id: UInt64, before: [Value?]?, after: [Value?]?, flags: UInt8 = 0,
    replaced: (origin: String, clock: UInt64)? = nil
  ) {
    add(RecordKind.change) {
      $0.append(operation.rawValue)
      $0.append((before == nil ? 0 : 1) | (after == nil ? 0 : 2) | flags | (replaced == nil ? 0 : 8))
      $0.appendVarint(id)
      if let replaced {
        $0.appendString(replaced.origin)
        $0.appendVarint(replaced.clock)
      }
      if let before { $0.appendImage(before) }
      if let after { $0.appendImage(after) }
    }
  }

  package mutating func marker(_ text: String) {
    add(RecordKind.marker) {
      $0.append(1)
      $0.appendString(text)
    }
  }
}
