/// The cells of pages that have children.
extension TreePage {
  /// The number of children: one for each cell, and the last one.
  package var childCount: Int { kind.isLeaf ? 0 : cellCount + 1 }

  /// Returns a child, in the order of the keys.
  package func child(_ index: Int) throws(FormatError) -> UInt32 {
    if index == cellCount, !kind.isLeaf { return rightChild }
    guard !kind.isLeaf else { throw page.error("a leaf in place of a page with children", at: 0) }
    let offset = try cell(index)
    let child = try page.uint32(at: offset)
    guard child >= 2 else { throw page.error("child \(index)", at: offset) }
    return child
  }

  /// Returns the largest rowid in the child of a cell.
  package func lastRowid(_ index: Int) throws(FormatError) -> Int64 {
    var offset = try leafCell(index, of: .tableInterior) + 4
    return Int64(bitPattern: try page.varint(at: &offset, before: layout.usable))
  }

  /// Returns the place of the key between two children of an index. A table WITHOUT ROWID has rows there.
  package func separator(_ index: Int) throws(FormatError) -> CellPayload {
    var offset = try leafCell(index, of: .indexInterior) + 4
    let length = try page.varint(at: &offset, before: layout.usable)
    return try CellPayload(page, at: offset, length: length, kind, layout)
  }
}
