/// The kind of a page of a b-tree, as its first byte has it.
package enum PageKind: UInt8, Sendable {
  case indexInterior = 2
  case tableInterior = 5
  case indexLeaf = 10
  case tableLeaf = 13

  package var isLeaf: Bool { self == .indexLeaf || self == .tableLeaf }
  /// Whether the page belongs to a table with rowids. The tree of a table WITHOUT ROWID is an index.
  package var isTable: Bool { self == .tableLeaf || self == .tableInterior }
}
