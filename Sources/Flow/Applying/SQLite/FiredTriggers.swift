import Changes
import SQLiteKit

/// The triggers of an SQLite target that fire while apply writes, because `fire_triggers` names them.
///
/// Triggers of the file are switched off on apply's connection. Those that must fire are copied to the schema `temp`,
/// where SQLite fires them.
final class FiredTriggers {
  private static let prefix = "cairn_fired_"

  private let database: Database
  private let fires: (String) -> Bool
  /// SQLite's schema version when the TEMP triggers were created, and their number; nil if none were created.
  private var made: (version: Int64, count: Int)?

  /// Selects the triggers that fire, by patterns of their names. Without patterns, none fires.
  init(_ database: Database, patterns: [String]) throws {
    self.database = database
    let listed = TablePatterns(patterns)
    fires = { listed.includes($0) }
    isUsed = !patterns.isEmpty
    guard isUsed else { return }
    // A row that REPLACE deletes must leave the index too. FTS5 counts as unsafe in triggers unless the schema is
    // trusted.
    try database.executeScript("PRAGMA recursive_triggers = ON")
    database.trustSchema()
  }

  let isUsed: Bool

  func includes(_ trigger: String) -> Bool { isUsed && fires(trigger) }

  /// Copies the triggers that must fire to the schema `temp`, if the file's schema has changed or copies are missing.
  /// Called in apply's write transaction.
  func keepInStep() throws {
    guard isUsed else { return }
    let version = try database.integer("PRAGMA schema_version") ?? 0
    let there = try copies()
    if let made, made.version == version, made.count == there.count { return }
    try drop(there)
    var count = 0
    for trigger in try database.storedTriggers() where fires(trigger.name) {
      guard let statement = trigger.temporary("\(Self.prefix)\(count)") else { continue }
      try database.execute(statement)
      count += 1
    }
    made = (version, count)
  }

  /// Drops the triggers that were copied to the schema `temp`. Called before a schema change, which fails while they
  /// exist.
  func release() throws {
    guard isUsed else { return }
    try drop(copies())
    made = nil
  }

  private func copies() throws -> [String] {
    try database.query("SELECT name FROM sqlite_temp_master WHERE type = 'trigger'").map { $0[0].string }
      .filter { $0.hasPrefix(Self.prefix) }
  }

  private func drop(_ names: [String]) throws {
    for name in names { try database.execute("DROP TRIGGER temp.\(name.quotedName)") }
  }
}

extension SQLiteTarget {
  /// Gives a notice for each trigger of `table` that would write to a virtual table, if the trigger does not fire while
  /// apply writes.
  func noteQuietTriggers(of table: String) throws {
    let virtual = try database.virtualTables()
    guard !virtual.isEmpty else { return }
    for trigger in try database.storedTriggers(of: table) {
      let stale = trigger.written.filter { virtual.contains($0.sqliteKey) }
      guard !stale.isEmpty, !fired.includes(trigger.name) else { continue }
      progress.note(QuietTrigger(trigger, stale: stale).text)
    }
  }
}

/// A trigger that does not fire while apply writes, with the tables that it would otherwise keep up to date.
package struct QuietTrigger {
  package let trigger: String
  package let table: String
  package let stale: [String]

  init(_ trigger: StoredTrigger, stale: [String]) {
    (self.trigger, table, self.stale) = (trigger.name, trigger.table, stale)
  }

  /// Returns triggers that do not fire while an apply writes their tables, so that other tables get out of date.
  ///
  /// - Parameter tables: The names, at the target, of the tables that the apply writes.
  /// - Parameter patterns: The setting `fire_triggers`.
  package static func all(in database: Database, tables: [String], firing patterns: [String]) throws -> [QuietTrigger] {
    let names = Set(tables.map { $0.sqliteKey })
    let there = Set(
      try database.query("SELECT name FROM sqlite_master WHERE type = 'table'").map { $0[0].string.sqliteKey })
    let fired = patterns.isEmpty ? nil : TablePatterns(patterns)
    return try database.storedTriggers().compactMap { trigger in
      guard names.contains(trigger.table.sqliteKey), fired?.includes(trigger.name) != true else { return nil }
      let stale = trigger.written.filter { !names.contains($0.sqliteKey) && there.contains($0.sqliteKey) }
      return stale.isEmpty ? nil : QuietTrigger(trigger, stale: stale)
    }
  }

  package var text: String {
    "trigger \(trigger) of table \(table) does not fire while apply writes, so \(stale.joined(separator: ", ")) goes stale: let it fire with fire_triggers = [\(trigger.confText)] in [apply.NAME], or rebuild what it keeps"
  }
}
