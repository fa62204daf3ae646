/// One page of a b-tree: its kind, and where its cells are.
///
/// Source: https://sqlite.org/fileformat2.html#b_tree_pages
///
/// ```swift
/// let tree = try TreePage(page, layout)
/// for index in 0..<tree.cellCount where tree.kind == .tableLeaf {
///   let (rowid, payload) = try tree.row(index)
/// }
/// ```
package struct TreePage {
  package let page: PageBytes
  package let layout: PageLayout
  package let kind: PageKind
  package let cellCount: Int
  /// The child with the keys above those of all cells; 0 in a leaf.
  package let rightChild: UInt32
  private let pointers: Int

  /// Reads the header of the page. On page 1, the header of the database is before it.
  package init(_ page: PageBytes, _ layout: PageLayout) throws(FormatError) {
    guard page.bytes.count >= layout.pageSize else { throw page.error("a page that is too short", at: 0) }
    let start = page.number == 1 ? DatabaseHeader.size : 0
    guard let kind = PageKind(rawValue: try page.byte(at: start)) else {
      throw page.error("the kind of the page", at: start)
    }
    self.page = page
    self.layout = layout
    self.kind = kind
    cellCount = try page.uint16(at: start + 3)
    rightChild = kind.isLeaf ? 0 : try page.uint32(at: start + 8)
    pointers = start + (kind.isLeaf ? 8 : 12)
    guard pointers + 2 * cellCount <= layout.usable else { throw page.error("the number of cells", at: start + 3) }
    guard kind.isLeaf || rightChild >= 2 else { throw page.error("the last child", at: start + 8) }
  }

  /// Returns the offset of a cell; throws if it is outside of the area for cells.
  package func cell(_ index: Int) throws(FormatError) -> Int {
    guard index >= 0, index < cellCount else { throw page.error("cell \(index)", at: pointers) }
    let place = pointers + 2 * index
    let offset = try page.uint16(at: place)
    guard offset >= pointers + 2 * cellCount, offset < layout.usable else {
      throw page.error("the pointer of cell \(index)", at: place)
    }
    return offset
  }
}
