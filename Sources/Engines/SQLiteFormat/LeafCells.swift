/// The cells of leaves. Use each function on pages of its kind only.
extension TreePage {
  /// Returns the rowid of a row of a table, and the place of its record.
  package func row(_ index: Int) throws(FormatError) -> (rowid: Int64, payload: CellPayload) {
    var offset = try leafCell(index, of: .tableLeaf)
    let length = try page.varint(at: &offset, before: layout.usable)
    let rowid = Int64(bitPattern: try page.varint(at: &offset, before: layout.usable))
    return (rowid, try CellPayload(page, at: offset, length: length, kind, layout))
  }

  /// Returns only the rowid of a row.
  package func rowid(_ index: Int) throws(FormatError) -> Int64 {
    var offset = try leafCell(index, of: .tableLeaf)
    _ = try page.varint(at: &offset, before: layout.usable)
    return Int64(bitPattern: try page.varint(at: &offset, before: layout.usable))
  }

  /// Returns the place of a key of an index, or of a row of a table WITHOUT ROWID.
  package func entry(_ index: Int) throws(FormatError) -> CellPayload {
    var offset = try leafCell(index, of: .indexLeaf)
    let length = try page.varint(at: &offset, before: layout.usable)
    return try CellPayload(page, at: offset, length: length, kind, layout)
  }

  func leafCell(_ index: Int, of expected: PageKind) throws(FormatError) -> Int {
    guard kind == expected else { throw page.error("a page of another kind of tree", at: 0) }
    return try cell(index)
  }
}
