import Changes
import Synchronization
import SystemKit
import Trails

/// The trail of this database's own capture, as the version window reads it. All apply workers share one reader.
final class OwnTrail: @unchecked Sendable {
  let folder: String
  private let lock = Condition()
  private var scan: TrailScan?
  private let end = Mutex<(id: TrailID, lastTransaction: UInt64)?>(nil)
  private let segment = Mutex<UInt64?>(nil)

  init(_ folder: String) { self.folder = folder }

  /// Reads the trail from transaction `number()` through the durable end, and passes each transaction to `take`.
  /// Returns the number of transactions and the end of the part read; nil if no such trail exists yet.
  ///
  /// - Parameter identify: Is called with the id of the trail when the trail is opened, before its first transaction.
  func readOn(
    from number: () -> UInt64, _ identify: (TrailID) throws -> Void, _ rowNames: TrailScan.RowNames,
    learn: TrailScan.Learn, _ take: (TrailScan.Part, _ isEnd: Bool) throws -> Void
  ) throws -> (count: Int, reach: OwnReach)? {
    lock.lock()
    defer { lock.unlock() }
    do {
      let first = number()
      let before = scan?.sourcePosition ?? []
      if try scan?.skip(to: first, in: folder) == false { scan = nil }
      if try scan?.reader.isInPlace == false { scan = nil }
      if scan == nil {
        guard Trail.exists(folder: folder) else { return nil }
        scan = try TrailScan(folder: folder, from: first)
        if let scan { try identify(scan.reader.id) }
      }
      guard let count = try scan?.run(through: .max, rowNames, learn: learn, take), let scan else { return nil }
      return (
        count,
        OwnReach(
          number: scan.number, sourcePosition: scan.sourcePosition.isEmpty ? before : scan.sourcePosition,
          position: scan.reader.commitPosition)
      )
    } catch {
      // The reader may be inside a transaction: the next call reads again from the end of the last whole one.
      scan = nil
      throw error
    }
  }
}

extension OwnTrail {
  /// Returns the id and the last durable transaction of the trail, if transaction `number` is after its durable end;
  /// otherwise nil.
  func end(before number: UInt64) throws -> (id: TrailID, lastTransaction: UInt64)? {
    try end.withLock { end in
      if let known = end, known.lastTransaction >= number { return nil }
      end = try Trail.end(folder: folder)
      guard let known = end, known.lastTransaction < number else { return nil }
      return known
    }
  }

  /// Returns the start of the segment that contains a transaction. `number` must not be lower than in an earlier call.
  func start(of number: UInt64) throws -> Position {
    try segment.withLock { known in
      guard var segment = known else {
        let start = try Trail.segmentStart(folder: folder, of: number).position
        known = start.segment
        return start
      }
      while let first = try Trail.firstTransaction(folder: folder, ofSegment: segment + 1), first <= number {
        segment += 1
      }
      known = segment
      return Position(segment: segment, offset: 0)
    }
  }

  private static let segmentsMany: UInt64 = 16

  /// Returns whether at least 16 segments follow the segment that contains a transaction. `number` must not be lower
  /// than in an earlier call.
  func hasMuch(behind number: UInt64) throws -> Bool {
    guard Trail.exists(folder: folder) else { return false }
    return try Trail.firstTransaction(folder: folder, ofSegment: start(of: number).segment + Self.segmentsMany) != nil
  }
}

/// The end of the part of this database's own trail that has been read.
struct OwnReach {
  var number: UInt64
  var sourcePosition: [UInt8]
  var position: Position
}
