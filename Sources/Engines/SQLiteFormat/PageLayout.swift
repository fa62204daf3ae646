/// The sizes on which the place of each byte of a database depends.
///
/// Source: https://sqlite.org/fileformat2.html#b_tree_pages
package struct PageLayout: Hashable, Sendable {
  package static let pageSizes = 512...65536
  /// The least usable size, which lets four cells with a key of an index fit into each page.
  package static let usableMin = 480

  /// The size of a page in bytes, a power of two.
  package let pageSize: Int
  /// The size of a page without the bytes that an extension of SQLite reserves at its end.
  package let usable: Int

  /// Returns nil if SQLite has no such pages.
  package init?(pageSize: Int, reserved: Int) {
    guard Self.pageSizes.contains(pageSize), pageSize & (pageSize - 1) == 0, reserved >= 0, reserved <= 255,
      pageSize - reserved >= Self.usableMin
    else { return nil }
    self.pageSize = pageSize
    usable = pageSize - reserved
  }

  /// The bytes of a payload that an overflow page has, after the number of the next page.
  package var overflowCapacity: Int { usable - 4 }

  /// The page that SQLite never uses, because locks are on its bytes.
  package var lockPage: UInt32 { UInt32(0x4000_0000 / pageSize + 1) }

  /// Returns whether the page has back pointers in a database with auto_vacuum (ptrmap).
  package func isPointerMap(_ page: UInt32) -> Bool {
    guard page >= 2 else { return false }
    let distance = UInt64(usable / 5 + 1)
    let first = (UInt64(page) - 2) / distance * distance + 2
    // The page after the lock page takes its place.
    return UInt64(page) == (first == UInt64(lockPage) ? first + 1 : first)
  }

  /// The size of the largest payload that is on its page as a whole.
  func localMax(_ kind: PageKind) -> Int { kind == .tableLeaf ? usable - 35 : (usable - 12) * 64 / 255 - 23 }
  /// The number of bytes that remain on the page of a cell when the others are on overflow pages, at least.
  var localMin: Int { (usable - 12) * 32 / 255 - 23 }

  /// Returns how many bytes of a payload are on the page of its cell.
  func local(of length: Int, _ kind: PageKind) -> Int {
    let most = localMax(kind)
    guard length > most else { return length }
    let surplus = localMin + (length - localMin) % overflowCapacity
    return surplus <= most ? surplus : localMin
  }
}
