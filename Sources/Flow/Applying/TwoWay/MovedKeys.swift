import Changes
import Mapping

/// The SQLite databases in which a two-way table must not have a foreign key to itself with ON UPDATE CASCADE. A row
/// that refers to itself may differ between the nodes after its key has changed.
///
///     CREATE TABLE part(id INTEGER PRIMARY KEY, whole INTEGER REFERENCES part(id) ON UPDATE CASCADE)
package struct MovedKeys: Sendable {
  /// Whether this database is one of them.
  package var areRefusedHere = false
  /// The trails of the others.
  package var refusedTrails: Set<TrailName> = []

  package init() {}

  package static let reason =
    "it has a foreign key to itself with ON UPDATE CASCADE, and a row that refers to itself may keep its old key in the reference at the other node if the key changes"

  /// Throws `table-refused` for such a table. Apply then suspends it.
  ///
  /// - Parameter source: The table's schema in the trail.
  /// - Parameter target: The table's schema in this database.
  func check(_ source: TableSchema, _ target: TableSchema, from trail: TrailName) throws {
    let isRefused =
      (areRefusedHere && target.engine == .sqlite && target.movesOwnKeys)
      || (refusedTrails.contains(trail) && source.engine == .sqlite && source.movesOwnKeys)
    guard isRefused else { return }
    throw CairnError(
      .tableRefused, "table \(source.fullName) cannot be replicated two-way: \(Self.reason)",
      hint:
        "if applications change no keys of such rows, run with --accept-moved-keys, or write moved_keys = \"accept\" into the [database] of the file; or leave the table out: \([source.fullName].leftOut)",
      context: ["table": source.fullName])
  }
}

extension TableSchema {
  /// Whether a foreign key of an SQLite table leads to the table itself and has ON UPDATE CASCADE.
  package var movesOwnKeys: Bool {
    foreignKeys.contains { $0.table.sqliteKey == name.sqliteKey && $0.onUpdate.asciiUppercased == "CASCADE" }
  }
}
