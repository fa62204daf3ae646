import Applying
import Changes
import Configuring
import Conflicts
import Endpoints
import Mapping
import PostgresKit
import Replicating
import Trails
import Transforming

// Checks of tables that both ends write.
extension ConfCheck {
  /// Checks the tables that two apply workers of this configuration replicate in opposite directions.
  func checkBothWays(_ apply: Configuration.Apply, _ source: Source) throws {
    let captures = configuration.captures
    guard let capture = captures.first(where: { configuration.trail(of: $0) == apply.trail }) else { return }
    for back in configuration.applies where back.database == capture.database && back.name > apply.name {
      guard let behind = captures.first(where: { configuration.trail(of: $0) == back.trail }),
        behind.database == apply.database, let other = sources[behind.name]
      else { continue }
      let there = TwoWayRoute(source.end, source.tables, apply.rules, apply.names)
      let again = TwoWayRoute(other.end, other.tables, back.rules, back.names)
      let pairs = try there.tables(thatComeBackBy: again)
      guard !pairs.isEmpty else { continue }
      note("\(pairs.count.counted("table is", "tables are")) two-way, back by [apply.\(back.name)]")
      tellCopies(capture, behind)
      for (apply, tables, capture) in [(apply, pairs.map(\.there), behind), (back, pairs.map(\.here), capture)] {
        let plan = apply.localWritesPlan
        if let said = TwoWayCheck.writtenLocally(tables, plan, capture: capture.name) { fail(said) }
      }
      let (ours, theirs) = (pairs.map(\.here), pairs.map(\.there))
      for (tables, end, capture, beside) in [
        (ours, source.end, capture, (engine: other.end.url.engine, tables: theirs)),
        (theirs, other.end, behind, (engine: source.end.url.engine, tables: ours)),
      ] {
        do {
          try TwoWayCheck.checkKeys(end, tables, beside: beside) {
            "leave it out of 'tables' of [capture.\(capture.name)], as in [\"*\", \"!\($0)\"]"
          }
          try checkMovedKeys(end, tables, capture)
          for plan in [apply.conflictPlan, back.conflictPlan] { try TwoWayCheck.checkSums(end, tables, plan) }
        } catch let error as CairnError { return fail(error) }
        for warning in try TwoWayCheck.warnings(end, tables, beside: beside.engine) { note(warning) }
      }
      let areShared = [apply.database, back.database].contains { configuration.database($0)?.sharesKeys ?? false }
      let check = TwoWayCheck(source.end, pairs.map(\.here), other.end, at: other.end.url)
      if !areShared, let alike = try check.keysAlike() { fail(alike.sayingShared(apply.database)) }
      for pair in pairs {
        checkColumns(apply, pair.here, pair.there)
        checkColumns(back, pair.there, pair.here)
        checkRules(apply, back, pair.here, pair.there)
      }
    }
  }

  /// Prints notices about rows that the initial loads of both directions may lose or leave out. Prints nothing after
  /// both trails exist.
  private func tellCopies(_ here: Configuration.Capture, _ there: Configuration.Capture) {
    let captures = [here, there]
    let haveBegun = captures.allSatisfy {
      Trail.exists(folder: "\(configuration.node.state)/\(configuration.trail(of: $0))")
    }
    guard !haveBegun else { return }
    for capture in captures where !capture.copiesRows {
      note(
        "[capture.\(capture.name)] has copy = false: rows that only its database has, or that the other end deletes before both captures have started, may stay only there; run 'cairn compare' when both captures follow"
      )
    }
    guard captures.allSatisfy(\.copiesRows) else { return }
    note(
      "[capture.\(here.name)] and [capture.\(there.name)] both copy the rows that are there: if both ends have a row, the row that is copied later wins, and the conflict log does not have the other one; if the rows of one end came from the other end, write copy = false in its capture"
    )
  }

  /// Prints for each table whether it is replicated two-way or one-way.
  /// - Parameter tables: The tables after the rules have been applied to them.
  func tellWays(_ apply: Configuration.Apply, _ tables: [SourceDatabase.Table], _ source: Source, _ end: TargetDatabase)
    throws
  {
    let (behind, plan) = (configuration.captureBehind(apply), apply.localWritesPlan)
    guard behind != nil || plan.has({ $0 != .stop }) else { return }
    let captured = behind.map { TablePatterns($0.tables) }
    var unseen: [SourceDatabase.Table] = []
    for table in tables where table.refusal == nil {
      let target = try TableMapping(table.schema, to: end.url.engine, names: apply.names).target
      let goesBack =
        captured.map { end.url.engine == .sqlite ? $0.includes(target.name) : $0.includes(target) } ?? false
      let writes = plan.writes(forTarget: target.plainName)
      say(
        "table \(target.plainName): "
          + (goesBack ? "both ways" : "one-way; for writes of other programs: local_writes = \"\(writes.rawValue)\""),
        [
          ("event", .text("way")), ("apply", .text(apply.name)), ("table", .text(target.plainName)),
          ("both", .bool(goesBack)), ("local_writes", goesBack ? .null : .text(writes.rawValue)),
        ])
      guard !goesBack, writes.areSettled, table.schema.treatment?.isHistory != true else { continue }
      if target.key.isEmpty || target.flags.contains(.wholeRow) {
        note(
          "table \(target.plainName) has no key: it will be suspended, as local_writes = \"\(writes.rawValue)\" needs one"
        )
      } else {
        unseen += source.tables.filter { $0.name == table.name }
      }
    }
    if let lacking = try TwoWayCheck.changesLogged(source.end, unseen) { note(lacking) }
  }

  /// Checks the two-way tables in this node's database, for a trail that comes from another node. The other node checks
  /// its own tables.
  func checkBothWays(_ apply: Configuration.Apply, _ end: TargetDatabase, _ trail: TrailName) throws {
    guard let capture = configuration.captureBehind(apply), let source = sources[capture.name] else { return }
    let comes = Set(try end.tableNames(of: trail).map { GeneratedKey.commonName(ofTable: $0).nameKey })
    let tables = source.tables.filter { comes.contains(GeneratedKey.commonName(ofTable: $0.name)) }
    if let said = TwoWayCheck.writtenLocally(tables, apply.localWritesPlan, capture: capture.name) { fail(said) }
    do {
      try TwoWayCheck.checkKeys(source.end, tables) {
        "leave it out of 'tables' of [capture.\(capture.name)], as in [\"*\", \"!\($0)\"]"
      }
      try checkMovedKeys(source.end, tables, capture)
      try TwoWayCheck.checkSums(source.end, tables, apply.conflictPlan)
    } catch let error as CairnError { return fail(error) }
    for warning in try TwoWayCheck.warnings(source.end, tables, beside: nil) { note(warning) }
    if configuration.database(apply.database)?.sharesKeys == true { return }
    if let alike = try TwoWayCheck.keysNotSeparated(source.end, tables, from: trail) {
      fail(alike.sayingShared(apply.database, chain: (capture.name, trail.origin)))
    }
  }

  private func checkMovedKeys(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], _ capture: Configuration.Capture)
    throws
  {
    guard configuration.database(capture.database)?.acceptsMovedKeys != true else { return }
    try TwoWayCheck.checkMovedKeys(end, tables, hint: capture.movedKeysHint)
  }

  /// Prints an error if a conflict rule names a column that the target lacks.
  private func checkColumns(
    _ apply: Configuration.Apply, _ source: SourceDatabase.Table, _ target: SourceDatabase.Table
  ) {
    let columns = target.schema.columns.map(\.name)
    let unknown = apply.conflictPlan.unknownColumns(of: source.schema, columns: columns)
    guard !unknown.isEmpty else { return }
    fail(
      CairnError(
        .confValue,
        "table \(target.name): [apply.\(apply.name)] has rules for conflicts in \(unknown.joined(separator: ", ")), which is not a column there",
        hint: "use a name of its columns: \(columns.joined(separator: ", "))", remedy: .badInput,
        context: ["table": target.name]))
  }

  /// Checks that the conflict rules of both directions let the same version win.
  private func checkRules(
    _ apply: Configuration.Apply, _ back: Configuration.Apply, _ here: SourceDatabase.Table,
    _ there: SourceDatabase.Table
  ) {
    let columns = here.schema.columns.map(\.name)
    let forth = apply.conflictPlan.rules(for: here.schema, columns: columns)
    let again = back.conflictPlan.rules(for: there.schema, columns: columns)
    if let decider = forth.decider, let other = again.decider, decider != other {
      return fail(
        CairnError(
          .confValue,
          "table \(here.name): \(decider) decides conflicts here, and \(other) decides them by [apply.\(back.name)], so both ends would differ",
          hint: "write the same 'decides' in both applies", remedy: .badInput, context: ["table": here.name]))
    }
    guard forth.rule != .insertOnly, again.rule != .insertOnly,
      !forth.agrees(with: again, source: apply.trail, target: back.trail)
    else { return }
    fail(
      CairnError(
        .confValue,
        "table \(here.name): its rules for conflicts differ from those of [apply.\(back.name)], so both ends would differ",
        hint:
          "give both applies the same 'conflict', 'conflicts', 'tracking' and 'deletes'; if one has source, the other needs target; or name the node that decides in both, as decides = \"\(apply.trail)\"",
        remedy: .badInput, context: ["table": here.name]))
  }
}
