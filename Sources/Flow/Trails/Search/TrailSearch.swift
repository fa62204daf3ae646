import Changes
import SystemKit

/// Finds records of a trail by table, key, column, time and node. The indexes of segments say which blocks may have
/// them. One thread uses a search.
///
///     let search = try TrailSearch(folder: folder, filter: RowFilter(table: "item", key: "7"))
///     try search.run(newestFirst: true) { hit in count += 1 } done: { .more }
package final class TrailSearch {
  /// The bounds of a search; nil for no bound.
  ///
  ///     var bounds = TrailSearch.Bounds()
  ///     bounds.since = 1_700_000_000_000_000   // transactions from then on
  package struct Bounds: Sendable {
    /// Transactions that were committed at or after this time, µs since 1970 UTC.
    package var since: Int64?
    /// Transactions that were committed before this time.
    package var until: Int64?
    /// Transactions that begin at or after this position.
    package var from: Position?
    /// Transactions that begin before this position.
    package var to: Position?
    /// The node at which a transaction was committed first.
    package var node: String?
    package init() {}
  }

  /// A wanted record, valid only during the call.
  package struct Hit {
    package let record: Record
    package let position: Position
    package let transaction: TransactionHeader
    /// The position of the transaction's begin record.
    package let begin: Position
    package let schema: (UInt64) -> TableSchema?
    /// The statement of the application that made the change; nil if it is not known.
    package let statement: String?
    /// Whether the transaction is within the search's bounds.
    package let isWithin: Bool
  }

  /// Whether a search goes on after a stretch.
  package enum Next {
    case more
    case end
  }

  private let folder: TrailFolder
  private let mark: DurableMark
  private let segments: [UInt64]
  private let filter: RowFilter
  private let bounds: Bounds
  private let findsBarriers: Bool
  private let blocks = SingleBlocks()
  private var key = ByteWriter(capacity: 64)
  private var origin = ""
  /// The size of the blocks that were read, in bytes, without those that were read for an index.
  package private(set) var bytesRead: UInt64 = 0

  /// - Parameter findsBarriers: Whether schema changes, and starts of copies, are also found after the bounds and by
  ///   other nodes. Changes that are older than these cannot be undone.
  package init(
    folder path: String, filter: RowFilter, bounds: Bounds = .init(), findsBarriers: Bool = false
  ) throws {
    folder = TrailFolder(path)
    (self.filter, self.bounds, self.findsBarriers) = (filter, bounds, findsBarriers)
    do {
      let mark = try folder.openMark().1
      self.mark = mark
      segments = try folder.segments().filter { $0 <= mark.segment }
    } catch { throw folder.outward(error) }
  }

  /// Calls `hit` with each wanted record, and `done` after the records of each stretch. Within a stretch, records come
  /// in the order of the trail.
  ///
  /// - Parameter newestFirst: Whether the last stretch comes first.
  package func run(newestFirst: Bool, hit: (Hit) throws -> Void, done: () throws -> Next) throws {
    for number in newestFirst ? segments.reversed() : segments {
      if let from = bounds.from, number < from.segment { continue }
      if let to = bounds.to, number > to.segment, !findsBarriers { continue }
      do {
        guard let open = try folder.index(number, mark), overlaps(open.index.times) else { continue }
        if try search(open, newestFirst, hit, done) == .end { return }
      } catch { throw folder.outward(error) }
    }
  }

  /// Returns the newest schema of the filter's table; nil if the trail has no such table. `names` are all tables of the
  /// trail that were seen on the way; nil if the indexes do not have all names.
  package func newestSchema() throws -> (schema: TableSchema?, names: [String]?) {
    var names: Set<NameKey> = []
    var isComplete = true
    for number in segments.reversed() {
      do {
        guard let open = try folder.index(number, mark) else { continue }
        names.formUnion(open.index.tables.map(\.nameKey))
        isComplete = isComplete && open.index.hasAllTables
        guard let table = filter.table, open.index.tables.contains(table) || !open.index.hasAllTables else { continue }
        let reading = try Reading(self, open)
        try reading.learn(upTo: open.index.stretches.count - 1)
        let schema = reading.schemas.filter { $0.value.plainName == table }.max { $0.key < $1.key }?.value
        if let schema { return (schema, nil) }
      } catch { throw folder.outward(error) }
    }
    return (nil, isComplete ? names.sorted().map(\.text) : nil)
  }

  private func overlaps(_ times: ClosedRange<Int64>?) -> Bool {
    guard let times else { return false }
    return times.upperBound >= bounds.since ?? .min && (findsBarriers || times.lowerBound < bounds.until ?? .max)
  }

  private func search(
    _ open: OpenIndex, _ newestFirst: Bool, _ hit: (Hit) throws -> Void, _ done: () throws -> Next
  ) throws -> Next {
    let hashes = filter.hashes
    guard let found = hashes.isEmpty ? Array(open.index.stretches.indices) : open.stretches(of: hashes) else {
      return try searchAgain(open, newestFirst, hit, done)
    }
    let wanted = found.filter { overlaps(open.index.stretches[$0].times) }
    guard !wanted.isEmpty else { return .more }
    let reading: Reading
    do { reading = try Reading(self, open) } catch let error as FileError where error.isMissing { return .more }
    guard try reading.fits(wanted) else { return try searchAgain(open, newestFirst, hit, done) }
    defer { blocks.release() }
    for stretch in newestFirst ? wanted.reversed() : wanted {
      Pulse.beat()
      try reading.read(stretch, hit)
      if try done() == .end { return .end }
    }
    return .more
  }

  // The index file is damaged: builds it again.
  private func searchAgain(
    _ open: OpenIndex, _ newestFirst: Bool, _ hit: (Hit) throws -> Void, _ done: () throws -> Next
  ) throws -> Next {
    guard let fresh = try folder.index(open.index.identity.segment, mark, isRebuilt: true) else { return .more }
    guard open.isFile else {
      throw folder.bug("the index of segment \(open.index.identity.segment.hex(8)) does not fit its segment")
    }
    return try search(fresh, newestFirst, hit, done)
  }

  private func isWanted(_ header: TransactionHeader, _ begin: Position) -> Bool {
    guard header.commitTime >= bounds.since ?? .min, header.commitTime < bounds.until ?? .max else { return false }
    if let from = bounds.from, begin < from { return false }
    if let to = bounds.to, begin >= to { return false }
    guard let node = bounds.node else { return true }
    return header.node(trail: origin) == node
  }
}

extension TransactionHeader {
  /// The node at which the transaction was committed first.
  ///
  /// - Parameter origin: The origin of the trail.
  package func node(trail origin: String) -> String {
    guard flags.contains(.relayed), let first = dependencies.first?.origin else { return origin }
    return TrailName(first)?.origin ?? first
  }
}

// MARK: - Reading

extension TrailSearch {
  /// Reads stretches of one segment in any order.
  private final class Reading {
    private let search: TrailSearch
    private let file: File
    private let index: SegmentIndex
    private let number: UInt64
    private var learned = -1
    private(set) var schemas: [UInt64: TableSchema] = [:]
    private var keys: [UInt64: KeyColumns] = [:]

    init(_ search: TrailSearch, _ open: OpenIndex) throws {
      (self.search, index, number) = (search, open.index, open.index.identity.segment)
      file = try File(search.folder.segmentPath(number), .read)
      search.origin = try SegmentHeader.read(file, number: number).name.origin
    }

    /// Returns whether a block of the segment begins where each of these stretches begins.
    func fits(_ stretches: [Int]) throws -> Bool {
      try withUnsafeTemporaryAllocation(byteCount: BlockHeader.size, alignment: 8) { buffer throws in
        for stretch in stretches.map({ index.stretches[$0] }) {
          guard try file.read(into: buffer, at: stretch.file) == buffer.count,
            let block = BlockHeader(UnsafeRawBufferPointer(buffer)), block.contentOffset == stretch.content
          else { return false }
        }
        return true
      }
    }

    /// Reads the schemas of all stretches up to one, which is included.
    func learn(upTo last: Int) throws {
      while learned < last {
        learned += 1
        guard index.stretches[learned].hasSchema else { continue }
        try records(of: learned) { record, _ in
          guard case .schema(let id, let schema) = record else { return }
          (schemas[id], keys[id]) = (schema, KeyColumns(schema))
        }
      }
    }

    func read(_ stretch: Int, _ hit: (Hit) throws -> Void) throws {
      try learn(upTo: stretch)
      var open = try transaction(before: stretch)
      var isWanted = open.map { search.isWanted($0.header, $0.begin) } ?? false
      var statement: String?
      try records(of: stretch) { record, position in
        switch record {
        case .begin(let header):
          open = (header, position)
          isWanted = search.isWanted(header, position)
          statement = nil
        case .schema: return
        case .statement(let view): statement = try view.executed().text
        case .statementEnd: statement = nil
        default: break
        }
        guard let open, isWanted || search.findsBarriers && record.isBarrier else { return }
        let (id, other) = record.schemaIDs
        guard
          try search.filter.wants(record, schemas[id], keys[id], &search.key)
            || (other > 0 && search.filter.wants(record, schemas[other], keys[other], &search.key))
        else { return }
        try hit(
          Hit(
            record: record, position: position, transaction: open.header, begin: open.begin,
            schema: { [self] in schemas[$0] }, statement: statement, isWithin: isWanted))
      }
    }

    /// Returns the transaction that is open where a stretch begins.
    private func transaction(before stretch: Int) throws -> (header: TransactionHeader, begin: Position)? {
      let back = index.stretches[stretch].back
      guard back > 0 else { return nil }
      var last: (header: TransactionHeader, begin: Position)?
      try records(of: stretch - back) { record, position in
        if case .begin(let header) = record { last = (header, position) }
      }
      return last
    }

    /// Calls `body` with each record of a stretch.
    private func records(of stretch: Int, _ body: (Record, Position) throws -> Void) throws {
      var (offset, content) = (index.stretches[stretch].file, index.stretches[stretch].content)
      let end = stretch + 1 < index.stretches.count ? index.stretches[stretch + 1].file : index.identity.bytes
      while offset < end {
        let block = try search.blocks.read(file, at: offset, content: content, segment: number)
        var records = ByteReader(block.content)
        while !records.isAtEnd {
          let position = Position(segment: number, offset: content + UInt64(records.offset))
          do {
            let kind = try records.readByte()
            guard let record = try Record.decode(kind: kind, try records.readCounted(), room: TableSchema.memoryMax)
            else { continue }
            try body(record, position)
          } catch let error as DecodingError {
            throw SegmentFault(.content, position, "record: \(error.problem)")
          }
        }
        let size = UInt64(BlockHeader.size) + UInt64(block.header.storedLength)
        search.bytesRead += size
        offset += size
        content += UInt64(block.content.count)
      }
    }
  }
}

extension Record {
  /// The id of the schema of the record's table, and the other one of a schema change; 0 for none.
  fileprivate var schemaIDs: (UInt64, UInt64) {
    if case .ddl(let ddl) = self { return (ddl.after, ddl.before) }
    return (schemaID ?? 0, 0)
  }
}

extension Record {
  /// Whether the record is a schema change or the start of a copy, before which nothing can be undone.
  fileprivate var isBarrier: Bool {
    switch self {
    case .ddl: return true
    case .refresh(let refresh):
      if case .start = refresh.event { return true }
      return false
    default: return false
    }
  }
}
