import Changes
import Mapping
import PostgresKit
import SystemKit

/// Compares the rows of one table: a scan of both ends, the ranges or buckets that differ narrowed to rows, and those
/// settled.
final class TableComparison {
  /// Suspects are settled so many at a time, or once they have waited for a second.
  private static let batchRows = 500
  /// Rows whose hashes are held in memory at once.
  private static let rowsInMemory = 300_000

  private let table: ComparedTable
  private let ends: CompareEnds
  private let watch: CompareWatch
  private let settling: any Settling
  let look: RowLook
  let verdict: RowVerdict
  private let report: (Settlement) throws -> Void
  private var waiting: [Suspect] = []
  private var waitingSince: Int64 = 0

  /// `report` gets what suspects turned out to be. `looks` are readers of the calling thread.
  init(
    _ table: ComparedTable, _ ends: CompareEnds, _ watch: CompareWatch, settling: any Settling,
    looks: (source: any RowReader, target: any RowReader), report: @escaping (Settlement) throws -> Void
  ) {
    (self.table, self.ends, self.watch, self.settling) = (table, ends, watch, settling)
    look = RowLook(table, source: looks.source, target: looks.target, seed: ends.seed)
    verdict = RowVerdict(table, server: (looks.target as? PostgresRowReader)?.connection)
    self.report = report
  }

  func run() throws {
    watch.update { ($0.table, $0.sourceRows, $0.targetRows) = (self.table.name, 0, 0) }
    if table.order == .ranges {
      do {
        try runByRanges()
        return try settle(all: true)
      } catch is RangeScan.Unordered {
        watch.update { ($0.sourceRows, $0.targetRows) = (0, 0) }
      }
    }
    try runByBuckets()
    try settle(all: true)
  }

  private func runByRanges() throws {
    let scan = RangeScan(table: table, ends: ends, watch: watch)
    try scan.run { range in
      try narrow(
        { take in
          try self.read(self.look.source, .range(after: range.after, through: range.through, limit: nil), take)
        }, { take in try self.read(self.look.target, try scan.targetSlice(range), take) })
    }
    guard table.isNullable else { return }
    try narrow(
      { take in try self.read(self.look.source, .nullKeys, take) },
      { take in try self.read(self.look.target, .nullKeys, take) })
  }

  private func runByBuckets() throws {
    let groups = try BucketScan(table: table, ends: ends, watch: watch).run(rowsInMemory: Self.rowsInMemory)
    for group in groups where !watch.stop.isSet {
      func read(_ side: CanonicalColumn.Side, _ take: (borrowing RowMark) -> Void) throws {
        let reader = side == .source ? look.source : look.target
        try BucketScan.scan(table, reader, side, watch) { mark in
          if group.contains(BucketScan.bucket(mark.keyHash)) { take(mark) }
        }
      }
      try narrow({ try read(.source, $0) }, { try read(.target, $0) })
    }
  }

  private func read(_ reader: any RowReader, _ slice: Slice, _ take: (borrowing RowMark) -> Void) throws {
    let end = try reader.scan(table, slice, naming: true) { mark in take(mark) }
    watch.rate.spend(end.bytes, watch.stop)
  }

  /// Reads both ends row by row; what differs waits to be settled.
  private func narrow(
    _ source: ((borrowing RowMark) -> Void) throws -> Void, _ target: ((borrowing RowMark) -> Void) throws -> Void
  ) throws {
    var narrowing = Narrowing(table)
    try source { narrowing.takeSource($0) }
    try target { narrowing.takeTarget($0) }
    let found = narrowing.finish()
    watch.update { $0.suspects += found.count }
    if waiting.isEmpty { waitingSince = Clock.monotonicMilliseconds }
    waiting += found
    try settle(all: false)
  }

  private func settle(all: Bool) throws {
    let isLate = Clock.monotonicMilliseconds - waitingSince > 1000
    let keyed = waiting.filter(\.isKeyed)
    // Those without a key need a scan, so they are judged at the end.
    let whole = waiting.filter { !$0.isKeyed }
    var rest = keyed[...]
    while rest.count >= Self.batchRows || (!rest.isEmpty && (all || isLate)), !watch.stop.isSet {
      let batch = Array(rest.prefix(Self.batchRows))
      rest = rest.dropFirst(batch.count)
      try report(try settling.settle(look, verdict, keyed: batch))
    }
    waiting = Array(rest) + whole
    if all, !whole.isEmpty, !watch.stop.isSet {
      try report(try settling.settle(look, verdict, whole: whole))
      waiting = []
    }
  }
}
