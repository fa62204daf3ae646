import Applying
import Capturing
import Changes
import Endpoints
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// A run of a capture, with its settings.
///
///     var run = CaptureRun(.sqlite(path: "shop.db"), trail: trail, folder: folder, place: folder)
///     run.tables = TablePatterns(["orders"])
package struct CaptureRun: Sendable {
  package let source: DatabaseURL
  package let trail: TrailName
  package let folder: String
  /// The folder that identifies this capture in the errors of other processes that try to capture the same source.
  package let place: String
  package var tables = TablePatterns()
  package var journalRows = Journal.defaultCapRows
  /// Whether the SQL statements of applications go into the trail, in addition to the changed rows.
  package var statements = true
  /// Whether the rows that exist when capture begins go into the trail.
  package var copiesRows = true
  package var needsTables = true
  /// The highest size of one transaction in the trail, in bytes; nil: there is no limit.
  package var transactionBytesMax: UInt64?
  /// Whether a PostgreSQL capture starts a refresh of every table, and replaces a slot that the server has lost.
  package var copiesAgain = false
  package var clock = Clock.system
  /// The link between capture and the two-way apply workers of the database; nil if there are no such workers.
  package var link: CaptureLink?
  /// The trails whose rows a PostgreSQL capture skips after apply has written them to the source; nil for all trails.
  package var applies: Set<String>?
  /// Whether rows that apply writes to the source go into the trail too.
  package var relays = false
  /// Whether two-way apply workers write to the source.
  package var goesBothWays = false
  /// The maximum time, in µs, by which another node's clock may be ahead of this node's clock.
  package var skewMicrosecondsMax: Int64 = 60_000_000
  /// Whether an SQLite capture reduces the changes of one reading to their net effect.
  package var folds = false

  /// A function that returns the tables to capture, called after the trail is locked and before the source is opened.
  /// If nil, ``tables`` is used.
  package var begin: (@Sendable () throws -> TablePatterns)?
  /// A function that is called when the trail is open, after the removal of an unfinished transaction at the trail's
  /// end.
  package var opened: @Sendable () -> Void = {}

  package init(_ source: DatabaseURL, trail: TrailName, folder: String, place: String) {
    (self.source, self.trail, self.folder, self.place) = (source, trail, folder, place)
  }

  /// Opens trail and source, calls `ready`, and captures until `stop` is set.
  /// - Parameter untilCaughtUp: Whether the run ends when the trail has everything that was committed before the call.
  package func run(stop: StopSignal, untilCaughtUp: Bool, progress: CaptureProgress, ready: () -> Void) throws {
    var sizes = TrailOptions()
    sizes.transactionBytesMax = transactionBytesMax
    let writer = try TrailWriter.open(
      folder: folder, name: trail, options: sizes, now: { [clock] in clock.microseconds() })
    opened()
    if let cut = writer.recovery {
      progress.tell(
        "removed \(cut.bytes.counted("byte")) of an unfinished transaction from the end of the trail at \(cut.position)"
      )
    }
    do {
      let tables = try begin?() ?? tables
      switch source {
      case .sqlite(let path):
        var options = SQLiteCapture.Options()
        options.tables = tables
        options.journalCapRows = journalRows
        options.copiesRows = copiesRows
        options.statements = statements
        options.needsTables = needsTables
        options.place = place
        options.folds = folds
        options.relays = relays
        options.turns = link?.turns
        options.skewMicrosecondsMax = skewMicrosecondsMax
        let capture = try SQLiteCapture(path: path, trail: writer, options: options, clock: clock, progress: progress)
        ready()
        try capture.run(stop: stop, untilCaughtUp: untilCaughtUp)
      case .postgres(let uri):
        var options = PostgresCapture.Options()
        options.tables = tables
        options.place = place
        options.copiesAgain = copiesAgain
        options.copiesRows = copiesRows
        options.needsTables = needsTables
        (options.watch, options.turns) = (link?.watch, link?.turns)
        options.applies = applies
        options.relays = relays
        options.goesBothWays = goesBothWays
        options.skewMicrosecondsMax = skewMicrosecondsMax
        let capture = try PostgresCapture(uri: uri, trail: writer, options: options, clock: clock, progress: progress)
        ready()
        try capture.run(stop: stop, untilCaughtUp: untilCaughtUp)
      }
    } catch {
      try? writer.close()
      throw error
    }
    try writer.close()
  }
}

/// A run of an apply, with its settings.
///
///     let run = ApplyRun(.sqlite(path: "copy.db"), trail: trail, folder: folder, options: ApplyOptions())
///     try run.run(stop: stop, drain: drain, progress: ApplyProgress())
package struct ApplyRun: Sendable {
  package let target: DatabaseURL
  package let trail: TrailName
  package let folder: String
  package let options: ApplyOptions

  package init(_ target: DatabaseURL, trail: TrailName, folder: String, options: ApplyOptions) {
    (self.target, self.trail, self.folder, self.options) = (target, trail, folder, options)
  }

  /// Applies transactions until `stop` is set. After `drain` is set, the run also ends at the end of the trail.
  package func run(stop: StopSignal, drain: StopSignal, progress: ApplyProgress) throws {
    switch target {
    case .sqlite(let path):
      var options = options
      // The file may be captured, now or later: keep its triggers in step with the schema.
      options.schemaFollower = SchemaFollower(
        release: { try AppliedSchema.release($0, in: $1, since: $2) },
        adopt: { [trail] in try AppliedSchema.adopt(in: $0, since: $1, of: trail) },
        hook: { try AppliedRows.hook(in: $0) }, unhook: { try AppliedRows.unhook(in: $0) })
      let apply = try SQLiteApply(path: path, trail: folder, name: trail, options: options, progress: progress)
      try apply.run(stop: stop, drain: drain)
    case .postgres(let uri):
      let apply = try PostgresApply(uri: uri, trail: folder, name: trail, options: options, progress: progress)
      try apply.run(stop: stop, drain: drain)
    }
  }
}
