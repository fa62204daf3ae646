import Changes
import Mapping
import SystemKit

/// Reads a table whole at both ends, in whatever order suits each, and tells in which of 65,536 buckets rows differ. A
/// row's bucket is chosen by the hash of its key, or of itself.
struct BucketScan: Sendable {
  static let bucketCount = 65_536

  struct Sums: Sendable {
    var counts = [UInt32](repeating: 0, count: BucketScan.bucketCount)
    var sums = [UInt64](repeating: 0, count: BucketScan.bucketCount)
  }

  let table: ComparedTable
  let ends: CompareEnds
  let watch: CompareWatch

  static func bucket(_ hash: UInt64) -> Int { Int(hash >> 48) }

  /// Groups of buckets that differ; each group has no more rows than fit into memory at once.
  func run(rowsInMemory: Int) throws -> [Set<Int>] {
    let workers = [CanonicalColumn.Side.source, .target].map { side in
      WorkerThread({ Result { try self.sums(side) } })
    }
    let sums = try workers.map { $0.join() }.compactMap { try $0?.get() }
    guard sums.count == 2 else { return [] }
    var groups: [Set<Int>] = []
    var group: Set<Int> = []
    var rows = 0
    for bucket in 0..<Self.bucketCount {
      let counts = (Int(sums[0].counts[bucket]), Int(sums[1].counts[bucket]))
      if counts.0 == counts.1, sums[0].sums[bucket] == sums[1].sums[bucket] { continue }
      if !group.isEmpty, rows + max(counts.0, counts.1) > rowsInMemory {
        groups.append(group)
        (group, rows) = ([], 0)
      }
      group.insert(bucket)
      rows += max(counts.0, counts.1)
    }
    return group.isEmpty ? groups : groups + [group]
  }

  private func sums(_ side: CanonicalColumn.Side) throws -> Sums {
    var sums = Sums()
    try Self.scan(table, ends.reader(side), side, watch, isFirst: true) { mark in
      let bucket = Self.bucket(mark.keyHash)
      sums.counts[bucket] &+= 1
      sums.sums[bucket] &+= mark.rowHash
    }
    return sums
  }

  /// Reads a whole table in short parts, rows with the hashes of their keys; only the first time do they count as
  /// progress.
  static func scan(
    _ table: ComparedTable, _ reader: any RowReader, _ side: CanonicalColumn.Side, _ watch: CompareWatch,
    isFirst: Bool = false, _ body: (borrowing RowMark) throws -> Void
  ) throws {
    switch try reader.parts(of: table) {
    case .behind(let limit):
      var after: [Value]?
      repeat {
        let rows = watch.rate.rows(limit, of: 200)
        let end = try reader.scan(table, .behind(after, limit: rows), naming: true, body)
        if isFirst { watch.count(side, rows: end.rows, bytes: end.bytes) }
        watch.rate.spend(end.bytes, watch.stop)
        after = end.last
      } while after != nil && !watch.stop.isSet
    case .slices(let slices):
      for slice in slices where !watch.stop.isSet {
        let end = try reader.scan(table, slice, naming: true, body)
        if isFirst { watch.count(side, rows: end.rows, bytes: end.bytes) }
        watch.rate.spend(end.bytes, watch.stop)
      }
    case .pages(let tables):
      for (name, pages) in tables {
        try scan(name, pages, watch) { slice in
          let end = try reader.scan(table, slice, naming: true, body)
          if isFirst { watch.count(side, rows: end.rows, bytes: end.bytes) }
          watch.rate.spend(end.bytes, watch.stop)
          return end.bytes
        }
      }
    }
  }

  private static let pagesMax: UInt32 = 512
  private static let millisecondsGoal: Int64 = 200

  /// Reads the pages of one table, as many at a time as take a moment: what stands outside of them, such as long
  /// values, is not counted in pages. `read` gives the bytes.
  private static func scan(
    _ name: String, _ pages: UInt32, _ watch: CompareWatch, _ read: (Slice) throws -> Int
  ) throws {
    var from: UInt32 = 0
    var step: UInt32 = 8
    while !watch.stop.isSet {
      // The last part has no end: the table grows meanwhile.
      let isLast = pages < from + step
      let begun = Clock.monotonicMilliseconds
      let bytes = try read(.pages(table: name, from: from, below: isLast ? nil : from + step))
      if isLast { return }
      from += step
      let took = Clock.monotonicMilliseconds - begun
      let share = watch.rate.rows(Int(pagesMax), of: max(1, bytes / Int(step)), least: 1)
      if took < millisecondsGoal / 2 { step = min(step * 2, pagesMax) }
      if took > millisecondsGoal { step = max(1, step / 2) }
      step = min(step, UInt32(share))
    }
  }
}
