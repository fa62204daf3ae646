import Changes
import SystemKit
import Trails

/// The own trail as the window reads it: one reader, which goes on where it was, whichever apply asks.
final class OwnTrail: @unchecked Sendable {
  let folder: String
  /// Everything below is under it.
  private let lock = Condition()
  private var scan: TrailScan?

  init(_ folder: String) { self.folder = folder }

  /// Reads on to the durable end. `from`: the first transaction that is of interest, when it is opened.
  /// Nil where there is no such trail yet.
  func readOn(
    from number: () -> UInt64, _ rowNames: TrailScan.RowNames,
    _ take: (TrailScan.Part, _ isEnd: Bool) throws -> Void
  ) throws -> (count: Int, reach: OwnReach)? {
    lock.lock()
    defer { lock.unlock() }
    do {
      if scan == nil {
        guard Trail.exists(folder: folder) else { return nil }
        scan = try TrailScan(folder: folder, from: number())
      }
      guard let count = try scan?.run(through: .max, rowNames, take), let scan else { return nil }
      return (
        count,
        OwnReach(number: scan.number, sourcePosition: scan.sourcePosition, position: scan.reader.commitPosition)
      )
    } catch {
      // It may stand inside of a transaction: whoever asks next begins anew behind the last whole one.
      scan = nil
      throw error
    }
  }
}

/// How far the own trail has been read.
struct OwnReach {
  var number: UInt64
  var sourcePosition: [UInt8]
  var position: Position
}
