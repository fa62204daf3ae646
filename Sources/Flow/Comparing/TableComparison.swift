import Changes
import Mapping
import PostgresKit
import SystemKit

/// Compares the rows of one table: finds ranges of keys, or groups of rows by hash (buckets), that differ, then the
/// differing rows.
final class TableComparison {
  /// The number of differing rows with a key that are collected and then read again together.
  private static let batchRows = 4000
  private static let suspectBytes = 1500
  private static let batchBytes = 8 << 20
  private static let bytesInMemory = 12 << 20
  /// The memory for differing rows without a key, in bytes. When the memory is full, all these rows are read again
  /// together.
  private static let wholeBytes = 16 << 20
  /// The memory for differing rows without a key of a source at another node, in bytes. They must fit into one answer.
  private static let wholeBytesAfar = 1 << 20

  private let table: ComparedTable
  private let ends: CompareEnds
  private let watch: CompareWatch
  private let settling: any Settling
  let look: RowLook
  let verdict: RowVerdict
  private let report: (ProvenDifferences) throws -> Void
  private var waiting: [Suspect] = []
  private var waitingBytes = 0
  private var waitingSince: Int64 = 0
  /// The hashes of differing rows without a key that have not been read again yet.
  private var whole: [UInt64] = []
  private var wholeBytes = 0

  /// Creates a comparison of one table.
  ///
  /// - Parameter looks: The readers for single rows, on the calling thread.
  /// - Parameter report: Is called several times, each time with the results for some differing rows.
  init(
    _ table: ComparedTable, _ ends: CompareEnds, _ watch: CompareWatch, settling: any Settling,
    looks: (source: any RowReader, target: any RowReader), report: @escaping (ProvenDifferences) throws -> Void
  ) {
    (self.table, self.ends, self.watch, self.settling) = (table, ends, watch, settling)
    look = RowLook(table, source: looks.source, target: looks.target, seed: ends.seed)
    verdict = RowVerdict(table, server: (looks.target as? PostgresRowReader)?.connection)
    self.report = report
  }

  func run() throws {
    watch.update { ($0.table, $0.sourceRows, $0.targetRows) = (self.table.name, 0, 0) }
    if table.order == .ranges {
      try runByRanges()
    } else {
      try runByBuckets(BucketScan(table: table, ends: ends, watch: watch))
    }
    try settleAll()
  }

  private func runByRanges() throws {
    let scan = RangeScan(table: table, ends: ends, watch: watch)
    do {
      try scan.run { range in
        var part: KeyRange? = range
        while let next = part, !watch.stop.isSet { part = try narrow(scan, next) }
        try settleLate()
      } idle: {
        try settleLate()
      }
    } catch let error as RangeScan.Unordered {
      let range = error.range
      watch.update { ($0.sourceRows, $0.targetRows) = (range.rowsBefore, range.rowsBefore) }
      let after = try (source: range.after, target: range.after.map(table.targetKey))
      try runByBuckets(BucketScan(table: table, ends: ends, watch: watch, part: .behind(after)))
    }
    guard table.isNullable else { return }
    try runByBuckets(BucketScan(table: table, ends: ends, watch: watch, part: .nullKeys))
  }

  /// Compares a range of keys row by row, but at most `range.count` + 1000 rows of the source. Returns the part of the
  /// range that was not compared; nil if there is none.
  private func narrow(_ scan: RangeScan, _ range: KeyRange) throws -> KeyRange? {
    let rows = range.count + 1000
    var narrowing = Narrowing(rows: range.count, isUnique: true)
    let end = try look.source.scan(
      table, .range(after: range.after, through: range.through, limit: rows), naming: true
    ) { mark in
      narrowing.takeSource(mark)
      try narrowing.check()
    }
    watch.rate.spend(end.bytes, watch.stop)
    let part = KeyRange(
      after: range.after, through: end.last ?? range.through, count: end.rows, sum: 0, rowsBefore: range.rowsBefore)
    try scan.scanTarget(look.target, part, naming: true) {
      narrowing.takeTarget($0)
    } between: { _ in
      try narrowing.drain(take)
    }
    try narrowing.finish(take)
    return end.last.map {
      KeyRange(after: $0, through: range.through, count: range.count, sum: 0, rowsBefore: range.rowsBefore + end.rows)
    }
  }

  private func runByBuckets(_ scan: BucketScan) throws {
    for group in try scan.run(bytesInMemory: Self.bytesInMemory) where !watch.stop.isSet {
      var narrowing = Narrowing(rows: group.rows, isUnique: false)
      try scan.scan(look.source, .source) { mark in
        guard group.contains(mark.keyHash) else { return }
        narrowing.takeSource(mark)
        try narrowing.check()
      }
      try scan.scan(look.target, .target) { mark in
        guard group.contains(mark.keyHash) else { return }
        narrowing.takeTarget(mark)
        try narrowing.check()
      } between: {
        try narrowing.drain(take)
      }
      try narrowing.finish(take)
      try settleLate()
    }
  }

  // MARK: Suspects

  private func take(_ suspect: Suspect) throws {
    watch.update { $0.suspects += 1 }
    guard suspect.isKeyed else {
      whole.append(suspect.hash)
      wholeBytes += suspect.rowBytes + RowCounts.hashBytes * 2
      if wholeBytes >= (ends.isAfar ? Self.wholeBytesAfar : Self.wholeBytes) { try settleWhole() }
      return
    }
    if waiting.isEmpty { waitingSince = Clock.monotonicMilliseconds }
    waiting.append(suspect)
    waitingBytes += suspect.rowBytes * 4 + Self.suspectBytes
    if waiting.count >= Self.batchRows || waitingBytes >= Self.batchBytes { try settleKeyed() }
  }

  private func settleLate() throws {
    if Clock.monotonicMilliseconds - waitingSince > 1000 { try settleKeyed() }
  }

  private func settleAll() throws {
    try settleKeyed()
    try settleWhole()
  }

  private func settleKeyed() throws {
    let batch = waiting
    (waiting, waitingBytes) = ([], 0)
    guard !batch.isEmpty, !watch.stop.isSet else { return }
    try report(try settling.settle(look, verdict, keyed: batch))
  }

  private func settleWhole() throws {
    let batch = whole.sorted()
    (whole, wholeBytes) = ([], 0)
    guard !batch.isEmpty, !watch.stop.isSet else { return }
    try settling.settle(look, verdict, whole: batch, report)
  }
}
