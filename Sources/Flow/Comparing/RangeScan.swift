import Changes
import Mapping
import SystemKit

/// A range of the key, with bounds as the source stores them.
struct KeyRange: Sendable {
  let after: [Value]?
  let through: [Value]?
  let count: Int
  let sum: UInt64
  let rowsBefore: Int
}

private struct ReadPace {
  private static let millisecondsGoal: Int64 = 250
  private static let rowsMax = 50_000
  private static let bytesMax = 8 << 20

  private(set) var rows = 2000
  private(set) var rowBytes = 100

  mutating func took(_ milliseconds: Int64, _ end: SliceEnd) {
    if end.rows > 0 { rowBytes = max(1, end.bytes / end.rows) }
    if milliseconds < Self.millisecondsGoal / 2 { rows = min(rows * 2, Self.rowsMax) }
    if milliseconds > Self.millisecondsGoal * 2 { rows /= 2 }
    rows = max(20, min(rows, Self.bytesMax / rowBytes))
  }
}

/// Reads a table in ranges of its key at both ends, each on its own thread, and finds the ranges that differ. A range
/// has as many rows as the source reads in some 250 ms.
struct RangeScan: Sendable {
  /// A key of the source does not fit the key's type at the target. From the start of `range` on, rows cannot be
  /// matched by ranges of the key.
  struct Unordered: Error { let range: KeyRange }

  let table: ComparedTable
  let ends: CompareEnds
  let watch: CompareWatch

  /// Calls `narrow` with each differing range, while other threads read on. Calls `idle` whenever a second passes
  /// without another differing range.
  func run(_ narrow: (KeyRange) throws -> Void, idle: () throws -> Void) throws {
    let ranges = BoundedQueue<KeyRange>(capacity: 8)
    let unequal = BoundedQueue<KeyRange>(capacity: 64)
    let source = try WorkerThread({ Result { try self.readSource(into: ranges) } }, finished: { ranges.close() })
    let target: WorkerThread<Result<Void, any Error>>
    do throws(CairnError) {
      target = try WorkerThread(
        { Result { try self.readTarget(ranges, into: unequal) } },
        finished: {
          ranges.close()
          unequal.close()
        })
    } catch {
      ranges.close()
      _ = source.join()
      throw error
    }
    var failure: (any Error)?
    while true {
      let isIdle = !unequal.wait(milliseconds: 1000)
      let range = isIdle ? nil : unequal.next()
      guard isIdle || range != nil else { break }
      guard failure == nil else { continue }
      do {
        if let range { try narrow(range) } else { try idle() }
      } catch {
        failure = error
        ranges.close()
        unequal.close()
      }
    }
    let outcomes = [source.join(), target.join()]
    if let failure { throw failure }
    for case .failure(let error)? in outcomes { throw error }
  }

  private func readSource(into ranges: BoundedQueue<KeyRange>) throws {
    let reader = try ends.reader(.source)
    var after: [Value]?
    var pace = ReadPace()
    var rows = 0
    while !watch.stop.isSet {
      let begun = Clock.monotonicMilliseconds
      var sum: UInt64 = 0
      let limit = watch.rate.rows(pace.rows, of: pace.rowBytes)
      let end = try reader.scan(table, .range(after: after, through: nil, limit: limit), naming: false) { mark in
        sum &+= mark.rowHash
      }
      watch.count(.source, rows: end.rows, bytes: end.bytes)
      let range = KeyRange(after: after, through: end.last, count: end.rows, sum: sum, rowsBefore: rows)
      guard ranges.append(range) else { return }
      rows &+= end.rows
      pace.took(Clock.monotonicMilliseconds - begun, end)
      guard let last = end.last else { return }
      after = last
      watch.rate.spend(end.bytes, watch.stop)
    }
  }

  private func readTarget(_ ranges: BoundedQueue<KeyRange>, into unequal: BoundedQueue<KeyRange>) throws {
    let reader = try ends.reader(.target)
    while let range = ranges.next() {
      var sum: UInt64 = 0
      var count = 0
      try scanTarget(reader, range, naming: false) { mark in
        sum &+= mark.rowHash
      } between: { end in
        count += end.rows
        watch.count(.target, rows: end.rows, bytes: end.bytes)
      }
      if count != range.count || sum != range.sum, !unequal.append(range) { return }
    }
  }

  /// Reads the target's rows of a range, in several parts if there are more rows than one read may return.
  ///
  /// - Parameter between: Is called after each part, when `reader` is free for other reads.
  func scanTarget(
    _ reader: any RowReader, _ range: KeyRange, naming: Bool, _ body: (borrowing RowMark) throws -> Void,
    between: (SliceEnd) throws -> Void
  ) throws {
    func there(_ key: [Value]?) throws -> [Value]? {
      guard let key else { return nil }
      do throws(Misfit) { return try table.targetKey(key) } catch { throw Unordered(range: range) }
    }
    let through = try there(range.through)
    var after = try there(range.after)
    var pace = ReadPace()
    repeat {
      let begun = Clock.monotonicMilliseconds
      let limit = max(range.count + 1, watch.rate.rows(pace.rows, of: pace.rowBytes))
      let end = try reader.scan(table, .range(after: after, through: through, limit: limit), naming: naming, body)
      pace.took(Clock.monotonicMilliseconds - begun, end)
      try between(end)
      watch.rate.spend(end.bytes, watch.stop)
      after = end.last
    } while after != nil && !watch.stop.isSet
  }
}
