import Changes
import SQLiteKit
import SystemKit
import Trails

/// Captures one SQLite file into a trail by triggers and a journal (`docs/explanation/sqlite-capture.md`). A capture
/// blocks one thread.
///
///     let capture = try SQLiteCapture(path: "shop.db", trail: writer, options: .init())
///     try capture.run(stop: stop, untilCaughtUp: false)
package final class SQLiteCapture {
  /// The settings of one capture.
  ///
  ///     var options = SQLiteCapture.Options()
  ///     options.tables = TablePatterns(["*", "!log_*"])
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var journalCapRows = Journal.defaultCapRows
    package var journalCapBytes = Journal.capBytes
    /// The folder of the trail. Capture stores the folder's path in the source.
    package var place = ""
    /// Whether to send the rows that exist when capture begins, in an initial load of each table.
    package var copiesRows = true
    /// Whether rows that an apply writes to the file also go into the trail.
    package var relays = false
    /// The largest allowed lead of another node's clock, µs. A larger lead in the journal is reduced to this value.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    /// Whether a source without tables is an error.
    package var needsTables = true
    /// Whether statements that applications report go into the trail.
    package var statements = true
    /// Whether to write only the net changes of each reading of the journal, as one transaction without statements.
    package var folds = false
    /// The lock that keeps two-way applies from writing while capture reads table rows; nil without two-way apply.
    package var turns: AlternatingLock?
    package init() {}
  }

  /// The notice for a source whose target no audit compares: Cairn may not notice some writes.
  package static let unseenNotice =
    "a write made with triggers switched off may stay unnoticed: if a program makes such writes, run 'cairn compare'"

  private let loop: CaptureLoop<TriggerSource>

  /// Opens the source, adds missing triggers and tables, and checks that the source still has everything that the trail
  /// has.
  ///
  /// - Throws: ``SQLiteError``; `source-captured`, `source-went-back`, `table-refused`.
  package init(
    path: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    let source = try TriggerSource(path: path, trail: trail, options: options, clock: clock, progress: progress)
    loop = CaptureLoop(path: path, source: source, trail: trail, progress: progress)
  }

  /// Captures the commits of the source until `stop` is set.
  ///
  /// - Parameter untilCaughtUp: Whether to end when the trail has all commits from before the call, and no table waits
  ///   for a refresh.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    try loop.run(stop: stop, untilCaughtUp: untilCaughtUp)
  }

  /// The message for a source whose journal belongs to an earlier trail in the same folder.
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
