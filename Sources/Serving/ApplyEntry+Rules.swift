import Applying
import Changes
import Operating
import Reshaping
import SystemKit
import Trails

// Rules that are other ones than those under which rows came.
extension ApplyEntry {
  /// Returns the tables that are to come under other rules, once all that this needs is asked for.
  ///
  /// What is to be done is noted ahead of the first step, and taken off the note by ``RuleUpkeep`` behind the last:
  /// whatever ends us in between, it is done again. Errors: `rule-refused`.
  func adoptRules(_ end: TargetEnd) throws -> [ChangedRule] {
    let note = RuleNote(state: context.statePath, apply: name)
    let names = TargetNames(state: context.statePath, apply: name)
    let namesNow = TargetNames.text(rules, self.names)
    guard try end.knowsTables(of: trail) else {
      try note.note(.init(rules: rules))
      return []
    }
    // What an older version left came under the rules that stand, as far as can be known.
    let before = try note.read() ?? .init(rules: rules)
    let held = try names.read() == namesNow ? [] : try renamed(end.heldTables(of: trail), before.rules)
    if before == .init(rules: rules), held.isEmpty {
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
    let changed = RuleChange.merged(before.changed, changes, from: before.rules)
    let copied = changed.filter(\.isCopied).map(\.table)
    try checkCanBeCopied(copied)
    try note.note(.init(rules: rules, changed: changed))
    if !held.isEmpty { try end.replace(held, of: trail) }
    try names.note(namesNow)
    for (table, change) in changes {
      if change.isCopied { forgetRequest(for: table) }
      context.tell(.init(.apply, name), change.notice(table))
    }
    for table in copied { try askForCopy(of: table) }
    return changed
  }

  /// Of tables that wait those that the rules call otherwise now. The others go on with a copy from where they wait.
  func renamed(_ held: [HeldTable], _ old: [ReshapeRule]) -> [HeldTable] {
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
      "the rule of table \(first) was changed, so its rows have to come again, and nothing \(isHere ? "captures" : "brings") trail \(trail) any more",
      hint:
        "put the rule back, or \(isHere ? "add [capture.\(trail.name)] again" : "add a [pump.NAME] that fetches the trail, or a [peer.NAME] that may push it")",
      context: ["table": first])
  }

  /// As it was before the rule changed.
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

extension RequestBook.Request {
  func isOf(apply: String, _ trail: TrailName, _ table: String) -> Bool {
    asker == .apply(apply) && self.trail == trail.description && tables == [table]
  }
}
