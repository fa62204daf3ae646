import Changes
import SQLiteKit
import SystemKit
import Trails

/// Captures one SQLite file into a trail: by triggers, journal and refresh (`docs/sqlite-capture.md`).
///
/// One blocking worker on one thread. ``CaptureLoop`` runs it; how changes are found, only ``TriggerSource`` knows.
package final class SQLiteCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var journalCapRows = Journal.defaultCapRows
    package var journalCapBytes = Journal.capBytes
    /// The folder of the trail, for the error of another capture of the same source.
    package var place = ""
    /// Whether rows are sent that existed before capture began; if not, they arrive another way.
    package var copiesRows = true
    /// Whether rows that applies write go into the trail too.
    package var relays = false
    /// How far the clocks of other nodes may be ahead of this node's, µs: no note of an apply moves the trail's clock
    /// further.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    /// Whether a source without tables is an error.
    package var needsTables = true
    /// Whether statements that applications report go into the trail.
    package var statements = true
    /// Whether only the net changes of each look go into the trail, as one transaction without statements.
    package var folds = false
    /// The lock that keeps the reading of copies apart from two-way applies; nil if there are none.
    package var turns: AlternatingLock?
    package init() {}
  }

  private let loop: CaptureLoop<TriggerSource>

  /// Opens the source, puts capture into it where it is not, and proves that it is where the trail ends.
  ///
  /// Errors: everything that ``SQLiteError`` maps to; `source-captured`, `source-went-back`, `table-refused`.
  package init(
    path: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    let source = try TriggerSource(path: path, trail: trail, options: options, clock: clock, progress: progress)
    loop = CaptureLoop(path: path, source: source, trail: trail, progress: progress)
  }

  /// Takes what the source commits until `stop` is set; with `untilCaughtUp`, until everything that was committed
  /// before the call is in the trail and every table is copied.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    try loop.run(stop: stop, untilCaughtUp: untilCaughtUp)
  }

  /// The fault of a source whose journal belongs to another trail that was kept in the same place.
  package static let otherState =
    "its journal belongs to another trail that was kept in the same place, so this state folder is not the one that was used last"

  static func wentBack(_ path: String, _ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(path) is not where the trail ends: \(how)",
      hint:
        "it was restored or replaced; if both ends are written, the other end may hold newer rows: run 'cairn detach' on both and replicate into a new --state from the end that is to be kept, with --existing overwrite"
    )
  }
}
