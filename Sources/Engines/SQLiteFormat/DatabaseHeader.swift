/// The first 100 bytes of a database file.
///
/// Source: https://sqlite.org/fileformat2.html#the_database_header
///
/// ```swift
/// let header = try DatabaseHeader(PageBytes(number: 1, bytes: firstPage))
/// header.layout.pageSize   // 4096
/// ```
package struct DatabaseHeader: Equatable, Sendable {
  package static let size = 100
  private static let magic: [UInt8] = Array("SQLite format 3\0".utf8)

  package let layout: PageLayout
  /// Whether the file is in WAL mode.
  package let isWAL: Bool
  /// The number of transactions, counted only when they write page 1.
  package let changeCounter: UInt32
  /// The number of pages. Older versions of SQLite leave it out of date: see ``hasPageCount``.
  package let pageCount: UInt32
  package let hasPageCount: Bool
  /// The first trunk page of the list of free pages; 0 if no page is free.
  package let freeListTrunk: UInt32
  package let freeListCount: UInt32
  package let schemaCookie: UInt32
  /// The schema format, 1 to 4; 0 if the database has no schema yet.
  package let schemaFormat: UInt32
  package let encoding: TextEncoding
  /// The largest root page if the database has auto_vacuum; 0 otherwise.
  package let largestRoot: UInt32
  package let isIncremental: Bool

  package var hasPointerMap: Bool { largestRoot != 0 }

  package init(_ page: PageBytes) throws(FormatError) {
    let magic = try page.slice(0..<Self.magic.count)
    guard magic.elementsEqual(Self.magic) else { throw page.error("no database: the magic text", at: 0) }
    let size = try page.uint16(at: 16)
    guard let layout = PageLayout(pageSize: size == 1 ? 65536 : size, reserved: Int(try page.byte(at: 20))) else {
      throw page.error("the page size or the reserved bytes", at: 16)
    }
    self.layout = layout
    let versions = (try page.byte(at: 18), try page.byte(at: 19))
    guard (1...2).contains(versions.0), (1...2).contains(versions.1) else { throw page.error("the version", at: 18) }
    isWAL = versions.1 == 2
    guard try page.byte(at: 21) == 64, try page.byte(at: 22) == 32, try page.byte(at: 23) == 32 else {
      throw page.error("the payload fractions", at: 21)
    }
    changeCounter = try page.uint32(at: 24)
    pageCount = try page.uint32(at: 28)
    freeListTrunk = try page.uint32(at: 32)
    freeListCount = try page.uint32(at: 36)
    schemaCookie = try page.uint32(at: 40)
    schemaFormat = try page.uint32(at: 44)
    guard schemaFormat <= 4 else { throw page.error("the schema format", at: 44) }
    largestRoot = try page.uint32(at: 52)
    let stored = try page.uint32(at: 56)
    // A database without a schema has no encoding yet.
    guard let encoding = TextEncoding(rawValue: stored == 0 ? 1 : stored) else {
      throw page.error("the text encoding", at: 56)
    }
    self.encoding = encoding
    isIncremental = try page.uint32(at: 64) != 0
    hasPageCount = try page.uint32(at: 92) == changeCounter && pageCount != 0
  }
}
