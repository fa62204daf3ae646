import Changes
import Mapping
import SQLiteKit

// Tables whose rules differ from those under which their rows were applied.
extension SQLiteSchema {
  /// Alters the target table as its changed rule in the conf says. Called at the table's first record; at later
  /// records, does nothing.
  func adopt(_ id: UInt64, _ mapping: TableMapping) throws {
    guard let given = reader.given(id), let rule = changedRules.meet(given) else { return }
    let now = mapping.source
    let isHistory = now.treatment?.isHistory ?? false
    for step in rule.steps(of: given, to: options.rules.rule(for: given), in: .sqlite) {
      let (old, new) = (tables.targetName(of: step.was), tables.targetName(of: step.now))
      guard tables.key(old) == tables.key(new) else {
        try leave(old, for: mapping.target.name)
        continue
      }
      guard target.tables[tables.key(old)] != nil else { continue }
      guard step.was.shares == step.now.shares else { throw CairnError.shareChanged(now) }
      if let change = ShapeChange(step, isCopied: rule.isCopied) { try make(change) }
    }
    let name = mapping.target.name
    if try target.tables[tables.key(name)] == nil || !target.shape.exists(name) {
      try create(mapping, isAwaited: !isHistory)
    } else if rule.isCopied, !isHistory, var known = target.tables[tables.key(name)] {
      if let treatment = now.treatment, treatment.removal != .applied {
        target.progress.note(NextFittingSchema.unseen(now, since: reader.position))
      }
      (known.refreshing, known.isAwaited) = (.byKey, true)
      try tables.save(name, known)
    }
    if !rule.isCopied { changedRules.finish(given) }
  }

  /// Alters the target table as its changed rule in the conf says. Called before a schema change of the table.
  func adoptBefore(_ ddl: DDL) throws {
    guard ddl.before != 0, let given = reader.given(ddl.before), changedRules.isPending(given) else { return }
    if ddl.after == 0 { return changedRules.finish(given) }
    _ = try table(ddl.before)
  }

  private func leave(_ name: String, for other: String) throws {
    guard let known = target.tables[tables.key(name)], tables.key(name) != tables.key(other), known.waiting == nil
    else { return }
    try tables.forget(name)
  }

  /// Alters the catch-up's table to the schema of the refresh `copy`, which comes after the present record. Apply skips
  /// the table's records before that refresh.
  func goOn(with copy: ResyncPoint) throws {
    guard case .catchUp(let key) = tables.scope, let known = target.tables[key], let waiting = known.waiting else {
      return
    }
    do {
      let mapping = try tables.mapping(copy.now)
      let name = mapping.target.name
      guard waiting.holds(name) else { throw ResyncPoint.unfit(copy.now) }
      if let place = try waiting.names.first(where: target.shape.exists) {
        let columns = Set(
          try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(place)]).map { $0[0].string.sqliteKey }
        )
        guard let step = try copy.step(from: columns, { try tables.mapping($0).target }) else {
          throw ResyncPoint.unfit(copy.now)
        }
        guard step.was.shares == step.now.shares else { throw CairnError.shareChanged(copy.now) }
        if let change = ShapeChange(step, isCopied: true, isNamed: true) { try make(change) }
      } else {
        try create(mapping, isAwaited: true)
      }
      if let removal = copy.now.treatment?.removal, removal != .applied {
        target.progress.note(NextFittingSchema.unseen(copy.now, since: reader.position))
      }
      try tables.follow(key, to: name)
      var moved = target.tables[key] ?? known
      (moved.refreshing, moved.isAwaited) = (.byKey, true)
      try tables.save(name, moved)
    } catch let error as CairnError where error.suspendsTable {
      throw SQLiteReplay.Refusal(position: reader.position, error: error)
    }
    tables.halt = SQLiteReplay.Place(from: copy.from, checkpoint: copy.checkpoint, number: copy.number)
    tables.catchUpName = nil
    tables.forgetShapes()
  }
}
