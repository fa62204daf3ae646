import Applying
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Mapping
import Replicating
import SystemKit
import Trails
import Transforming

/// The checks of an apply before it starts. For example, the checkpoint of the target must be in the trail of the
/// apply. Without a checkpoint, the target's tables must not have rows yet, unless the setting `existing` allows them.
struct ApplyEntry {
  let name: String
  let target: DatabaseURL
  let trail: TrailName
  let folder: String
  let existing: ExistingRows?
  let rules: [TableRule]
  let names: NamePolicy
  let scope: TargetScope
  let context: ServiceContext

  /// Makes all checks before an apply starts. Requests a refresh of all tables if the target needs a part of the trail
  /// that was purged.
  ///
  /// - Returns: The open request for a refresh of all tables, or nil; and the tables whose rows do not follow the
  ///   present rules yet.
  func prove() throws -> (asked: CopyRequest.Asked?, changed: [ChangedRule]) {
    let end = try TargetDatabase(target)
    try checkListed(end)
    let asked = try prove(end)
    try checkRulesMatch(end)
    return (asked, try adoptRules(end))
  }

  // Requests a copy of all tables if the part of the trail that the target needs was purged.
  private func prove(_ end: TargetDatabase) throws -> CopyRequest.Asked? {
    let info = try Trail.info(folder: folder)
    let request = CopyRequest(state: context.statePath, apply: name)
    try checkNotItsSource(end)
    let known = try end.checkpoint(of: trail)
    let first = FirstCopies(state: context.statePath, apply: name)
    let isOrdered = try request.isPending()
    var asked = try request.asked(of: info.id)
    let plan = StartPlan(
      known, trail: .init(info), request: isOrdered ? .ordered : asked.map { .open($0) } ?? .none,
      rules: .init(
        existing: existing, copiesRows: context.capture(of: trail)?.copiesRows ?? true, copiesPurged: true,
        awaitsTrail: trail.origin != context.node))
    if case .refuse(let refusal) = plan { throw error(refusal, known, info) }
    // An operator who orders a copy of everything accepts that rows are overwritten.
    if isOrdered { first.end() }
    if case .copyAll(let copy) = plan, copy.proves.isEmpty {
      return try copyAll(end, info, request, forgets: copy.forgets)
    }
    try checkNames(end)
    if plan.proves.contains(.noRows) {
      if trail.origin == context.node { try checkExisting(end) } else { try first.begin() }
    }
    if plan.proves.contains(.noTables) { try checkIsNew(end, info) }
    switch plan {
    case .copyAll(let copy): return try copyAll(end, info, request, forgets: copy.forgets)
    case .begin(let at, _, _): asked?.at = at
    case .resume, .refuse:
      if let begun = asked, !begun.isBegun {
        asked?.isBegun = true
        try request.note(asked ?? begun, of: info.id)
      }
    }
    return asked
  }

  private func error(_ refusal: StartPlan.Refusal, _ known: Checkpoint?, _ info: TrailInfo) -> CairnError {
    guard refusal == .ahead, let known else {
      return CairnError(
        .checkpointForeign,
        "the target \(target.place) was filled from trail \(trail), which is not in \(context.statePath)",
        hint: foreignHint,
        context: ["trail": trail.description])
    }
    return CairnError(
      .trailElsewhere,
      "the copy of trail \(trail) here ends at \(info.end.position), before \(known.position), where the target \(target.place) continues",
      hint: "the apply waits for the rest; see in 'cairn status' whether the trail arrives", remedy: .retry,
      context: ["trail": trail.description])
  }

  // A target without a checkpoint must not have tables of the trail yet. Otherwise the operator must order a copy.
  private func checkIsNew(_ end: TargetDatabase, _ info: TrailInfo) throws {
    guard try end.knowsTables(of: trail) else { return }
    throw CairnError(
      .checkpointForeign,
      "the target \(target.place) has tables of trail \(trail) but no position in it, and the beginning of the trail is purged: the oldest segment is \(info.firstPosition.segment)",
      hint: foreignHint, context: ["trail": trail.description])
  }

  private var foreignHint: String {
    let conf = context.configuration
    let apply = conf.applies.first { $0.name.hasSameBytes(as: name) }
    return TrailHint.foreign(name, copyBack: apply.flatMap { conf.copyBack(of: $0) })
  }

  // A suspended table must keep its name, because apply finds the changes that it missed by the name.
  private func checkNames(_ end: TargetDatabase) throws {
    let noted = TargetNames(state: context.statePath, apply: name)
    let now = TargetNames.text(rules, names)
    guard let before = try noted.read(), before != now else { return try noted.note(now) }
    let held = try end.heldTables(of: trail)
    if held.isEmpty { return try noted.note(now) }
    // `adoptRules` replaces the tables, after the requests for their copies have been written.
    if try canBeReplaced(held, before, now) { return }
    throw CairnError(
      .ruleRefused,
      "tables are suspended at \(target.place), and the conf now gives tables of trail \(trail) other names there: their missed changes would not be found",
      hint:
        "put 'names', and 'from' and 'to' of [[apply.\(name).table]], back until no table is suspended; or copy everything again with 'cairn copy \(name)'",
      context: ["trail": trail.description])
  }

  private func canBeReplaced(_ held: [HeldTable], _ before: String, _ now: String) throws -> Bool {
    guard before.prefix(while: { $0 != "\n" }) == now.prefix(while: { $0 != "\n" }),
      let old = try RuleNote(state: context.statePath, apply: name).read()?.rules
    else { return false }
    return held.allSatisfy { table in
      let sources = RuleChange.sources(of: [table.name], old)
      return table.isReplaceable && sources.count == 1 && RuleChange.leads(sources[0], to: table.place, rules)
    }
  }

  // The check of the conf does not see that a link or another address leads to the same database.
  private func checkNotItsSource(_ end: TargetDatabase) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    let source = try database.location().canonical
    guard source.engine == target.engine, let identity = try end.identity(), identity == DatabaseIdentity(source)
    else { return }
    throw CairnError(
      .sameDatabase, "trail \(trail) comes from the database to which it would be applied, \(target.place)",
      hint: "name another database in [apply.\(name)]", remedy: .badInput)
  }

  // The request is durable before the checkpoint is removed, so a crash in between only repeats the copy.
  private func copyAll(
    _ end: TargetDatabase, _ info: TrailInfo, _ request: CopyRequest, forgets: Bool
  ) throws -> CopyRequest.Asked {
    let capture = context.capture(of: trail)
    if capture != nil { try CopyRequest.askCapture(folder) } else { try askFromAfar(info) }
    var asked = CopyRequest.Asked(info)
    try request.note(asked, of: info.id)
    try end.expectRefresh(of: trail)
    let (noted, now) = (TargetNames(state: context.statePath, apply: name), TargetNames.text(rules, names))
    if let before = try noted.read(), before != now, try canBeReplaced(end.heldTables(of: trail), before, now) {
      let old = try RuleNote(state: context.statePath, apply: name).read()?.rules ?? []
      try end.replace(renamed(end.heldTables(of: trail), old), of: trail)
    }
    try noted.note(now)
    if forgets { try end.forgetCheckpoint(of: trail) }
    if let capture { context.restart(.init(.capture, capture.name)) }
    let by = capture == nil ? "; asked node \(trail.origin) for it" : ""
    context.tell(.init(.apply, name), "copying everything into \(target.place) again\(by)")
    // A complete trail is read from its beginning.
    if info.firstPosition.segment <= 1 { asked.at = nil }
    return asked
  }

  // Only the node where the trail begins can read the rows.
  private func askFromAfar(_ info: TrailInfo) throws {
    guard trail.origin != context.node else {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) needs a copy of everything, and nothing captures trail \(trail) any longer",
        hint: "add [capture.\(trail.name)] again, or remove [apply.\(name)]", context: ["trail": trail.description])
    }
    let requests = context.requests
    // One request is enough: the later one is valid.
    requests.settle { $0.asker == .apply(name) && $0.tables.isEmpty && $0.behind != info.lastTransaction }
    try requests.ask(trail, [], for: name, behind: info.lastTransaction, now: Clock.system.microseconds())
  }

  private func checkExisting(_ end: TargetDatabase) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    do {
      try end.checkHoldsNothingElse(
        SourceDatabase(database.location().canonical), TablePatterns(capture.tables), .fold, rules, within: scope)
    } catch let error as CairnError where error.code == .targetDiffers {
      throw CairnError(
        .targetDiffers, error.message,
        hint:
          "set existing in [apply.\(name)] to \"keep\" (these rows stay), \"overwrite\" (the target becomes equal to the source) or \"merge\" (the source's rows win), then run 'cairn reload'",
        context: error.context)
    }
  }
}
