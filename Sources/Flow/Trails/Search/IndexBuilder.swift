import Changes
import SystemKit

/// Reads a segment once, with all checks of a reader, and makes its index.
final class IndexBuilder {
  /// The content of a stretch, in bytes, after which another one begins.
  static let stretchBytes: UInt64 = 64 << 10
  /// The size of a segment in bytes below which it has no index file.
  static let segmentBytesMin: UInt64 = 64 << 10

  private var entries = IndexEntries()
  private var index: SegmentIndex
  private var tables: [UInt64: (hash: UInt64, key: KeyColumns)] = [:]
  private var names: Set<NameKey> = []
  private var namesBytes = 0
  private var key = ByteWriter(capacity: 64)
  /// The stretch in which the open transaction begins.
  private var begun = 0
  private static let checkRecords = 4096
  /// The lowest size of a stretch in the file of an index, in bytes.
  private static let stretchLength = 5

  private init(_ identity: SegmentIndex.Identity) { index = SegmentIndex(identity) }

  /// The highest size in bytes of the index of a sealed segment: 3 % of the segment.
  static func budget(_ segmentBytes: UInt64) -> Int { Int(clamping: segmentBytes / 100 * 3) }

  /// Returns the file of the index of a segment up to file offset `limit`, the end of a block.
  ///
  /// - Parameters:
  ///   - lengthMax: The size of the list of stretches in bytes above which the segment cannot be indexed.
  ///   - check: Called often. An error that it throws ends the work.
  static func build(
    _ folder: TrailFolder, _ number: UInt64, limit: UInt64, isSealed: Bool, lengthMax: Int = SegmentIndex.lengthMax,
    check: () throws -> Void = {}
  ) throws -> [UInt8] {
    let cursor = try SegmentCursor(folder, number)
    let builder = IndexBuilder(
      .init(trail: cursor.header.trail, segment: number, bytes: limit, chain: .zero))
    try builder.read(cursor, limit: limit, lengthMax / stretchLength, check)
    builder.index.identity.chain = cursor.chainAtEnd()
    builder.entries.finish()
    // The index of a live or a small segment is never written, so its size does not matter.
    return SegmentIndex.encoded(
      builder.index, builder.entries, budget: isSealed && limit >= segmentBytesMin ? budget(limit) : Int.max >> 8)
  }

  private func read(
    _ cursor: SegmentCursor, limit: UInt64, _ stretchesMax: Int, _ check: () throws -> Void
  ) throws {
    var time: Int64 = 0
    var count = 0
    while !cursor.isSealed, cursor.fileOffset < limit {
      Pulse.beat()
      try check()
      guard index.stretches.count <= stretchesMax else { throw SegmentFault.tooLarge(cursor.number) }
      let isOpen = cursor.transactions.isOpen
      let content = cursor.contentEnd
      if index.stretches.last.map({ content - $0.content >= Self.stretchBytes }) ?? true {
        let number = index.stretches.count
        index.stretches.append(
          .init(
            file: cursor.fileOffset, content: content, back: isOpen ? number - begun : 0, hasSchema: false,
            times: time...time))
      }
      let stretch = index.stretches.count - 1
      let isNew = content == index.stretches[stretch].content
      try cursor.loadBlock(limit: limit)
      var hasTime = !isNew || isOpen
      while let record = try cursor.nextRecord() {
        count += 1
        if count % Self.checkRecords == 0 { try check() }
        if case .begin(let header) = record {
          (time, begun) = (header.commitTime, stretch)
          let old = index.stretches[stretch].times
          index.stretches[stretch].times =
            hasTime ? min(old.lowerBound, time)...max(old.upperBound, time) : time...time
          hasTime = true
        }
        try add(record, stretch, cursor)
      }
    }
  }

  private func add(_ record: Record, _ stretch: Int, _ cursor: SegmentCursor) throws {
    switch record {
    case .schema(let id, let schema):
      index.stretches[stretch].hasSchema = true
      tables[id] = (RowKey.table(schema.plainName), KeyColumns(schema))
      note(schema.plainName)
    case .change(let change):
      guard let table = tables[change.schemaID] else { return }
      entries.add(RowKey.presence(table.hash), stretch: stretch)
      if let before = change.before { try add(before, change.after, table, stretch, cursor) }
      if let after = change.after { try add(after, change.before, table, stretch, cursor) }
      if change.operation == .truncate { entries.add(RowKey.events(table.hash), stretch: stretch) }
    case .refreshRow(let id, let image):
      guard let table = tables[id] else { return }
      entries.add(RowKey.presence(table.hash), stretch: stretch)
      try add(image, nil, table, stretch, cursor)
    case .refresh(let refresh): event(refresh.schemaID, stretch)
    case .ddl(let ddl): for id in [ddl.before, ddl.after] where id > 0 { event(id, stretch) }
    default: break
    }
  }

  private func add(
    _ image: ImageView, _ other: ImageView?, _ table: (hash: UInt64, key: KeyColumns), _ stretch: Int,
    _ cursor: SegmentCursor
  ) throws {
    do {
      if try table.key.read(image, else: other, into: &key) {
        entries.add(XXHash64.of(key.bytes, seed: table.hash), stretch: stretch)
      } else {
        entries.add(RowKey.events(table.hash), stretch: stretch)
      }
    } catch let error as DecodingError {
      throw cursor.fault(.content, cursor.recordOffset, "a value of the record cannot be decoded: \(error.problem)")
    }
  }

  private func event(_ id: UInt64, _ stretch: Int) {
    guard let table = tables[id] else { return }
    entries.add(RowKey.presence(table.hash), stretch: stretch)
    entries.add(RowKey.events(table.hash), stretch: stretch)
  }

  private func note(_ name: String) {
    guard !names.contains(name) else { return }
    guard namesBytes + name.utf8.count + 4 <= SegmentIndex.tablesBytesMax else {
      index.hasAllTables = false
      return
    }
    names.insert(name)
    namesBytes += name.utf8.count + 4
    index.tables.append(name)
  }
}
