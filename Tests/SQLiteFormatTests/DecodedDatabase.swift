import Changes
import SQLiteFormat

/// A database that is read by the decoder alone. Each page has memory of its own, so that AddressSanitizer finds any
/// load beyond its end.
final class DecodedDatabase {
  /// The greatest depth of a tree that SQLite allows.
  private static let depthMax = 20

  let header: DatabaseHeader
  var layout: PageLayout { header.layout }
  let pageCount: UInt32
  private var pages: [UnsafeMutableRawBufferPointer] = []
  /// The pages that a walk has passed, with their use.
  private(set) var used: [UInt32: String] = [:]

  /// - Parameter overlay: Pages that replace those of the file.
  init(_ file: [UInt8], overlay: [UInt32: [UInt8]] = [:], pageCount: UInt32? = nil) throws {
    let first = overlay[1] ?? file
    header = try first.withUnsafeBytes { bytes throws in try DatabaseHeader(PageBytes(number: 1, bytes: bytes)) }
    let size = header.layout.pageSize
    self.pageCount = pageCount ?? UInt32(file.count / size)
    for number in 1...max(1, self.pageCount) {
      let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 1)
      let start = (Int(number) - 1) * size
      if let page = overlay[number] {
        memory.copyBytes(from: page)
      } else if start + size <= file.count {
        memory.copyBytes(from: file[start..<start + size])
      } else {
        memory.initializeMemory(as: UInt8.self, repeating: 0)
      }
      pages.append(memory)
    }
  }

  deinit { for page in pages { page.deallocate() } }

  func page(_ number: UInt32) throws(FormatError) -> PageBytes {
    guard number >= 1, number <= pages.count else {
      throw FormatError(page: number, offset: 0, what: "a page outside of the database")
    }
    return PageBytes(number: number, bytes: UnsafeRawBufferPointer(pages[Int(number) - 1]))
  }

  private func use(_ number: UInt32, _ what: String) throws(FormatError) {
    if let former = used.updateValue(what, forKey: number) {
      throw FormatError(page: number, offset: 0, what: "a page of \(former) in \(what)")
    }
  }

  private func record(_ page: PageBytes, _ payload: CellPayload, _ name: String) throws(FormatError) -> [Value] {
    var bytes = ByteWriter(capacity: 64)
    try payload.append(from: page, layout, pageCount: pageCount, to: &bytes) { number throws(FormatError) in
      try self.use(number, "overflow of \(name)")
      return try self.page(number)
    }
    let whole = PageBytes(number: page.number, bytes: bytes.bytes)
    var values = try RecordValues(whole)
    var row: [Value] = []
    while let value = try values.next() { row.append(try value.value(in: whole, header.encoding)) }
    return row
  }

  /// Calls `body` with each row of a tree in the order of its keys. The rowid is nil in an index.
  func forEachRow(root: UInt32, _ name: String, _ body: (Int64?, [Value]) throws -> Void) throws {
    try walk(root, name, depth: 0, body)
  }

  private func walk(_ number: UInt32, _ name: String, depth: Int, _ body: (Int64?, [Value]) throws -> Void) throws {
    try use(number, name)
    guard depth < Self.depthMax else { throw FormatError(page: number, offset: 0, what: "a tree that is too deep") }
    let tree = try TreePage(try page(number), layout)
    for index in 0..<tree.childCount {
      try walk(try tree.child(index), name, depth: depth + 1, body)
      guard index < tree.cellCount else { continue }
      if tree.kind == .tableInterior {
        _ = try tree.lastRowid(index)
      } else {
        try body(nil, try record(tree.page, try tree.separator(index), name))
      }
    }
    guard tree.kind.isLeaf else { return }
    for index in 0..<tree.cellCount {
      if tree.kind == .tableLeaf {
        let (rowid, payload) = try tree.row(index)
        guard try tree.rowid(index) == rowid else { throw FormatError(page: number, offset: index, what: "rowid") }
        try body(rowid, try record(tree.page, payload, name))
      } else {
        try body(nil, try record(tree.page, try tree.entry(index), name))
      }
    }
  }

  func rows(root: UInt32, _ name: String) throws -> [(rowid: Int64?, values: [Value])] {
    var rows: [(rowid: Int64?, values: [Value])] = []
    try forEachRow(root: root, name) { rows.append(($0, $1)) }
    return rows
  }

  /// The tables and indexes of the schema, with their root pages.
  func roots() throws -> [(type: String, name: String, root: UInt32)] {
    try rows(root: 1, "sqlite_schema").compactMap { _, values in
      guard values.count == 5, case .integer(let root) = values[3], root > 0, root <= Int64(UInt32.max) else {
        return nil
      }
      return (values[0].string, values[1].string, UInt32(root))
    }
  }

  /// Reads the list of free pages.
  func readFreePages() throws -> Int {
    var free: [UInt32] = []
    try FreeList.forEach(header, pageCount: pageCount) { number throws(FormatError) in
      try self.page(number)
    } _: {
      free.append($0)
    }
    for page in free { try use(page, "free pages") }
    return free.count
  }

  /// The pages that belong to no tree, no chain, no list and no pointer map. A sound database has none.
  func unknownPages() -> [UInt32] {
    (1...pageCount).filter {
      used[$0] == nil && $0 != layout.lockPage && !(header.hasPointerMap && layout.isPointerMap($0))
    }
  }
}
