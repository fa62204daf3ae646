import Changes

/// The place of a payload: the bytes on the page of its cell, and the first of its overflow pages.
///
/// Source: https://sqlite.org/fileformat2.html#cell_payload_overflow_pages
package struct CellPayload: Equatable, Sendable {
  /// The size of the whole payload in bytes. SQLite allows less than 2^31.
  package let length: Int
  /// The offsets of the first bytes on the page of the cell.
  package let local: Range<Int>
  /// The first overflow page; 0 if the page of the cell has the whole payload.
  package let overflow: UInt32

  package static let lengthMax = 0x7fff_ffff

  init(_ page: PageBytes, at offset: Int, length: UInt64, _ kind: PageKind, _ layout: PageLayout) throws(FormatError) {
    guard length <= UInt64(Self.lengthMax) else { throw page.error("the length of a payload", at: offset) }
    self.length = Int(length)
    let count = layout.local(of: self.length, kind)
    let isWhole = count == self.length
    guard offset <= layout.usable - count - (isWhole ? 0 : 4) else {
      throw page.error("a payload beyond the end of the page", at: offset)
    }
    local = offset..<offset + count
    guard !isWhole else {
      overflow = 0
      return
    }
    overflow = try page.uint32(at: offset + count)
    guard overflow >= 2 else { throw page.error("the first overflow page", at: offset + count) }
  }

  /// Appends the whole payload to `payload`.
  ///
  /// - Parameter page: The page of the cell.
  /// - Parameter pageCount: The pages of the database, which bound the length of the chain.
  /// - Parameter overflowPage: Returns an overflow page. Its bytes are used only until the next call.
  package func append(
    from page: PageBytes, _ layout: PageLayout, pageCount: UInt32, to payload: inout ByteWriter,
    overflowPage: (UInt32) throws(FormatError) -> PageBytes
  ) throws(FormatError) {
    payload.append(try page.slice(local))
    var rest = length - local.count
    guard rest > 0 else { return }
    guard (rest - 1) / layout.overflowCapacity < Int(pageCount) else {
      throw page.error("a payload that is larger than the database", at: local.lowerBound)
    }
    payload.reserve(min(rest, 1 << 20))
    var (next, former) = (overflow, page)
    while rest > 0 {
      guard next >= 2, next <= pageCount else { throw former.error("overflow page \(next)", at: 0) }
      let link = OverflowPage(try overflowPage(next), layout)
      let count = min(rest, layout.overflowCapacity)
      payload.append(try link.page.slice(4..<4 + count))
      rest -= count
      (next, former) = (rest > 0 ? try link.next : 0, link.page)
    }
  }
}

/// A page with bytes of a payload that did not fit on the page of its cell.
package struct OverflowPage {
  package let page: PageBytes
  private let layout: PageLayout

  package init(_ page: PageBytes, _ layout: PageLayout) {
    self.page = page
    self.layout = layout
  }

  /// The next page of the chain; 0 at its end.
  package var next: UInt32 { get throws(FormatError) { try page.uint32(at: 0) } }
}
