import Applying
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Mapping
import ServiceKit
import SystemKit
import Trails
import Transforming

// Rules that changed after rows had been written under the earlier ones.
extension ApplyEntry {
  /// Checks that each rule for one table matches a captured table of the source, or a target table of the trail.
  ///
  /// The method only logs a warning for an older rule, for a trail of another node, and for a table that an apply may
  /// create.
  ///
  /// - Throws: `table-missing` for a rule that matches no table, and with which the apply has not run before.
  func checkRulesMatch(_ end: TargetDatabase) throws {
    let adopted = try RuleNote(state: context.statePath, apply: name).read()?.rules ?? []
    // A new rule must not prove by its own `to` that its table was there.
    let known = RuleChange.sources(of: try end.tableNames(of: trail), adopted).map { TableSchema(named: $0) }
    guard let capture = context.capture(of: trail) else {
      // The other node may create the table later.
      return RuledTables.unused(rules, known: known, of: trail).forEach { warn($0.error) }
    }
    let open = rules.filter { rule in !known.contains { $0.matches(rule.from) } }
    guard open.contains(where: { !TablePatterns.isPattern($0.from) }),
      let database = context.configuration.database(capture.database)
    else { return }
    // Apply does not wait for a source that cannot be reached.
    guard let source = try? SourceDatabase(database.location().canonical),
      let tables = try? source.tables(TablePatterns(capture.tables)).filter({ $0.refusal == nil })
    else { return }
    let unused = RuledTables.unused(open, in: tables, of: source)
    guard !unused.isEmpty else { return }
    let coming = TablesToCome(context.configuration, in: capture.database)
    var refused: CairnError?
    for (rule, error) in unused {
      let isNew = !adopted.contains { $0.from.hasSameBytes(as: rule.from) }
      if isNew, !coming.mayHave(rule.from), refused == nil { refused = error } else { warn(error) }
    }
    if let refused { throw refused }
  }

  /// Checks that each name in the option `tables` matches a table of the trail, if this node captures the trail.
  ///
  /// A name with which the apply has run before is not checked, as its table may have been dropped since.
  ///
  /// - Throws: `table-missing` for a name that matches no table, and that no apply of this node may create.
  func checkListed(_ end: TargetDatabase) throws {
    let conf = context.configuration
    guard let apply = conf.applies.first(where: { $0.name.hasSameBytes(as: name) }) else { return }
    let before = ListedTables.read(state: context.statePath, apply: name)?.patterns
    let known = try before ?? (end.checkpoint(of: trail) == nil ? [] : apply.tables)
    var added = apply
    added.tables = apply.tables.filter { name in !known.contains { $0.hasSameBytes(as: name) } }
    if added.tables.contains(where: { !TablePatterns.isPattern($0) }), let capture = context.capture(of: trail),
      let database = conf.database(capture.database),
      // Apply does not wait for a source that cannot be reached.
      let source = try? SourceDatabase(database.location().canonical),
      let tables = try? source.tables(TablePatterns(capture.tables)).filter({ $0.refusal == nil }),
      let ruled = try? RuledTables(tables, rules, source, to: target.engine)
    {
      let slip = added.unmatched(in: ruled.tables, to: target.engine).first {
        $0.isMistake && !conf.mayCome($0.name, to: apply)
      }
      if let slip { throw slip.error(apply.listName, at: "trail \(trail)") }
    }
    ListedTables.note(apply.tables, state: context.statePath, apply: name)
  }

  private func warn(_ error: CairnError) {
    let worker = WorkerName(.apply, name).description
    context.log.write(LogEntry(.warning, error.message, worker: worker, code: error.code, hint: error.hint))
  }

  /// Compares the rules with those under which the target's rows were written, and requests a refresh of each table
  /// that needs one. Returns the tables whose rows do not follow the present rules yet.
  ///
  /// - Throws: `rule-refused` if a table's rows cannot follow the new rule, or if no worker of this node can bring the
  ///   refresh.
  func adoptRules(_ end: TargetDatabase) throws -> [ChangedRule] {
    let note = RuleNote(state: context.statePath, apply: name)
    let names = TargetNames(state: context.statePath, apply: name)
    let namesNow = TargetNames.text(rules, self.names)
    let entered = try enteredTables(end)
    guard try !entered.isEmpty || end.knowsTables(of: trail) else {
      try note.note(.init(rules: rules))
      return []
    }
    // An older version kept no such file: then the rows count as written under the present rules.
    let before = try note.read() ?? .init(rules: rules)
    let held = try names.read() == namesNow ? [] : try renamed(end.heldTables(of: trail), before.rules)
    if before == .init(rules: rules), held.isEmpty, entered.isEmpty {
      try names.note(namesNow)
      try note.note(before)
      return []
    }
    var changes: [(table: String, change: RuleChange)] = []
    if before.rules != rules {
      let tables = RuleChange.sources(of: try end.tableNames(of: trail), before.rules)
      changes = try RuleChange.all(of: tables, from: before.rules, to: rules, at: target.place, apply: name)
    }
    let replaced = RuleChange.sources(of: held.map(\.name), before.rules)
    changes = changes.filter { !replaced.contains($0.table) } + replaced.map { ($0, .copied) }
    changes = changes.filter { change in !entered.contains { $0.table == change.table } }
    let changed = RuleChange.merged(before.changed, changes, from: before.rules).merged(with: entered)
    let copied = changed.filter(\.isCopied).map(\.table)
    try checkCanBeCopied(copied)
    try note.note(.init(rules: rules, changed: changed))
    if !held.isEmpty { try end.replace(held, of: trail) }
    try names.note(namesNow)
    for (table, change) in changes {
      if change.isCopied { forgetRequest(for: table) }
      context.tell(.init(.apply, name), change.notice(table))
    }
    for rule in entered {
      forgetRequest(for: rule.table)
      context.tell(.init(.apply, name), "table \(rule.table) was added to 'tables' of [apply.\(name)]: copying it")
    }
    try LeftOutNote(state: context.statePath, apply: name).remove(Set(entered.map(\.table.nameKey)))
    for table in copied { try askForCopy(of: table) }
    return changed
  }

  // The tables that the option `tables` excluded before and includes now. `before` is empty for a table that the target
  // does not know.
  private func enteredTables(_ end: TargetDatabase) throws -> [ChangedRule] {
    let leftOut = try LeftOutNote(state: context.statePath, apply: name).read()
    let entered = leftOut.filter { table in
      let to = rules.rule(for: TableSchema(named: table.source))?.to
      let place = to.map { NamePlace($0, in: target.engine) } ?? NamePlace(table.namespace, table.name)
      return scope.verdict(place.namespace, place.name, in: target.engine) == .allowed
    }
    guard !entered.isEmpty else { return [] }
    let known = Set(RuleChange.sources(of: try end.tableNames(of: trail), rules).map(\.nameKey))
    return Set(entered.map(\.source.nameKey)).sorted().map { source in
      let rule = rules.rule(for: TableSchema(named: source.text))
      return ChangedRule(source.text, before: known.contains(source) ? [rule] : [], isCopied: true)
    }
  }

  /// Returns the suspended tables in `held` whose names at the target may have changed since the rules `old`.
  func renamed(_ held: [HeldTable], _ old: [TableRule]) -> [HeldTable] {
    held.filter { table in
      let sources = RuleChange.sources(of: [table.name], old)
      return table.isRenamed || sources.count != 1 || !RuleChange.leads(sources[0], to: table.place, rules)
    }
  }

  private func checkCanBeCopied(_ tables: [String]) throws {
    guard let first = tables.first else { return }
    let isHere = trail.origin == context.node
    if isHere ? context.capture(of: trail) != nil : context.configuration.receives(trail.description) { return }
    throw CairnError(
      .ruleRefused,
      "the rule of table \(first) was changed, so its rows must be copied again, and nothing \(isHere ? "captures" : "brings") trail \(trail) any longer",
      hint:
        "put the rule back, or \(isHere ? "add [capture.\(trail.name)] again" : "add a [pump.NAME] that fetches the trail, or a [peer.NAME] that may push it")",
      context: ["table": first])
  }

  private func forgetRequest(for table: String) {
    context.requests.settle { $0.isOf(apply: name, trail, table) }
  }

  private func askForCopy(of table: String) throws {
    guard !context.requests.all.contains(where: { $0.isOf(apply: name, trail, table) }) else { return }
    let info = try Trail.info(folder: folder)
    try context.requests.ask(
      trail, [table], for: name, behind: info.lastTransaction, now: Clock.system.microseconds())
  }
}

extension RefreshRequests.Request {
  func isOf(apply: String, _ trail: TrailName, _ table: String) -> Bool {
    asker == .apply(apply) && self.trail == trail.description && tables.hasSameBytes(as: [table])
  }
}

extension [ChangedRule] {
  // If a table is in both lists, the element of `entered` is used.
  fileprivate func merged(with entered: [ChangedRule]) -> [ChangedRule] {
    let names = Set(entered.map(\.table.nameKey))
    return (filter { !names.contains($0.table) } + entered).sorted { $0.table < $1.table }
  }
}

private struct NamePlace {
  let namespace: String
  let name: String

  init(_ namespace: String, _ name: String) { (self.namespace, self.name) = (namespace, name) }

  init(_ text: String, in engine: Engine) {
    let parts = text.cut(at: ".")
    switch engine {
    case .postgres: self.init(parts?.before ?? "public", parts?.after ?? text)
    case .sqlite: self.init("", parts.map { NamePolicy.sqliteName(namespace: $0.before, name: $0.after) } ?? text)
    }
  }
}
