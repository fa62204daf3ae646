import Changes
import Mapping
import SystemKit

/// A range of the key in the source's values.
struct KeyRange: Sendable {
  let after: [Value]?
  let through: [Value]?
  let count: Int
  let sum: UInt64
}

/// Reads a table in ranges of its key at both ends, each end on a thread of its own, and finds the ranges that differ.
///
/// The borders are those of the source's ranges; the last one is open, so that nothing at the target is left out. Each
/// range is a read of its own, some 250 ms long.
struct RangeScan: Sendable {
  /// A key of the source has no place in the target's order.
  struct Unordered: Error {}

  private static let millisecondsGoal: Int64 = 250
  private static let rowsMax = 50_000

  let table: ComparedTable
  let ends: CompareEnds
  let watch: CompareWatch

  /// Calls `narrow` with each range that differs, while the scan goes on.
  func run(_ narrow: (KeyRange) throws -> Void) throws {
    let ranges = BoundedQueue<KeyRange>(capacity: 8)
    let unequal = BoundedQueue<KeyRange>(capacity: 64)
    let source = WorkerThread({ Result { try self.readSource(into: ranges) } }, finished: { ranges.close() })
    let target = WorkerThread(
      { Result { try self.readTarget(ranges, into: unequal) } },
      finished: {
        ranges.close()
        unequal.close()
      })
    var failure: (any Error)?
    while let range = unequal.next() {
      guard failure == nil else { continue }
      do { try narrow(range) } catch {
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
    var limit = 2000
    var rowBytes = 100
    while !watch.stop.isSet {
      let begun = Clock.monotonicMilliseconds
      var sum: UInt64 = 0
      let wanted = watch.rate.rows(limit, of: rowBytes)
      let end = try reader.scan(table, .range(after: after, through: nil, limit: wanted), naming: false) { mark in
        sum &+= mark.rowHash
      }
      watch.count(.source, rows: end.rows, bytes: end.bytes)
      guard ranges.append(KeyRange(after: after, through: end.last, count: end.rows, sum: sum)) else { return }
      let took = Clock.monotonicMilliseconds - begun
      if took < Self.millisecondsGoal / 2 { limit = min(limit * 2, Self.rowsMax) }
      if took > Self.millisecondsGoal * 2 { limit = max(limit / 2, 20) }
      if end.rows > 0 { rowBytes = end.bytes / end.rows }
      guard let last = end.last else { return }
      after = last
      watch.rate.spend(end.bytes, watch.stop)
    }
  }

  private func readTarget(_ ranges: BoundedQueue<KeyRange>, into unequal: BoundedQueue<KeyRange>) throws {
    let reader = try ends.reader(.target)
    while let range = ranges.next() {
      var sum: UInt64 = 0
      let end = try reader.scan(table, try targetSlice(range), naming: false) { mark in sum &+= mark.rowHash }
      watch.count(.target, rows: end.rows, bytes: end.bytes)
      if end.rows != range.count || sum != range.sum, !unequal.append(range) { return }
      watch.rate.spend(end.bytes, watch.stop)
    }
  }

  func targetSlice(_ range: KeyRange) throws -> Slice {
    func there(_ key: [Value]?) throws -> [Value]? {
      guard let key else { return nil }
      do throws(Misfit) { return try table.targetKey(key) } catch { throw Unordered() }
    }
    return .range(after: try there(range.after), through: try there(range.through), limit: nil)
  }
}
