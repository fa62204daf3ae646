import Glibc
import SystemKit
import Trails

/// How many bytes a replication puts into its trail, also those of segments that are purged meanwhile: each gets a
/// second name, by which its size is known in the end.
final class TrailTally {
  private let state: String
  private let kept: String
  private let before: UInt64

  init(_ stage: Stage, _ replication: Replication) throws {
    state = replication.state
    kept = try stage.freshFolder("kept-segments")
    before = try Trail.list(state: state).reduce(0) { $0 + $1.bytes }
    try look()
  }

  /// To be called often.
  func look() throws {
    for trail in try Trail.names(state: state) {
      for name in try Folder.names("\(state)/\(trail)") where name.hasSuffix(".seg") {
        link("\(state)/\(trail)/\(name)", "\(kept)/\(name)")
      }
    }
  }

  /// Bytes since it was made. The last segment is longer than what has been written to it, which the trail knows.
  func bytes() throws -> Double {
    try look()
    var sum: UInt64 = 0
    var live: [UInt64: UInt64] = [:]
    for info in try Trail.list(state: state) {
      for segment in info.segments where !segment.isSealed { live[segment.number] = segment.bytes }
    }
    for name in try Folder.names(kept) {
      let number = UInt64(name.prefix { $0 != "." }, radix: 16) ?? 0
      sum += try live[number] ?? File("\(kept)/\(name)", .read).size
    }
    return Double(sum) - Double(before)
  }
}
