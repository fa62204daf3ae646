import Changes
import Conflicts
import Mapping
import SQLiteKit

// How the tables of records are opened.
extension SQLiteSchema {
  func table(_ id: UInt64) throws -> SQLiteApplyTable? {
    if let table = tables.openTables.find(id, in: reader.position.segment) { return table }
    do {
      let table = try openedAtOnce(id)
      tables.openTables.note(table, id)
      return table
    } catch let refusal as Unopened {
      // From this record on, the table is suspended; the rest of the group is applied.
      if refusal.isUndone, tables.scope == .main, idAtHand == id {
        try beginToWait(schema(id), refusal.error)
        return nil
      }
      throw SQLiteReplay.Refusal(position: reader.position, error: refusal.error)
    }
  }

  /// The error for a target table that does not fit the trail's schema.
  private struct Unopened: Error {
    let error: CairnError
    /// Whether the failed attempt to open the table left the target and apply's state unchanged.
    let isUndone: Bool
  }

  /// Opens a table; nil if apply skips it. If opening fails, undoes its effects and throws ``Unopened``.
  private func openedAtOnce(_ id: UInt64) throws -> SQLiteApplyTable? {
    let (tables, areDue) = (target.tables, target.guardsAreDue)
    let version = try database.integer("PRAGMA schema_version")
    try database.execute("SAVEPOINT cairn_opening")
    do {
      let table = try opened(id)
      try database.execute("RELEASE cairn_opening")
      return table
    } catch {
      let why = (error as? SQLiteReplay.Refusal)?.error ?? error as? CairnError
      guard let why, why.suspendsTable else { throw error }
      let isSame = try database.integer("PRAGMA schema_version") == version
      try database.execute("ROLLBACK TO cairn_opening")
      try database.execute("RELEASE cairn_opening")
      if isSame { (target.tables, target.guardsAreDue) = (tables, areDue) }
      throw Unopened(error: why, isUndone: isSame)
    }
  }

  private func opened(_ id: UInt64) throws -> SQLiteApplyTable? {
    let schema = try schema(id)
    let targetName = tables.targetName(of: schema)
    guard tables.isInScope(targetName), let part = try tables.part(of: schema) else { return nil }
    let mapping = try tables.underNameThere(try tables.mapping(part.schema))
    let move = desk?.move(of: schema)
    if let move, try target.shape.exists(move.former.name) { throw move.taken(schema, at: database.path) }
    try meet(mapping, tables.key(targetName))
    if move == nil { try adopt(id, mapping) }
    var known = target.tables[tables.key(targetName)] ?? .init()
    if move == nil { try tables.claim(&known, for: mapping) }
    let name = mapping.target.name
    try options.checkAllowed("", name, in: .sqlite)
    let claim = try tables.claimRows(of: mapping.source, as: name)
    // In a history, a copy replaces nothing, so the changes before it are applied too.
    let isAwaited = known.isAwaited && mapping.source.treatment?.isHistory != true
    if known.claim != claim || known.isAwaited != isAwaited {
      if !isAwaited, known.isAwaited { (known.refreshing, known.isAwaited) = (nil, false) }
      known.claim = claim
      // Until the trail uses the new name too, apply's state has the former one.
      try tables.save(move == nil ? name : targetName, known)
    }
    let columns = Set(
      try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(name)]).map { $0[0].string.sqliteKey })
    let there = mapping.target.columns.indices.filter {
      columns.contains(mapping.target.columns[$0].name.sqliteKey)
    }
    if options.policy(isCreated: known.isCreated) != .ignore {
      guard there.count == mapping.target.columns.count else { throw try tables.lacking(mapping, there) }
    } else if columns.isEmpty {
      target.progress.note("table \(name) is left out: the target lacks it, and 'ddl' is ignore")
      return nil
    }
    for (index, column) in mapping.target.columns.enumerated() where !there.contains(index) {
      target.progress.note(
        "column \(name).\(column.name) is left out: the target lacks it, and 'ddl' is ignore")
    }
    try target.fired.keepInStep()
    try target.keepHooked()
    try target.noteQuietTriggers(of: name)
    if options.goesBothWays("", name) {
      try KeyCheck.check(mapping.source, mapping.target, in: .sqlite(database), includes: options.goesBothWays)
      try options.twoWay?.limits.movedKeys.check(mapping.source, mapping.target, from: tables.name)
    }
    let table = SQLiteApplyTable(
      mapping, state: known, database: database, there: there, image: (schema, part.positions),
      localWrites: try tables.localWrites(of: mapping), goesBothWays: options.goesBothWays("", name))
    table.mayCollide = try table.goesBothWays && table.hasOtherUniqueValues()
    return table
  }
}
