import Changes
import Mapping
import PostgresKit

// Tables whose rules differ from those under which their rows were applied.
extension PostgresSchema {
  /// Alters the target table as a changed rule of the conf requires, at the table's first record since apply began.
  /// Does nothing if no rule of the table has changed.
  func adopt(_ id: UInt64, _ source: TableSchema, _ mapped: TableSchema, _ key: String) throws {
    guard let given = reader.given(id), let rule = changedRules.meet(given) else { return }
    do {
      try connection.execute("SET LOCAL lock_timeout = \(lockMilliseconds)")
      try adopt(rule, given, source, mapped, key)
      try connection.execute("SET LOCAL lock_timeout = 0")
    } catch let error as PostgresError where error.isLockTimeout {
      // A transaction that failed accepts no query.
      session.abandon()
      let error = try inUse(source, source, nil, source, tables.tables[key])
      throw SchemaStop(key: key, position: reader.position, error: error, isLocked: true)
    }
    if !rule.isCopied { changedRules.finish(given) }
  }

  private func adopt(
    _ rule: ChangedRule, _ given: TableSchema, _ source: TableSchema, _ mapped: TableSchema, _ key: String
  ) throws {
    let isHistory = source.treatment?.isHistory ?? false
    for step in rule.steps(of: given, to: options.rules.rule(for: given), in: .postgres) {
      guard !step.isElsewhere else {
        try leave(step.was.sourceKey, for: key)
        continue
      }
      // In a catch-up, the table may have another name in apply's state.
      let place = step.now.sourceKey.hasSameBytes(as: source.sourceKey) ? key : step.now.sourceKey
      guard tables.tables[place] != nil else { continue }
      guard step.was.shares == step.now.shares else { throw CairnError.shareChanged(source) }
      guard let made = ShapeChange(step, isCopied: rule.isCopied), let before = made.before, let after = made.after
      else { continue }
      try change(made, before, after, place, place)
    }
    if try tables.tables[key].map({ try tables.shape.read($0) == nil }) ?? true {
      try state.lock()
      try create(source, key, isAwaited: !isHistory)
    } else if rule.isCopied, !isHistory, var known = tables.tables[key] {
      if let treatment = source.treatment, treatment.removal != .applied {
        progress.note(NextFittingSchema.unseen(source, since: reader.position))
      }
      (known.refreshing, known.isAwaited, known.isEmptied) = (.byKey, true, false)
      try tables.save(key, known)
    }
  }

  /// Alters the target table as its changed rule requires, before a schema change of the table. Does nothing if the
  /// rule is already in effect.
  func adoptBefore(_ ddl: DDL) throws {
    guard ddl.before != 0, let given = reader.given(ddl.before), changedRules.isPending(given),
      tables.scope.key(try schema(ddl.before).sourceKey) != nil
    else { return }
    if ddl.after == 0 { return changedRules.finish(given) }
    try onTable(ddl.before) { _ = try table(ddl.before) }
  }

  private func leave(_ old: String, for key: String) throws {
    guard let known = tables.tables[old], old != key, tables.scope.key(old) == old else { return }
    try state.removePending(of: known)
    try tables.forget(old)
  }

  /// Alters a table of the catch-up to the schema of the refresh `copy`, which comes after the present record. Apply
  /// skips the table's records before that refresh.
  func goOn(with copy: ResyncPoint, _ name: String, _ key: String) throws {
    try sink.settle()
    do {
      try connection.execute("SET LOCAL lock_timeout = \(lockMilliseconds)")
      if let there = try tables.tables[key].flatMap({ try tables.shape.read($0) }) {
        let columns = Set(there.columns.map { $0.name.sqliteKey })
        guard let step = try copy.step(from: columns, mapped) else {
          throw ResyncPoint.unfit(copy.now)
        }
        guard step.was.shares == step.now.shares else { throw CairnError.shareChanged(copy.now) }
        if let made = ShapeChange(step, isCopied: true, isNamed: true), let before = made.before, let after = made.after
        {
          try change(made, before, after, key, key)
        }
      } else {
        try state.lock()
        try create(copy.now, key, isAwaited: true)
      }
      try connection.execute("SET LOCAL lock_timeout = 0")
    } catch let error as CairnError where error.suspendsTable {
      throw SchemaStop(key: key, position: reader.position, error: error)
    } catch let error as PostgresError where error.isLockTimeout {
      // A transaction that failed accepts no query.
      session.abandon()
      let error = try inUse(copy.now, copy.now, nil, copy.now, tables.tables[key])
      throw SchemaStop(key: key, position: reader.position, error: error, isLocked: true)
    }
    if let removal = copy.now.treatment?.removal, removal != .applied {
      progress.note(NextFittingSchema.unseen(copy.now, since: reader.position))
    }
    if var known = tables.tables[key] {
      (known.refreshing, known.isAwaited, known.isEmptied) = (.byKey, true, false)
      try tables.save(key, known)
    }
    tables.halt(key, called: name, at: copy)
  }
}
