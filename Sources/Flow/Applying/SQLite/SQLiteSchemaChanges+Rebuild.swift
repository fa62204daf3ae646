import Changes
import Mapping
import SQLiteKit

// The rebuild of a table with another statement, its rows and its indexes.
extension SQLiteSchemaChanges {
  func rebuild(_ alteration: SQLiteAlteration, _ change: Change) throws {
    let doubtful = change.plan.isRefreshed ? [] : alteredAffinities(alteration)
    let counts = try doubtful.map { try storage(alteration.there.name, $0.old, isBefore: $0.isReal) }
    for statement in alteration.rebuild {
      let isTrigger = alteration.triggers.contains { $0.text == statement }
      let isIndex = alteration.rebuiltIndexes.contains(statement)
      do {
        try isIndex ? define(index: statement, change) : define(statement, change)
      } catch let error as SQLiteError where error.isSchemaRefusal || error.isConstraint || error.isMismatch {
        try? database.execute(SQLiteAlteration.presentRules)
        // The rows come again, but not the values of columns that only the target has.
        if !alteration.extras.isEmpty, statement == alteration.copy { throw refused(change, error, alteration) }
        if change.plan.isRefreshed, statement == alteration.copy { continue }
        if change.plan.isRefreshed, isIndex {
          try create(index: statement, alteration, change)
          continue
        }
        if isTrigger, statement.contains("cairn_") { continue }
        throw refused(change, error, of: alteration.owner(of: statement))
      }
    }
    for (columns, before) in zip(doubtful, counts) {
      let after = try storage(alteration.difference.after.name, columns.new, isBefore: false)
      guard before == after else {
        throw refusal(change).error(
          "values of column \(columns.new) would change with its new type, and no copy of the rows follows",
          table: change.name)
      }
    }
  }

  /// Gives a table that `body` creates again its AUTOINCREMENT counter, and its indexes what ANALYZE has counted.
  func keepingCounters(of table: String, _ body: () throws -> Void) throws {
    func rows(_ counts: String, _ columns: String, _ column: String) throws -> [[Value]] {
      guard try database.integer("SELECT 1 FROM sqlite_master WHERE name = ?", [.text(counts)]) != nil
      else { return [] }
      return try database.query(
        "SELECT \(columns) FROM \(counts) WHERE \(column) = ? COLLATE NOCASE", [.text(table)])
    }
    let highest = try rows("sqlite_sequence", "seq", "name").first?[0]
    let statistics = try rows("sqlite_stat1", "tbl, idx, stat", "tbl")
    try body()
    if let highest, try text(table).map({ text in text.asciiUppercased.contains("AUTOINCREMENT") }) ?? false {
      let there = try rows("sqlite_sequence", "max(seq, 0)", "name").first?[0] ?? .integer(0)
      try database.run("DELETE FROM sqlite_sequence WHERE name = ? COLLATE NOCASE", [.text(table)])
      try database.run(
        "INSERT INTO sqlite_sequence(name, seq) SELECT name, max(?, ?) FROM sqlite_master WHERE type = 'table' "
          + "AND name = ? COLLATE NOCASE", [highest, there, .text(table)])
    }
    guard !statistics.isEmpty else { return }
    try database.run("DELETE FROM sqlite_stat1 WHERE tbl = ? COLLATE NOCASE", [.text(table)])
    for row in statistics {
      try database.run(
        "INSERT INTO sqlite_stat1(tbl, idx, stat) SELECT tbl_name, ?, ? FROM sqlite_master WHERE name = coalesce(?, ?) "
          + "COLLATE NOCASE AND tbl_name = ? COLLATE NOCASE", [row[1], row[2], row[1], .text(table), .text(table)])
    }
  }

  private func alteredAffinities(_ alteration: SQLiteAlteration) -> [(new: String, old: String, isReal: Bool)] {
    let (there, after) = (alteration.there, alteration.difference.after)
    return alteration.kept.compactMap { pair in
      let old = there.columns.first { $0.name.sqliteKey == pair.old.sqliteKey }?.affinity
      guard let new = after.columns.first(where: { $0.name.hasSameBytes(as: pair.new) })?.affinity, new != old else {
        return nil
      }
      return (pair.new, pair.old, new == "REAL")
    }
  }

  /// Returns the number of values of each storage class in a column. Counts from before and after a rebuild show
  /// whether the rebuild converted values.
  ///
  /// - Parameter isBefore: Whether the rebuild is still to come. If so, values -0.0 are counted separately.
  private func storage(_ table: String, _ column: String, isBefore: Bool) throws -> [[Value]] {
    let (table, name) = (table.quotedName, column.quotedName)
    var counts = try database.query("SELECT typeof(\(name)), count(*) FROM \(table) GROUP BY 1 ORDER BY 1")
    if isBefore {
      // SQLite prints -0.0 as 0.0 and treats both as equal: only the bits differ.
      let zeros = try database.prepare("SELECT \(name) FROM \(table) WHERE typeof(\(name)) = 'real' AND \(name) = 0")
      var count: Int64 = 0
      while try zeros.step() {
        if case .real(let zero) = zeros.value(0), zero.sign == .minus { count += 1 }
      }
      if count > 0 { counts.append([.text("-0.0"), .integer(count)]) }
    }
    return counts
  }

  /// Returns the error for an index or trigger, such as `index mine`, that cannot be created again after the schema
  /// change.
  ///
  /// - Parameter object: The index or trigger; nil for an error about the schema change itself.
  private func refused(_ change: Change, _ error: SQLiteError, of object: String?) -> CairnError {
    guard let object else { return refused(change, error) }
    return refusal(change).error(
      "\(object) of the target would no longer work; change or drop it first (SQLite says: \(error.message))",
      table: change.name)
  }

  /// Returns the error for a schema change that fails because of the target's rows. If a refresh follows, the error
  /// names the columns that only the target has.
  private func refused(_ change: Change, _ error: SQLiteError, _ alteration: SQLiteAlteration) -> CairnError {
    guard change.plan.isRefreshed, !alteration.extras.isEmpty else { return refused(change, error) }
    let names = alteration.extras.map(\.name).joined(separator: ", ")
    return refusal(change).error(
      "SQLite says: \(error.message); the table is not emptied for the following copy, because only the target has column \(names)",
      table: change.name)
  }

  // MARK: Indexes

  func run(indexes alteration: SQLiteAlteration, _ change: Change) throws {
    for statement in alteration.indexes {
      if statement.hasPrefix("DROP ") {
        try run(statement, change)
      } else {
        try create(index: statement, alteration, change)
      }
    }
  }

  private func create(index text: String, _ alteration: SQLiteAlteration, _ change: Change) throws {
    do { try define(index: text, change) } catch let error as SQLiteError
      where error.isSchemaRefusal || error.isConstraint
    {
      let plan = change.plan
      guard plan.isRefreshed, plan.isCreated, alteration.extras.isEmpty, let name = change.after?.target.name else {
        throw refused(change, error, alteration)
      }
      // Rows that the source no longer has prevent a unique index; all rows are about to come again.
      try database.execute("DELETE FROM \(name.quotedName)")
      try run(text, change)
    }
  }

  /// Runs a statement that creates an index. If its name is in use, the index gets a spare name.
  func define(index text: String, _ change: Change) throws {
    guard let name = SQLiteAlteration.indexName(text) else { return try define(text, change) }
    if change.after?.source.engine == .sqlite { try dropMoved(name) }
    let names = [name] + IndexNames.spare(for: name)
    let taken = try takenNames()
    guard let free = names.first(where: { !taken.contains($0.sqliteKey) }), !free.hasSameBytes(as: name) else {
      return try define(text, change)
    }
    try define(IndexNames.statement(text, free), change)
    progress.note("index \(name) of \(change.name) is named \(free) at the target, as its name is in use there")
  }

  /// Drops an index of this name in another table that this trail created: a source in SQLite has moved it.
  private func dropMoved(_ name: String) throws {
    let moved = try database.query(
      """
      SELECT m.name FROM sqlite_master AS m JOIN cairn_table AS t ON t.name = m.tbl_name COLLATE NOCASE
      AND t.created = 1 AND t.trail = ? WHERE m.type = 'index' AND m.name = ? COLLATE NOCASE AND m.sql NOT NULL
      """, [.text(trail), .text(name)])
    for row in moved { try database.execute("DROP INDEX \(row[0].string.quotedName)") }
  }

  /// The names of all tables, views and indexes of the target.
  func takenNames() throws -> Set<NameKey> {
    let rows = try database.query("SELECT name FROM sqlite_master WHERE type IN ('table', 'view', 'index')")
    return Set(rows.map { $0[0].string.sqliteKey })
  }
}
