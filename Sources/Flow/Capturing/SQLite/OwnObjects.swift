import Changes
import SQLiteKit

/// The triggers and tables of Cairn in an SQLite file.
///
///     try OwnObjects(database).isEmpty   // true: the file has nothing of Cairn
package struct OwnObjects {
  let triggers: [String]
  let tables: [String]

  package var isEmpty: Bool { triggers.isEmpty && tables.isEmpty }

  /// Reads the names of all triggers and tables of Cairn.
  package init(_ database: Database) throws { try self.init(database, SQLiteTable.ownNames, withGuards: true) }

  /// - Parameter own: The tables that count as Cairn's.
  /// - Parameter withGuards: Whether the triggers that guard the target of an apply are included.
  init(_ database: Database, _ own: Set<NameKey>, withGuards: Bool) throws {
    let names = try database.query("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'table')")
    triggers = names.filter {
      $0[0].string == "trigger"
        && (CaptureTriggers.layout(ofTrigger: $0[1].string) != nil
          || withGuards && $0[1].string.hasPrefix(SQLiteTable.guardPrefix))
    }.map { $0[1].string }
    tables = names.filter { $0[0].string == "table" && own.contains($0[1].string) }.map { $0[1].string }
  }
}
