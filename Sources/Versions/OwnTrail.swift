import Changes
import Synchronization
import SystemKit
import Trails

/// The own trail as the window reads it: one reader, which goes on where it was, whichever apply asks.
final class OwnTrail: @unchecked Sendable {
  let folder: String
  /// Everything below is under it.
  private let lock = Condition()
  private var scan: TrailScan?
  /// The durable end when that was asked last.
  private let end = Mutex<(id: TrailID, lastTransaction: UInt64)?>(nil)
  /// The segment in which the next transaction stood when that was asked last.
  private let segment = Mutex<UInt64?>(nil)

  init(_ folder: String) { self.folder = folder }

  /// Reads on to the durable end. `from`: the first transaction that is of interest. `identify`: called with the id of the
  /// trail before it is read. Nil where there is no such trail yet.
  func readOn(
    from number: () -> UInt64, _ identify: (TrailID) throws -> Void, _ rowNames: TrailScan.RowNames,
    _ take: (TrailScan.Part, _ isEnd: Bool) throws -> Void
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
      guard let count = try scan?.run(through: .max, rowNames, take), let scan else { return nil }
      return (
        count,
        OwnReach(
          number: scan.number, sourcePosition: scan.sourcePosition.isEmpty ? before : scan.sourcePosition,
          position: scan.reader.commitPosition)
      )
    } catch {
      // It may stand inside of a transaction: whoever asks next begins anew behind the last whole one.
      scan = nil
      throw error
    }
  }
}

extension OwnTrail {
  /// The id and the last durable transaction of the trail, if that is before `number`; nil if the trail has `number`, or if
  /// there is no trail.
  func end(before number: UInt64) throws -> (id: TrailID, lastTransaction: UInt64)? {
    try end.withLock { end in
      if let known = end, known.lastTransaction >= number { return nil }
      end = try Trail.end(folder: folder)
      guard let known = end, known.lastTransaction < number else { return nil }
      return known
    }
  }

  /// The start of the segment in which a transaction stands. To be asked for rising numbers.
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

  /// Whether many segments stand behind the one of a transaction. To be asked for rising numbers.
  func hasMuch(behind number: UInt64) throws -> Bool {
    guard Trail.exists(folder: folder) else { return false }
    return try Trail.firstTransaction(folder: folder, ofSegment: start(of: number).segment + Self.segmentsMany) != nil
  }
}

/// How far the own trail has been read.
struct OwnReach {
  var number: UInt64
  var sourcePosition: [UInt8]
  var position: Position
}
