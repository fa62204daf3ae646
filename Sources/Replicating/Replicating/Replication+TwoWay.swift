import Changes
import Endpoints

// The check of both databases before a two-way replication starts, and the hints if it cannot continue.
extension Replication {
  /// Writes warnings about the tables of both databases, such as keys that both would generate for different rows.
  /// - Throws: `table-refused` for a table that cannot be replicated two-way, such as a table without a key. Once the
  ///   replication has begun, only a warning is written: capture and apply suspend such a table, and the others go on.
  func checkTwoWay(_ from: SourceDatabase, _ to: TargetDatabase) throws {
    let other = try to.isMissing ? nil : SourceDatabase(target)
    // Once it has begun, captures go on without a table that its owner keeps locked.
    let hasBegun = try to.checkpoint(of: trail) != nil
    let tables = try from.tables(options.tables, passesLocked: hasBegun).filter { !$0.isLocked }
    let theirs = try other?.tables(options.tables, passesLocked: hasBegun).filter { !$0.isLocked } ?? []
    let ends =
      [(from, tables, (engine: target.engine, tables: theirs))]
      + (other.map { [($0, theirs, (engine: source.engine, tables: tables))] } ?? [])
    for (end, tables, beside) in ends {
      try TwoWayCheck.passing(ifBegun: hasBegun, warn: captureProgress.tell) {
        try TwoWayCheck.checkKeys(end, tables, beside: beside) { "leave it out: --tables \("*,!\($0)".shellWord)" }
      }
      try TwoWayCheck.passing(ifBegun: hasBegun, warn: captureProgress.tell) {
        if options.acceptsMovedKeys { return }
        try TwoWayCheck.checkMovedKeys(end, tables) {
          "leave it out: --tables \("*,!\($0)".shellWord); or, if applications change no keys of such rows, run with --accept-moved-keys"
        }
      }
      for warning in try TwoWayCheck.warnings(end, tables, beside: beside.engine) { captureProgress.tell(warning) }
    }
    if let alike = try TwoWayCheck(from, tables, other, at: target).keysAlike() {
      captureProgress.tell("\(alike.message); \(alike.hint)")
    }
  }

  /// The steps in a hint that refresh all tables, with the direction that keeps newer rows.
  var copyingAgain: String {
    guard back != nil else { return "copy everything again with --existing overwrite" }
    return copying(from: source, to: target)
  }

  /// Runs the worker of a two-way replication that reads or writes the database `end`. After a
  /// restore or a loss, the hint of the error names the direction that keeps the rows of the other end.
  func hinting(at end: DatabaseURL, _ body: () throws -> Void) throws {
    do { try body() } catch let error as CairnError {
      let other = end == source ? target : source
      let hint: String
      switch error.code {
      case .sourceWentBack: hint = "if it was restored or replaced, \(copying(from: other, to: end))"
      case .checkpointForeign:
        hint = "put back the state folder that was used last; if it is lost, \(copying(from: source, to: target))"
      case .slotLost: hint = "a new slot and a copy are needed: \(copying(from: end, to: other))"
      default: throw error
      }
      throw CairnError(error.code, error.message, hint: hint, remedy: error.remedy, context: error.context)
    }
  }

  private func copying(from kept: DatabaseURL, to other: DatabaseURL) -> String {
    let (kept, other) = (kept.shown.shellWord, other.shown.shellWord)
    let ends = "--from \(kept) --to \(other)"
    return
      "run: cairn detach \(kept); cairn detach \(other); cairn replicate --two-way --existing overwrite \(ends), with a new --state; this keeps only the rows of --from: exchange the ends if cairn compare \(ends) shows that the other one has newer rows"
  }
}
