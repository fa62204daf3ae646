import Changes
import CodecKit

/// The header of a segment's index (`docs/reference/trail-index.md`): stretches of the segment, its tables, and the
/// places of the pages with hashes.
struct SegmentIndex: Equatable {
  /// A run of whole blocks.
  struct Stretch: Equatable {
    var file: UInt64
    var content: UInt64
    /// How many stretches before this one the transaction begins that is open at the start; 0 if none is open.
    var back: Int
    var hasSchema: Bool
    /// The commit times of the transactions with records in the stretch, µs since 1970 UTC.
    var times: ClosedRange<Int64>
  }

  /// The segment to which an index belongs.
  struct Identity: Equatable {
    var trail: TrailID
    var segment: UInt64
    var bytes: UInt64
    var chain: ChainHash
  }

  /// A page of entries: its first hash, and its place in the file.
  struct Page: Equatable {
    var first: UInt64
    var offset: UInt64
    var length: Int
  }

  /// How the entries are written. With no hash bits, the entries are left out.
  struct Widths: Equatable {
    var hash = 0
    var remainder = 0
    var group = 0
    var shift = 0
  }

  static let magic: UInt64 = 0x5844_494e_5249_4143  // CAIRNIDX
  static let version: UInt16 = 1
  static let fixedLength = 88
  static let lengthMax = 16 << 20
  static let pageCount = 512
  static let tablesBytesMax = 64 << 10

  var identity: Identity
  var widths = Widths()
  var entryCount = 0
  var stretches: [Stretch] = []
  @ByBytes var tables: [String] = []
  var hasAllTables = true
  var pages: [Page] = []

  /// The commit times of all transactions; nil for a segment without transactions.
  var times: ClosedRange<Int64>? {
    guard let first = stretches.first else { return nil }
    return stretches.dropFirst().reduce(first.times) {
      min($0.lowerBound, $1.times.lowerBound)...max($0.upperBound, $1.times.upperBound)
    }
  }

  // MARK: Encoding

  /// Returns the file of an index with these entries, which must be sorted. Leaves out tables and entries if there is
  /// no room for them.
  ///
  /// - Parameter budget: The size of the file in bytes, which only the list of stretches can exceed.
  static func encoded(_ index: SegmentIndex, _ entries: IndexEntries, budget: Int) -> [UInt8] {
    var index = index
    var plain = index.header().count
    if plain > budget {
      (index.tables, index.hasAllTables) = ([], false)
      plain = index.header().count
    }
    let count = entries.all.count
    // A page takes about ten bytes of the header, and four of its checksum.
    let room = budget - plain - (count / pageCount + 1) * 14
    index.widths =
      entries.isTooLarge
      ? Widths() : Widths(count: count, stretches: index.stretches.count, bits: Double(room) * 8)
    var pages: [[UInt8]] = []
    if index.widths.hash > 0 { (index.pages, pages, index.entryCount) = index.packed(entries) }
    let bytes = index.header() + pages.flatMap(\.self)
    guard bytes.count > budget else { return bytes }
    (index.widths, index.pages, index.entryCount) = (Widths(), [], 0)
    return index.header()
  }

  /// Returns the file for a segment that cannot be indexed. It has no stretches, so a search reads the segment.
  static func empty(_ identity: Identity) -> [UInt8] { SegmentIndex(identity).header() }

  private func packed(_ entries: IndexEntries) -> ([Page], [[UInt8]], Int) {
    let drop = UInt64(64 - widths.hash)
    var all: [(hash: UInt64, group: UInt64)] = []
    all.reserveCapacity(entries.all.count)
    for entry in entries.all {
      let next = (hash: entry.hash >> drop, group: UInt64(entry.stretch) >> UInt64(widths.shift))
      if let last = all.last, last == next { continue }
      all.append(next)
    }
    // Entries of one shortened hash may come from different hashes, so their groups are in no order yet.
    var start = 0
    while start < all.count {
      var end = start + 1
      while end < all.count, all[end].hash == all[start].hash { end += 1 }
      if end - start > 1 { all[start..<end].sort { $0.group < $1.group } }
      start = end
    }
    var kept = 0
    for index in all.indices where index == 0 || all[index] != all[kept - 1] {
      all[kept] = all[index]
      kept += 1
    }
    all.removeLast(all.count - kept)
    var pages: [Page] = []
    var bytes: [[UInt8]] = []
    var offset: UInt64 = 0
    for begin in stride(from: 0, to: all.count, by: Self.pageCount) {
      var bits = BitWriter()
      var last = all[begin].hash
      for entry in all[begin..<min(begin + Self.pageCount, all.count)] {
        bits.append(ones: (entry.hash - last) >> UInt64(widths.remainder))
        bits.append(entry.hash - last, bits: widths.remainder)
        bits.append(entry.group, bits: widths.group)
        last = entry.hash
      }
      bits.finish()
      var page = bits.bytes
      let checksum = CRC32C.of(page)
      withUnsafeBytes(of: checksum.littleEndian) { page += $0 }
      pages.append(Page(first: all[begin].hash, offset: offset, length: page.count))
      offset += UInt64(page.count)
      bytes.append(page)
    }
    return (pages, bytes, all.count)
  }

  private func header() -> [UInt8] {
    var lists = ByteWriter(capacity: 4096)
    lists.appendVarint(UInt64(stretches.count))
    var last = Stretch(file: 0, content: 0, back: 0, hasSchema: false, times: 0...0)
    for stretch in stretches {
      lists.appendVarint(stretch.file - last.file)
      lists.appendVarint(stretch.content - last.content)
      lists.appendVarint(UInt64(stretch.back) << 1 | (stretch.hasSchema ? 1 : 0))
      lists.appendZigzag(stretch.times.lowerBound - last.times.lowerBound)
      lists.appendVarint(UInt64(stretch.times.upperBound - stretch.times.lowerBound))
      last = stretch
    }
    lists.appendVarint(UInt64(tables.count))
    for table in tables { lists.appendString(table) }
    lists.append(hasAllTables ? 1 : 0)
    lists.appendVarint(UInt64(pages.count))
    var first: UInt64 = 0
    for page in pages {
      lists.appendVarint(page.first - first)
      lists.appendVarint(UInt64(page.length))
      first = page.first
    }
    var out = ByteWriter(capacity: 4096)
    out.appendFixed(Self.magic)
    out.appendFixed(Self.version)
    for width in [widths.hash, widths.remainder, widths.group, widths.shift] { out.append(UInt8(width)) }
    out.appendFixed(UInt16(0))
    out.appendFixed(UInt32(Self.fixedLength + lists.count + 4))
    out.appendFixed(UInt32(entryCount))
    out.append(identity.trail.bytes)
    out.appendFixed(identity.segment)
    out.appendFixed(identity.bytes)
    out.append(identity.chain.bytes)
    out.append(lists.bytes)
    out.appendFixed(CRC32C.of(out.bytes))
    return Array(out.bytes)
  }

  // MARK: Decoding

  /// Returns the length of a header from its first 20 bytes; nil if they are not those of an index of this version.
  static func length(of start: [UInt8]) -> Int? {
    start.withUnsafeBytes { bytes -> Int? in
      guard bytes.count >= 20, bytes.loadUnaligned(as: UInt64.self).littleEndian == magic,
        UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt16.self)) == version
      else { return nil }
      let length = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 16, as: UInt32.self)))
      return (fixedLength + 4...lengthMax).contains(length) ? length : nil
    }
  }

  /// Decodes a header; nil if it is damaged.
  init?(header: [UInt8]) {
    guard Self.length(of: header) == header.count else { return nil }
    let decoded = header.withUnsafeBytes { bytes -> SegmentIndex? in
      let checksum = bytes.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self).littleEndian
      guard CRC32C.of(UnsafeRawBufferPointer(rebasing: bytes.dropLast(4))) == checksum else { return nil }
      return try? Self.decode(ByteReader(UnsafeRawBufferPointer(rebasing: bytes.dropLast(4))), length: bytes.count)
    }
    guard let decoded else { return nil }
    self = decoded
  }

  private init(_ identity: Identity, _ widths: Widths, _ entryCount: Int) {
    (self.identity, self.widths, self.entryCount) = (identity, widths, entryCount)
  }

  init(_ identity: Identity) { self.identity = identity }

  private static func decode(_ reader: ByteReader, length: Int) throws -> SegmentIndex? {
    var r = reader
    _ = try r.read(10)
    let widths = Widths(
      hash: Int(try r.readByte()), remainder: Int(try r.readByte()), group: Int(try r.readByte()),
      shift: Int(try r.readByte()))
    guard widths.isPossible else { return nil }
    _ = try r.read(6)
    let count = Int(try r.readFixed(UInt32.self))
    guard let trail = TrailID(try r.read(16)) else { return nil }
    let (segment, bytes) = (try r.readFixed(UInt64.self), try r.readFixed(UInt64.self))
    guard let chain = ChainHash(try r.read(32)), NumberBounds.isNumber(bytes) else { return nil }
    var index = SegmentIndex(Identity(trail: trail, segment: segment, bytes: bytes, chain: chain), widths, count)
    var last = Stretch(file: 0, content: 0, back: 0, hasSchema: false, times: 0...0)
    for number in 0..<(try r.readCount()) {
      let (file, content) = (try r.readVarint(), try r.readVarint())
      let (back, first, span) = (try r.readVarint(), try r.readZigzag(), try r.readVarint())
      let low = last.times.lowerBound.addingReportingOverflow(first)
      let high = low.partialValue.addingReportingOverflow(Int64(clamping: span))
      guard file <= bytes, content <= NumberBounds.numbers, !low.overflow, !high.overflow,
        back >> 1 <= UInt64(number), number == 0 || file > 0
      else { return nil }
      last = Stretch(
        file: last.file + file, content: last.content + content, back: Int(back >> 1), hasSchema: back & 1 == 1,
        times: low.partialValue...high.partialValue)
      guard last.file < bytes, last.content <= NumberBounds.numbers else { return nil }
      index.stretches.append(last)
    }
    for _ in 0..<(try r.readCount()) { index.tables.append(try r.readString()) }
    index.hasAllTables = try r.readByte() == 1
    var (hash, offset) = (UInt64(0), UInt64(length))
    for _ in 0..<(try r.readCount()) {
      let step = hash.addingReportingOverflow(try r.readVarint())
      let size = try r.readVarint()
      guard !step.overflow, size >= 4, size <= 1 << 20 else { return nil }
      hash = step.partialValue
      index.pages.append(Page(first: hash, offset: offset, length: Int(size)))
      offset += size
    }
    return index
  }
}

extension SegmentIndex.Widths {
  /// Chooses the widths for a number of entries, so that they fit into some bits.
  init(count: Int, stretches: Int, bits: Double) {
    self.init()
    guard count > 0, stretches > 0 else { return }
    let whole = Self.bits(for: UInt64(stretches - 1))
    // Rice coding adds about 1.7 bits to each entry.
    let each = Int(bits / Double(count) - 1.7)
    guard each >= 2 else { return }
    let more = min(18, max(2, each - whole))
    shift = max(0, whole - (each - more))
    group = whole - shift
    hash = min(44, Self.bits(for: UInt64(count)) + more)
    remainder = max(0, Self.bits(for: (1 << UInt64(hash)) / UInt64(count)) - 1)
  }

  private static func bits(for value: UInt64) -> Int { 64 - value.leadingZeroBitCount }

  var isPossible: Bool { hash <= 44 && remainder <= hash && group <= 32 && shift <= 32 }
}

extension SegmentIndex {
  /// The pages that may have entries with a hash.
  func pages(of hash: UInt64) -> [Page] {
    guard widths.hash > 0 else { return [] }
    let wanted = hash >> UInt64(64 - widths.hash)
    // The last page that begins at or before the hash, and those before it that begin with the same hash.
    guard let last = pages.lastIndex(where: { $0.first <= wanted }) else { return [] }
    var first = last
    while pages[first].first == wanted, first > 0 { first -= 1 }
    return Array(pages[first...last])
  }

  /// Adds the stretches that a page gives for a hash. Returns false if the page is damaged.
  func add(_ hash: UInt64, in page: Page, _ bytes: [UInt8], to found: inout Set<Int>) -> Bool {
    guard bytes.count == page.length, bytes.count > 4 else { return false }
    let sum = bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self).littleEndian }
    guard CRC32C.of(Array(bytes.dropLast(4))) == sum else { return false }
    let wanted = hash >> UInt64(64 - widths.hash)
    var reader = BitReader(bytes.dropLast(4))
    var last = page.first
    let isLast = page == pages.last
    let count = isLast ? max(0, entryCount - (pages.count - 1) * Self.pageCount) : Self.pageCount
    for _ in 0..<min(count, Self.pageCount) {
      guard let q = reader.ones(), let r = reader.next(bits: widths.remainder),
        let group = reader.next(bits: widths.group)
      else { return false }
      let step = last.addingReportingOverflow(q << UInt64(widths.remainder) | r)
      guard !step.overflow else { return false }
      last = step.partialValue
      if last > wanted { return true }
      guard last == wanted else { continue }
      let start = group << UInt64(widths.shift)
      guard start < UInt64(stretches.count) else { return false }
      found.formUnion(Int(start)..<min(Int(start) + 1 << widths.shift, stretches.count))
    }
    return true
  }
}
