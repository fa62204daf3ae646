import Changes
import SystemKit

/// Reads single transactions of a trail by their positions, in any order. The first read of a segment checks all of it;
/// later reads need only some blocks. A fault after a transaction does not keep it from being read. One thread uses a
/// lookup.
///
///     let lookup = TransactionLookup(folder: folder)
///     try lookup.read(at: position) { record, schema in print(record) }
package final class TransactionLookup {
  private struct Segment {
    var blocks: [(content: UInt64, file: UInt64)] = []
    var schemas: [UInt64: TableSchema] = [:]
    /// The memory for `schemas`, in bytes.
    var schemaBytes = 0
    /// The offset in the segment's unpacked content up to which transactions can be read.
    var end: UInt64 = 0
    var cursor: SegmentCursor?
    var use = 0
  }

  /// The maximum number of segments in memory.
  private static let segmentsMax = 64
  private let folder: TrailFolder
  private var segments: [UInt64: Segment] = [:]
  private var useCount = 0
  private let blocks = SingleBlocks()

  package init(folder path: String) { folder = TrailFolder(path) }

  /// Reads the transaction that begins at a position, and calls `body` with each of its records. A changed row comes
  /// with the table's schema.
  ///
  /// - Throws: `checkpoint-foreign` if no transaction begins there, or if its segment was purged; errors of `body`; a
  ///   ``DecodingError`` becomes `trail-damaged`.
  package func read(at place: Position, _ body: (Record, TableSchema?) throws -> Void) throws {
    var failure: (any Error)?
    do {
      try learn(place)
      guard let segment = segments[place.segment] else { return }
      try read(place, segment) { record, schema in
        do { try body(record, schema) } catch {
          failure = error
          throw error
        }
      }
    } catch {
      if let failure = failure as? DecodingError {
        throw folder.damaged(place, "a value of the transaction cannot be decoded: \(failure)")
      }
      throw failure ?? folder.outward(error)
    }
  }

  // MARK: Segments

  private func learn(_ place: Position) throws {
    useCount += 1
    var segment = segments[place.segment] ?? Segment()
    segment.use = useCount
    if segment.blocks.isEmpty || place.offset >= segment.end {
      // After an error, the cursor cannot be used.
      segments[place.segment] = nil
      try learn(&segment, through: place)
    }
    segments[place.segment] = segment
    while hasTooManySegments, let oldest = segments.min(by: { $0.value.use < $1.value.use })?.key {
      segments[oldest] = nil
    }
  }

  /// Reads the blocks of a segment that are not known yet. Stops without an error at a fault after the transaction at
  /// `place`, as that transaction can be read.
  private func learn(_ segment: inout Segment, through place: Position) throws {
    let (_, mark) = try folder.openMark()
    guard place.segment <= mark.segment else { throw nothing(at: place) }
    if segment.cursor == nil { segment.blocks = [] }
    let cursor: SegmentCursor
    do { cursor = try segment.cursor ?? SegmentCursor(folder, place.segment) } catch let error
      as FileError
      where error.isMissing
    { throw try folder.missingSegment(place.segment) }
    let limit = try mark.segment == place.segment ? mark.fileOffset : cursor.file.size
    var isFaulty = false
    do {
      while !cursor.isSealed, cursor.fileOffset < limit {
        segment.blocks.append((cursor.contentEnd, cursor.fileOffset))
        Pulse.beat()
        try cursor.loadBlock(limit: limit)
        while try cursor.nextRecord() != nil {}
      }
    } catch is SegmentFault where cursor.commitOffset > place.offset { isFaulty = true }
    (segment.schemas, segment.schemaBytes) = (cursor.schemas, cursor.schemaBytes)
    segment.end = isFaulty ? cursor.commitOffset : cursor.contentEnd
    segment.cursor = cursor.isSealed || isFaulty ? nil : cursor
  }

  private var hasTooManySegments: Bool {
    guard segments.count > 1 else { return false }
    return segments.count > Self.segmentsMax
      || segments.values.reduce(0) { $0 + $1.schemaBytes } > TableSchema.memoryMax
  }

  // MARK: Blocks

  private func read(
    _ place: Position, _ segment: Segment, _ body: (Record, TableSchema?) throws -> Void
  ) throws {
    defer { blocks.release() }
    let file: File
    do throws(FileError) { file = try File(folder.segmentPath(place.segment), .read) } catch {
      guard error.isMissing else { throw error }
      throw try folder.missingSegment(place.segment)
    }
    var index = (segment.blocks.partitioningIndex { $0.content > place.offset }) - 1
    guard index >= 0, place.offset < segment.end else { throw nothing(at: place) }
    var skipped = Int(place.offset - segment.blocks[index].content)
    var isFirst = true
    while index < segment.blocks.count {
      // The chain was checked when the segment was read.
      let block = segment.blocks[index]
      let content = try blocks.read(file, at: block.file, content: block.content, segment: place.segment).content
      var records = ByteReader(content)
      guard skipped <= content.count else { throw nothing(at: place) }
      _ = try records.read(skipped)
      while !records.isAtEnd {
        let decoded: Record?
        do { decoded = try next(&records) } catch is DecodingError { throw nothing(at: place) }
        guard let record = decoded else { continue }
        if isFirst { guard case .begin = record else { throw nothing(at: place) } }
        isFirst = false
        switch record {
        case .change(let change): try body(record, segment.schemas[change.schemaID])
        case .refreshRow(let id, _): try body(record, segment.schemas[id])
        default: try body(record, nil)
        }
        if case .commit = record { return }
      }
      (index, skipped) = (index + 1, 0)
    }
    throw nothing(at: place)
  }

  private func next(_ records: inout ByteReader) throws -> Record? {
    let kind = try records.readByte()
    return try Record.decode(kind: kind, try records.readCounted())
  }

  private func nothing(at place: Position) -> CairnError {
    CairnError(
      .checkpointForeign, "no transaction of trail \(folder.label) begins at \(place)",
      hint: "the trail was replaced, or cut off, since it was read: run 'cairn restart' for the worker that reads it",
      context: ["trail": folder.label, "position": place.description])
  }
}

extension [(content: UInt64, file: UInt64)] {
  /// Returns the index of the first element that satisfies the condition; the count if none does. All elements after a
  /// satisfying one must satisfy it too.
  fileprivate func partitioningIndex(where isBehind: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
