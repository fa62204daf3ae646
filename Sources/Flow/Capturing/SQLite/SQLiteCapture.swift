import Changes
import SQLiteKit
import SystemKit
import Trails

/// Captures one SQLite file into a trail: by triggers, journal and refresh (`docs/explanation/sqlite-capture.md`).
///
/// The capture is one blocking worker on one thread. ``CaptureLoop`` runs it, and ``TriggerSource`` finds the changes.
package final class SQLiteCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var journalCapRows = Journal.defaultCapRows
    package var journalCapBytes = Journal.capBytes
    /// The folder of the trail, which is stored in the source. If another capture wants the same source, the error of
    /// that capture names this folder.
    package var place = ""
    /// Whether rows from before capture began are copied. If not, the targets must get these rows in another way.
    package var copiesRows = true
    /// Whether rows that an apply writes to the file also go into the trail.
    package var relays = false
    /// The largest allowed lead of another node's clock, µs. A clock in the journal that leads by more is reduced to
    /// this limit, so that the trail's clock does not follow it.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    /// Whether it is an error if the source has no tables.
    package var needsTables = true
    /// Whether statements that applications report go into the trail.
    package var statements = true
    /// Whether only the net changes of each reading of the journal go into the trail, as one transaction without
    /// statements.
    package var folds = false
    /// The lock that keeps every two-way apply from writing while capture reads rows for a copy; nil if there is no
    /// such apply.
    package var turns: AlternatingLock?
    package init() {}
  }

  /// The notice for a source whose target no audit compares: some writes may stay unnoticed.
  package static let unseenNotice =
    "writes with triggers switched off are noticed only by a running capture, in files up to 64 MiB: after others run 'cairn compare'"

  private let loop: CaptureLoop<TriggerSource>

  /// Opens the source, adds missing triggers and tables, and checks that the source still has everything that the trail
  /// has.
  ///
  /// Errors: the errors of ``SQLiteError``; `source-captured`, `source-went-back`, `table-refused`.
  package init(
    path: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    let source = try TriggerSource(path: path, trail: trail, options: options, clock: clock, progress: progress)
    loop = CaptureLoop(path: path, source: source, trail: trail, progress: progress)
  }

  /// Captures the commits of the source until `stop` is set. With `untilCaughtUp`, the run ends once the trail has
  /// every commit from before the call and a copy of every table.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    try loop.run(stop: stop, untilCaughtUp: untilCaughtUp)
  }

  /// The message for a source whose journal belongs to an earlier trail that was kept in the same folder.
  package static let otherState =
    "its journal belongs to another trail that was kept in the same place, so this state folder is not the one that was used last"

  static func wentBack(_ path: String, _ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(path) is not at the end of the trail: \(how)",
      hint:
        "it was restored or replaced; if both ends take writes, the other end may have newer rows: run 'cairn detach' on both and replicate into a new --state from the end whose rows to keep, with --existing overwrite"
    )
  }
}
