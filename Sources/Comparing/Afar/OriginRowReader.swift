import Capturing
import Changes
import Mapping

/// Reads rows of a source at another node, by questions. Each slice is one question, so one short snapshot there.
final class OriginRowReader: RowReader {
  let origin: OriginSource
  let engine: Engine
  private let seed: UInt64
  /// The moments of the reads since they were counted; see ``atOneMoment(_:)``.
  private var moments: [SourceMoment] = []

  init(_ origin: OriginSource, _ engine: Engine, seed: UInt64) {
    (self.origin, self.engine, self.seed) = (origin, engine, seed)
  }

  /// Runs `body`, which reads once at most; returns the moment of that read.
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
      end.rows = Int(clamping: try reader.readNumber("count of rows"))
      end.bytes = Int(clamping: try reader.readNumber("count of bytes"))
      end.last = try reader.readKey()
      // A slice without progress would be asked for without end.
      guard end.last == nil || end.rows > 0 else { throw DecodingError(offset: 0, problem: "a slice has no row") }
      guard naming else {
        let sum = try reader.readFixed(UInt64.self)
        // One mark stands for all of them.
        if end.rows > 0 { try body(RowMark(keyHash: 0, rowHash: sum, bytes: end.bytes, key: Self.none)) }
        return end
      }
      for _ in 0..<end.rows {
        let (keyHash, rowHash) = (try reader.readFixed(UInt64.self), try reader.readFixed(UInt64.self))
        let bytes = Int(clamping: try reader.readNumber("count of bytes"))
        let key = try reader.readCounted()
        try Self.check(key, table)
        try body(RowMark(keyHash: keyHash, rowHash: rowHash, bytes: bytes, key: key))
      }
      return end
    }
  }

  private static var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

  /// A key has as many values as the table's has columns, or none.
  private static func check(_ key: UnsafeRawBufferPointer, _ table: ComparedTable) throws {
    guard !key.isEmpty else { return }
    guard try ImageView(bytes: key).columnCount() == table.key.count else {
      throw DecodingError(offset: 0, problem: "a key has another number of values")
    }
  }

  func parts(of table: ComparedTable) throws -> PartSequence {
    try origin.ask(.parts(QuestionedTable(table, seed: seed))) { reader in
      switch try reader.readByte() {
      case 1: return .behind
      case 2: return .slices([.all])
      default:
        let count = try reader.readCount()
        return .pages(
          try (0..<count).map { (table: String($0), pages: UInt32(clamping: try reader.readNumber("count of pages"))) })
      }
    }
  }

  func currentRow(_ table: ComparedTable) -> [Value] { [] }

  /// All of them, so that they are of one moment.
  let keysAtOnce = 1_000_000

  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws {
    guard !keys.isEmpty else { return }
    try origin.ask(.rows(QuestionedTable(table, seed: seed), keys: keys)) { reader in
      moments.append(try reader.readMoment())
      let count = try reader.readCount()
      for _ in 0..<count {
        let index = try reader.readNumber("place of a key")
        let row = try reader.readRow()
        guard row.count == table.columns.count, index <= UInt64(keys.count) else {
          throw DecodingError(offset: 0, problem: "a row has another number of values")
        }
        try body(index == 0 ? nil : Int(index) - 1, row)
      }
    }
  }

  func count(_ table: ComparedTable, into counts: RowCounts) throws {
    try origin.ask(.counts(QuestionedTable(table, seed: seed), hashes: counts.hashes)) { reader in
      moments.append(try reader.readMoment())
      for hash in counts.hashes {
        let count = Int(clamping: try reader.readNumber("count of rows"))
        guard count > 0 else { continue }
        let row = try reader.readRow()
        guard row.count == table.columns.count else {
          throw DecodingError(offset: 0, problem: "a row has another number of values")
        }
        counts.add(hash, times: count) { row }
      }
    }
  }
}
