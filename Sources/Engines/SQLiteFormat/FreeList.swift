/// A page of the list of free pages: a trunk, which names other free pages and the next trunk.
///
/// Source: https://sqlite.org/fileformat2.html#the_freelist
package struct FreeListTrunk {
  private let page: PageBytes
  /// The next trunk; 0 at the end of the list.
  package let next: UInt32
  package let count: Int

  package init(_ page: PageBytes, _ layout: PageLayout) throws(FormatError) {
    self.page = page
    next = try page.uint32(at: 0)
    let stored = try page.uint32(at: 4)
    guard Int64(stored) <= Int64(layout.usable / 4 - 2), page.bytes.count >= layout.usable else {
      throw page.error("the number of free pages", at: 4)
    }
    count = Int(stored)
  }

  /// Returns one of the free pages that the trunk names.
  package func leaf(_ index: Int) throws(FormatError) -> UInt32 {
    guard index >= 0, index < count else { throw page.error("free page \(index)", at: 4) }
    return try page.uint32(at: 8 + 4 * index)
  }
}

/// The list of all free pages of a database.
package enum FreeList {
  /// Calls `body` with the number of each free page, trunks too.
  ///
  /// - Throws: ``FormatError`` if the list has another length than the header says, so a circle also ends.
  package static func forEach(
    _ header: DatabaseHeader, pageCount: UInt32, page: (UInt32) throws(FormatError) -> PageBytes,
    _ body: (UInt32) -> Void
  ) throws(FormatError) {
    var rest = Int64(header.freeListCount)
    var next = header.freeListTrunk
    func wrong(_ what: String) -> FormatError { FormatError(page: next, offset: 0, what: what) }
    while next != 0 {
      guard next >= 2, next <= pageCount else { throw wrong("a trunk page outside of the database") }
      let trunk = try FreeListTrunk(try page(next), header.layout)
      rest -= 1 + Int64(trunk.count)
      guard rest >= 0 else { throw wrong("more free pages than the header says") }
      body(next)
      for index in 0..<trunk.count {
        let leaf = try trunk.leaf(index)
        guard leaf >= 2, leaf <= pageCount else { throw wrong("a free page outside of the database") }
        body(leaf)
      }
      next = trunk.next
    }
    guard rest == 0 else { throw wrong("fewer free pages than the header says") }
  }
}
