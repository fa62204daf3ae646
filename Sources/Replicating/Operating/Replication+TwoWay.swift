import Changes

// The check of both databases before a two-way replication starts.
extension Replication {
  /// Writes warnings about the tables of both databases, such as keys that both would generate for different rows.
  /// - Throws: `table-refused` for a table that cannot be replicated two-way, such as a table without a key.
  func checkTwoWay(_ from: SourceEnd, _ to: TargetEnd) throws {
    let other = try to.isMissing ? nil : SourceEnd(target)
    let tables = try from.tables(options.tables)
    let theirs = try other?.tables(options.tables) ?? []
    let ends =
      [(from, tables, (engine: target.engine, tables: theirs))]
      + (other.map { [($0, theirs, (engine: source.engine, tables: tables))] } ?? [])
    for (end, tables, beside) in ends {
      try TwoWayCheck.checkKeys(end, tables, beside: beside) { "leave it out: --tables \("*,!\($0)".shellWord)" }
      if !options.acceptsMovedKeys {
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
}
