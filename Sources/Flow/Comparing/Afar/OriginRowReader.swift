import Capturing
import Changes
import Mapping

/// Reads rows of a source at another node by questions to that node. Each slice is one question, answered from one
/// snapshot. Each number and value in an answer is checked.
final class OriginRowReader: RowReader {
  /// The exclusive upper limit of the bytes of rows in an answer.
  private static let bytesMax: UInt64 = 1 << 34
  /// The smallest size of a row in an answer, in bytes: two hashes, the size of the row, and its key.
  private static let markBytes = 18
  /// The maximum number of parts, such as partitions, of one table in an answer. Each part must have fewer than
  /// `pagesEnd` pages.
  private static let partsMax = 65_536
  private static let pagesEnd: UInt64 = 1 << 32 - 1
  /// The exclusive upper limit of the number of equal rows in an answer.
  private static let countEnd: UInt64 = 1 << 31

  let origin: OriginSource
  let engine: Engine
  private let seed: UInt64
  /// The source's positions at the reads of the last call of ``atOneMoment(_:)``.
  private var moments: [SourceMoment] = []

  init(_ origin: OriginSource, _ engine: Engine, seed: UInt64) {
    (self.origin, self.engine, self.seed) = (origin, engine, seed)
  }

  /// Runs `body`, which reads rows at most once, and returns its result with the source's position at that read. If
  /// `body` reads no rows, returns the source's present position.
  func atOneMoment<T>(_ body: () throws -> T) throws -> (moment: SourceMoment, result: T) {
    moments = []
    let result = try body()
    guard moments.count < 2 else {
      throw CairnError(.bug, "rows of one look were read at two moments", hint: "please report this", remedy: .bug)
    }
    return (try moments.first ?? origin.standing().moment, result)
  }

  func scan(
    _ table: ComparedTable, _ slice: Slice, naming: Bool, _ body: (borrowing RowMark) throws -> Void
  ) throws -> SliceEnd {
    try origin.ask(.scan(QuestionedTable(table, seed: seed), slice, naming: naming)) { reader in
      var end = SliceEnd()
      let rows = try reader.readNumber("count of rows")
      end.bytes = try Self.readBytes(&reader)
      end.last = try reader.readKey()
      let fits = naming ? reader.remaining / Self.markBytes : .max
      guard rows <= UInt64(min(fits, slice.rowsMax)) else { throw Self.refusal("a slice has \(rows) rows") }
      end.rows = Int(rows)
      // A slice without progress would be requested without end.
      guard end.last == nil || end.rows > 0 else { throw Self.refusal("a slice has a last row but no rows") }
      if let last = end.last { try check(last, endOf: slice, table) }
      guard naming else {
        let sum = try reader.readFixed(UInt64.self)
        // One `RowMark` covers all rows of the slice.
        if end.rows > 0 { try body(RowMark(keyHash: 0, rowHash: sum, bytes: end.bytes, key: Self.none)) }
        return end
      }
      for _ in 0..<end.rows {
        let (keyHash, rowHash) = (try reader.readFixed(UInt64.self), try reader.readFixed(UInt64.self))
        let bytes = try Self.readBytes(&reader)
        let key = try reader.readCounted()
        try check(key, table)
        try body(RowMark(keyHash: keyHash, rowHash: rowHash, bytes: bytes, key: key))
      }
      return end
    }
  }

  private static var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

  // MARK: The border

  private static func refusal(_ problem: String) -> DecodingError { DecodingError(offset: 0, problem: problem) }

  private static func readBytes(_ reader: inout ByteReader) throws -> Int {
    let bytes = try reader.readNumber("count of bytes")
    guard bytes < bytesMax else { throw refusal("rows have \(bytes) bytes") }
    return Int(bytes)
  }

  /// Throws unless an encoded key is empty, or has one value of the source's engine for each key column.
  private func check(_ key: UnsafeRawBufferPointer, _ table: ComparedTable) throws {
    guard !key.isEmpty else { return }
    var reader = ByteReader(key)
    var count = 0
    while !reader.isAtEnd {
      switch try reader.readColumn() {
      case .unchanged: throw Self.refusal("a value is missing")
      case .null: break
      case .exact: try check(isExact: true)
      case .integer, .real, .text, .blob: try check(isExact: false)
      }
      count += 1
    }
    try Self.check(count, table.key.count)
  }

  private func check(isExact: Bool) throws {
    guard isExact == (engine == .postgres) else { throw Self.refusal("a value is of another engine") }
  }

  private static func check(_ count: Int, _ wanted: Int) throws {
    guard count == wanted else { throw refusal("there are \(count) values, not \(wanted)") }
  }

  /// Throws unless the last key of a slice can start the next slice.
  private func check(_ last: [Value], endOf slice: Slice, _ table: ComparedTable) throws {
    switch slice {
    case .range(let after, _, _):
      try check(last, count: table.key.count)
      guard last != after else { throw Self.refusal("a slice ends where it began") }
    case .behind(let after, _):
      if table.source.rowidName == nil {
        try check(last, count: table.key.count)
      } else {
        guard last.count == 1, case .integer = last[0] else { throw Self.refusal("a rowid is not an integer") }
      }
      guard last != after else { throw Self.refusal("a slice ends where it began") }
    case .nullKeys, .pages, .all: throw Self.refusal("rows without an order have a last one")
    }
  }

  private func check(_ values: [Value], count: Int) throws {
    try Self.check(values.count, count)
    for value in values {
      switch value {
      case .null: break
      case .exact: try check(isExact: true)
      case .integer, .real, .text, .blob: try check(isExact: false)
      }
    }
  }

  // MARK: Parts and rows

  func parts(of table: ComparedTable) throws -> PartSequence {
    try origin.ask(.parts(QuestionedTable(table, seed: seed))) { reader in
      switch try reader.readByte() {
      case 1: return .behind
      case 2: return .slices([.all])
      default:
        let count = try reader.readCount()
        guard count <= Self.partsMax else { throw Self.refusal("a table has \(count) parts") }
        return .pages(
          try (0..<count).map { part in
            let pages = try reader.readNumber("count of pages")
            guard pages < Self.pagesEnd else { throw Self.refusal("a table has \(pages) pages") }
            return (table: String(part), pages: UInt32(pages))
          })
      }
    }
  }

  func currentRow(_ table: ComparedTable) -> [Value] { [] }

  /// The maximum number of keys in one question. All rows of one question are read in one snapshot.
  let keysAtOnce = 1_000_000

  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws {
    guard !keys.isEmpty else { return }
    try origin.ask(.rows(QuestionedTable(table, seed: seed), keys: keys)) { reader in
      moments.append(try reader.readMoment())
      let count = try reader.readCount()
      // Several tables of an inheritance may have rows with one key.
      guard count <= keys.count * 2 + 1000 else { throw Self.refusal("\(keys.count) keys have \(count) rows") }
      for _ in 0..<count {
        let index = try reader.readNumber("place of a key")
        let row = try reader.readRow()
        guard index <= UInt64(keys.count) else { throw Self.refusal("there is no key \(index)") }
        try check(row, count: table.columns.count)
        try body(index == 0 ? nil : Int(index) - 1, row)
      }
    }
  }

  func count(_ table: ComparedTable, into counts: RowCounts) throws {
    try origin.ask(.counts(QuestionedTable(table, seed: seed), hashes: counts.hashes)) { reader in
      moments.append(try reader.readMoment())
      for hash in counts.hashes {
        let count = try reader.readNumber("count of rows")
        guard count < Self.countEnd else { throw Self.refusal("a row is there \(count) times") }
        guard count > 0 else { continue }
        let row = try reader.readRow()
        try check(row, count: table.columns.count)
        counts.add(hash, times: Int(count)) { row }
      }
    }
  }
}

extension Slice {
  /// The maximum number of rows that the source's node returns for the slice.
  fileprivate var rowsMax: Int {
    switch self {
    case .range(_, _, let limit): min(max(1, limit ?? OriginAnswers.rowsMax), OriginAnswers.rowsMax)
    case .behind(_, let limit): min(max(1, limit), OriginAnswers.rowsMax)
    case .nullKeys, .pages, .all: 1 << 32
    }
  }
}
