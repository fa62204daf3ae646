import Changes
import Changes
import Mapping
import SystemKit

/// Reads a whole table at both ends, and finds the groups of rows that differ. The hash of a row's key, or of the whole
/// row, selects one of 65,536 groups (buckets).
struct BucketScan: Sendable {
  static let bucketCount = 65_536

  private struct Sums: Sendable {
    var counts = [UInt32](repeating: 0, count: BucketScan.bucketCount)
    var keyBytes = [UInt64](repeating: 0, count: BucketScan.bucketCount)
    var sums = [UInt64](repeating: 0, count: BucketScan.bucketCount)
  }

  let table: ComparedTable
  let ends: CompareEnds
  let watch: CompareWatch
  var part = Part.all

  enum Part: Sendable {
    case all
    /// The rows with NULL in their key.
    case nullKeys
    /// The rows after the given keys, in the sort order of each database; nil: all rows, from the first one on.
    case behind((source: [Value]?, target: [Value]?))
  }

  /// Buckets whose differing rows are compared together. `rows` is the sum of the buckets' row counts: for each bucket,
  /// the larger count of both ends.
  struct Group {
    fileprivate(set) var buckets: Set<Int> = []
    fileprivate(set) var rows = 0
    fileprivate var bytes = 0
    func contains(_ hash: UInt64) -> Bool { buckets.contains(BucketScan.bucket(hash)) }
  }

  private static func bucket(_ hash: UInt64) -> Int { Int(hash >> 48) }

  /// Returns the differing buckets in groups. The rows of a group take at most `bytesInMemory`, unless a single bucket
  /// takes more.
  func run(bytesInMemory: Int) throws -> [Group] {
    let source = try WorkerThread { Result { try self.sums(.source) } }
    // Without a second thread, this one reads the target.
    let target = try? WorkerThread { Result { try self.sums(.target) } }
    let read = target == nil ? Result { try self.sums(.target) } : nil
    let sums = try [source.join(), target?.join() ?? read].compactMap { try $0?.get() }
    guard sums.count == 2 else { return [] }
    var groups: [Group] = []
    var group = Group()
    for bucket in 0..<Self.bucketCount {
      let counts = (Int(sums[0].counts[bucket]), Int(sums[1].counts[bucket]))
      if counts.0 == counts.1, sums[0].sums[bucket] == sums[1].sums[bucket] { continue }
      let rows = max(counts.0, counts.1)
      let bytes = rows * Narrowing.rowBytes + Int(sums[0].keyBytes[bucket])
      if !group.buckets.isEmpty, group.bytes + bytes > bytesInMemory {
        groups.append(group)
        group = Group()
      }
      group.buckets.insert(bucket)
      group.rows += rows
      group.bytes += bytes
    }
    return group.buckets.isEmpty ? groups : groups + [group]
  }

  private func sums(_ side: CanonicalColumn.Side) throws -> Sums {
    var sums = Sums()
    try scan(ends.reader(side), side, isFirst: true) { mark in
      let bucket = Self.bucket(mark.keyHash)
      sums.counts[bucket] &+= 1
      sums.keyBytes[bucket] += UInt64(mark.key.count)
      sums.sums[bucket] &+= mark.rowHash
    }
    return sums
  }

  /// Reads the rows of ``part`` in several reads, and passes the hashes of each row to `body`.
  ///
  /// - Parameter isFirst: Whether the rows count for the progress that is shown to the operator; false if they are read
  ///   a second time.
  /// - Parameter between: Is called after each read, when `reader` is free for other reads.
  func scan(
    _ reader: any RowReader, _ side: CanonicalColumn.Side, isFirst: Bool = false,
    _ body: (borrowing RowMark) throws -> Void, between: () throws -> Void = {}
  ) throws {
    func read(_ slice: Slice) throws -> SliceEnd {
      let begun = Clock.monotonicMilliseconds
      var end = try reader.scan(table, slice, naming: true, body)
      end.milliseconds = Clock.monotonicMilliseconds - begun
      if isFirst { watch.count(side, rows: end.rows, bytes: end.bytes) }
      try between()
      watch.rate.spend(end.bytes, watch.stop)
      return end
    }
    func readAll(_ after: [Value]?, limit: Int, _ slice: ([Value]?, _ limit: Int) -> Slice) throws {
      var after = after
      repeat {
        after = try read(slice(after, watch.rate.rows(limit, of: 200))).last
      } while after != nil && !watch.stop.isSet
    }
    switch part {
    case .all: break
    case .nullKeys:
      _ = try read(.nullKeys)
      return
    case .behind(let keys):
      return try readAll(side == .source ? keys.source : keys.target, limit: Self.rowsMax) { after, limit in
        .range(after: after, through: nil, limit: limit)
      }
    }
    switch try reader.parts(of: table) {
    case .behind:
      try readAll(nil, limit: Self.rowsMax) { after, limit in .behind(after, limit: limit) }
    case .slices(let slices):
      for slice in slices where !watch.stop.isSet { _ = try read(slice) }
    case .pages(let tables):
      for (name, pages) in tables { try scan(name, pages, read) }
    }
  }

  private static let rowsMax = 20_000
  private static let pagesMax: UInt32 = 512
  private static let millisecondsGoal: Int64 = 200

  private func scan(_ name: String, _ pages: UInt32, _ read: (Slice) throws -> SliceEnd) throws {
    var from: UInt32 = 0
    var step: UInt32 = 8
    while !watch.stop.isSet {
      // The last part has no end, because the table may grow meanwhile.
      let isLast = pages - from < step
      let end = try read(.pages(table: name, from: from, below: isLast ? nil : from + step))
      if isLast { return }
      from += step
      let share = watch.rate.rows(Int(Self.pagesMax), of: max(1, end.bytes / Int(step)), least: 1)
      if end.milliseconds < Self.millisecondsGoal / 2 { step = min(step * 2, Self.pagesMax) }
      if end.milliseconds > Self.millisecondsGoal { step = max(1, step / 2) }
      step = min(step, UInt32(share))
    }
  }
}
