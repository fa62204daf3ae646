import Changes
import SQLiteFormat
import TestServers
import Testing

@testable import SQLiteKit

/// Whatever the bytes are, the decoder returns or throws. Under AddressSanitizer, it loads nothing beyond them.
@Suite struct HostileBytesTests {
  /// Changes some bytes, as a disk or an attacker would.
  private static func mutate(_ bytes: inout [UInt8], _ random: inout Seeded) {
    for _ in 0..<[1, 1, 2, 5, 30][random.below(5)] {
      guard !bytes.isEmpty else { return }
      // The headers decide more than the rest.
      let bound = random.below(2) == 0 ? min(bytes.count, 120) : bytes.count
      let place = random.below(bound)
      switch random.below(6) {
      case 0: bytes[place] ^= 1 << UInt8(random.below(8))
      case 1: bytes[place] = [0, 1, 2, 5, 10, 13, 0x7f, 0x80, 0xff][random.below(9)]
      case 2: for index in place..<min(place + 4, bytes.count) { bytes[index] = 0xff }
      case 3: for index in place..<min(place + 9, bytes.count) { bytes[index] = UInt8(random.below(256)) }
      case 4:
        let from = random.below(bytes.count)
        for index in 0..<min(random.below(40), bytes.count - max(from, place)) {
          bytes[place + index] = bytes[from + index]
        }
      default: for index in place..<min(place + 2, bytes.count) { bytes[index] = 0 }
      }
    }
  }

  /// Decodes one page in all ways. Returns whether it is a page of a tree without a fault.
  private static func decode(_ page: PageBytes, _ layout: PageLayout) -> Bool {
    _ = try? FreeListTrunk(page, layout).leaf(3)
    do {
      let tree = try TreePage(page, layout)
      for index in 0..<tree.childCount { _ = try tree.child(index) }
      for index in 0..<tree.cellCount {
        let payload: CellPayload
        switch tree.kind {
        case .tableInterior:
          _ = try tree.lastRowid(index)
          continue
        case .indexInterior: payload = try tree.separator(index)
        case .tableLeaf: payload = try tree.row(index).payload
        case .indexLeaf: payload = try tree.entry(index)
        }
        let local = PageBytes(number: page.number, bytes: try page.slice(payload.local))
        var values = try RecordValues(local)
        while let value = try values.next() { _ = try value.value(in: local, .utf16BigEndian) }
      }
      return true
    } catch { return false }
  }

  private static func walk(_ file: [UInt8], overlay: [UInt32: [UInt8]] = [:], pageCount: UInt32? = nil) {
    guard let database = try? DecodedDatabase(file, overlay: overlay, pageCount: pageCount) else { return }
    for (_, name, root) in (try? database.roots()) ?? [] { _ = try? database.rows(root: root, name) }
    _ = try? database.readFreePages()
  }

  private static func replay(_ log: [UInt8]) -> Int {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: log.count, alignment: 1)
    defer { memory.deallocate() }
    memory.copyBytes(from: log)
    guard var frames = try? WALFrames(UnsafeRawBufferPointer(memory)) else { return 0 }
    var count = 0
    while let next = try? frames.next(), next.page.number > 0 { count += 1 }
    return count
  }

  /// One seed is 1,000 inputs with pages of one size: 1,000 seeds are a million.
  @Test(arguments: Seeds.range(from: 40, reduced: 8))
  func `bytes that were changed are decoded or refused`(seed: UInt64) throws {
    var kind = RandomDatabase.Kind(seed)
    (kind.isWAL, kind.valueMax) = (true, 6000)
    let file = try RandomDatabase(kind)
    try file.database.execute("PRAGMA wal_autocheckpoint = 0")
    for _ in 0..<12 { try file.write() }
    let log = try file.bytes("-wal")
    _ = try file.database.query("PRAGMA wal_checkpoint")
    let bytes = try file.bytes()
    let layout = try #require(PageLayout(pageSize: kind.pageSize, reserved: Int(kind.reserved)))
    var random = Seeded(seed)
    var (sound, refused) = (0, 0)
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: layout.pageSize, alignment: 1)
    defer { memory.deallocate() }
    for input in 0..<1000 {
      switch input % 100 {
      case 0..<94:
        let number = random.below(bytes.count / layout.pageSize)
        var page = Array(bytes[number * layout.pageSize..<(number + 1) * layout.pageSize])
        Self.mutate(&page, &random)
        memory.copyBytes(from: page)
        let decoded = Self.decode(PageBytes(number: UInt32(number + 1), bytes: UnsafeRawBufferPointer(memory)), layout)
        if decoded { sound += 1 } else { refused += 1 }
        _ = try? DatabaseHeader(PageBytes(number: 1, bytes: UnsafeRawBufferPointer(memory)))
      case 94..<97:
        var part = Array(log.prefix(WALHeader.size + 3 * (WALFrame.size + layout.pageSize)))
        Self.mutate(&part, &random)
        _ = Self.replay(part)
      default:
        var whole = bytes
        for _ in 0..<3 {
          let start = random.below(bytes.count / layout.pageSize) * layout.pageSize
          var page = Array(whole[start..<start + layout.pageSize])
          Self.mutate(&page, &random)
          whole.replaceSubrange(start..<start + layout.pageSize, with: page)
        }
        Self.walk(whole)
      }
    }
    #expect(sound > 0 && refused > 0, "\(kind)")
  }

  @Test func `a page that is too short is an error`() throws {
    let layout = try #require(PageLayout(pageSize: 512, reserved: 0))
    for count in [0, 1, 100, 511] {
      let bytes = [UInt8](repeating: 13, count: count)
      bytes.withUnsafeBytes { buffer in
        #expect(throws: FormatError.self) { try TreePage(PageBytes(number: 2, bytes: buffer), layout) }
        #expect(throws: FormatError.self) { try DatabaseHeader(PageBytes(number: 1, bytes: buffer)) }
      }
    }
  }

  /// Reads the payload of a row whose overflow begins at page 2. `next` is the page after page 2.
  private static func payload(length: [UInt8], pageCount: UInt32, next: UInt8) throws -> Int {
    let layout = try #require(PageLayout(pageSize: 512, reserved: 0))
    var page = [UInt8](repeating: 0, count: 512)
    (page[0], page[4], page[9]) = (13, 1, 0x40)
    page.replaceSubrange(0x40..<0x40 + length.count, with: length)
    var chained = [UInt8](repeating: 0, count: 512)
    chained[3] = next
    // The cell has 39 bytes of the payload, and more if the last overflow page is then full.
    let number = length.count == 2 ? 1000 : Int(CellPayload.lengthMax)
    let more = (number - 39) % 508
    page[0x40 + length.count + 1 + (39 + more <= 477 ? 39 + more : 39) + 3] = 2
    return try page.withUnsafeBytes { cells in
      let tree = try TreePage(PageBytes(number: 3, bytes: cells), layout)
      return try chained.withUnsafeBytes { chained in
        var whole = ByteWriter(capacity: 16)
        try tree.row(0).payload.append(from: tree.page, layout, pageCount: pageCount, to: &whole) {
          number throws(FormatError) in PageBytes(number: number, bytes: chained)
        }
        return whole.count
      }
    }
  }

  /// The length of a payload is bounded by the database, so a cell cannot ask for 2 GB of a small file.
  @Test func `a payload larger than the database, and a chain that ends early, are errors`() throws {
    let thousand: [UInt8] = [0x87, 0x68]
    #expect(try Self.payload(length: thousand, pageCount: 4, next: 4) == 1000)
    for next in [0, 1, 5] as [UInt8] {
      #expect(throws: FormatError.self) { try Self.payload(length: thousand, pageCount: 4, next: next) }
    }
    #expect(throws: FormatError.self) { try Self.payload(length: thousand, pageCount: 1, next: 4) }
    let most: [UInt8] = [0x87, 0xff, 0xff, 0xff, 0x7f]
    #expect(throws: FormatError.self) { try Self.payload(length: most, pageCount: 1000, next: 4) }
  }
}
