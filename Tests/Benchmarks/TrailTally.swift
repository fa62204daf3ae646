import Glibc
import SystemKit
import Trails

/// Counts the bytes that a replication writes into its trail, including segments that are purged meanwhile. Each
/// segment gets a second name, so that its final size stays known.
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

  /// Links new segments. Call it often.
  func look() throws {
    for trail in try Trail.names(state: state) {
      for name in try Folder.names("\(state)/\(trail)") where name.hasSuffix(".seg") {
        link("\(state)/\(trail)/\(name)", "\(kept)/\(name)")
      }
    }
  }

  /// Returns the bytes since the start. The file of the last segment is longer than its content, whose size the trail
  /// knows.
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
