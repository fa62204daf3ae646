import Applying
import Changes
import Configuring
import Deploying
import Mapping
import Operating
import Reshaping
import SystemKit
import Trails

/// The checks of an apply before it starts: its target must continue at a position of the trail, and must hold no rows
/// that the apply would overwrite without permission.
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

  /// Makes all checks that can stop an apply before it starts. Returns the open request for a copy of all tables (nil:
  /// none), and the tables whose rules changed after their rows were applied.
  func prove() throws -> (asked: CopyRequest.Asked?, changed: [ChangedRule]) {
    let end = try TargetEnd(target)
    let asked = try prove(end)
    return (asked, try adoptRules(end))
  }

  /// Checks the target against the trail, and requests a copy of all tables if one is needed. Returns the open request;
  /// nil if there is none.
  ///
  /// A copy is needed if the part of the trail after the target's checkpoint was purged. It is also needed if the
  /// target is new and the trail's beginning was purged, or if the operator ordered it.
  ///
  /// - Throws: `same-database`, `checkpoint-foreign`, `target-differs`, `trail-elsewhere`, `rule-refused`.
  private func prove(_ end: TargetEnd) throws -> CopyRequest.Asked? {
    let info = try Trail.info(folder: folder)
    let request = CopyRequest(state: context.statePath, apply: name)
    try checkNotItsSource(end)
    let known = try end.checkpoint(of: trail)
    try checkReaches(known, info)
    let first = FirstCopies(state: context.statePath, apply: name)
    // An operator who orders a copy of everything accepts that rows are overwritten.
    if try request.isPending() { first.end() }
    if try request.isPending() || isPurged(known, info) {
      let isLost = known.map { $0.trail != info.id } ?? true || isPurged(known, info)
      return try copyAll(end, info, request, forgets: isLost)
    }
    if let known, known.trail != info.id {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) was filled from trail \(trail), which is not in \(context.statePath)",
        hint:
          "copy everything again with 'cairn copy \(name)'; put back a state folder that was moved away only if no daemon ran without it",
        context: ["trail": trail.description])
    }
    try checkNames(end)
    var asked = try request.asked(of: info.id)
    if known != nil {
      if let begun = asked, !begun.isBegun {
        asked?.isBegun = true
        try request.note(asked ?? begun, of: info.id)
      }
      return asked
    }
    // A target for which a copy of all tables was ordered may still hold its earlier rows, if the copy has not begun.
    let isTold = asked.map { !$0.isBegun && $0.at != nil } ?? false
    // A trail without copies overwrites nothing.
    let isCopied = context.capture(of: trail)?.copiesRows ?? true
    if existing == nil, !isTold, isCopied {
      if trail.origin == context.node { try checkExisting(end) } else { try first.begin() }
    }
    guard info.firstPosition.segment > 1 else {
      asked?.at = nil
      return asked
    }
    if isTold, let at = asked?.at, at.position >= info.firstPosition { return asked }
    try checkIsNew(end, info)
    return try copyAll(end, info, request, forgets: false)
  }

  /// Throws `trail-elsewhere` while this node's copy of another node's trail ends before the target's checkpoint. The
  /// apply waits until the copy is longer.
  private func checkReaches(_ known: Checkpoint?, _ info: TrailInfo) throws {
    guard trail.origin != context.node, let known, known.trail == info.id,
      info.end.position < known.position
    else { return }
    throw CairnError(
      .trailElsewhere,
      "the copy of trail \(trail) here ends at \(info.end.position), before \(known.position), where the target \(target.place) continues",
      hint: "the apply waits for the rest; see in 'cairn status' whether the trail arrives", remedy: .retry,
      context: ["trail": trail.description])
  }

  /// Throws `checkpoint-foreign` if a target without a checkpoint already has tables of the trail. The operator must
  /// then order a copy of all tables.
  private func checkIsNew(_ end: TargetEnd, _ info: TrailInfo) throws {
    guard try end.knowsTables(of: trail) else { return }
    throw CairnError(
      .checkpointForeign,
      "the target \(target.place) has tables of trail \(trail) but no position in it, and the beginning of the trail is purged: the oldest segment is \(info.firstPosition.segment)",
      hint: "copy everything again with 'cairn copy \(name)'", context: ["trail": trail.description])
  }

  /// Checks that the conf does not rename suspended tables at the target.
  ///
  /// Apply would not find the missed changes of a suspended table under the new name. So a copy has to replace the
  /// table.
  ///
  /// - Throws: `rule-refused` if a suspended table has another name now.
  private func checkNames(_ end: TargetEnd) throws {
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

  /// Throws `same-database` if the source of the trail is the target itself.
  ///
  /// The check of the conf finds most of these cases, but not a link, a file created later, or a second address of a
  /// server. A source that cannot be reached is another database, because the target was reached.
  private func checkNotItsSource(_ end: TargetEnd) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    let source = try database.location().canonical
    guard source.engine == target.engine, let identity = try end.identity(), identity == DatabaseIdentity(source)
    else { return }
    throw CairnError(
      .sameDatabase, "trail \(trail) comes from the database to which it would be applied, \(target.place)",
      hint: "name another database in [apply.\(name)]", remedy: .badInput)
  }

  private func isPurged(_ known: Checkpoint?, _ info: TrailInfo) -> Bool {
    guard let known, known.trail == info.id else { return false }
    return known.position.segment < info.firstPosition.segment
  }

  /// Requests a copy of all tables, and then removes the target's checkpoint if `forgets` is set.
  ///
  /// The request is durable before the checkpoint is removed, so a crash in between only repeats the copy.
  private func copyAll(
    _ end: TargetEnd, _ info: TrailInfo, _ request: CopyRequest, forgets: Bool
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

  /// Sends a request for a copy of all tables to the node where the trail begins, since only that node has the rows.
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

  private func checkExisting(_ end: TargetEnd) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    do {
      try end.checkHoldsNothingElse(
        SourceEnd(database.location().canonical), TablePatterns(capture.tables), .fold, rules)
    } catch let error as CairnError where error.code == .targetDiffers {
      throw CairnError(
        .targetDiffers, error.message,
        hint:
          "set existing in [apply.\(name)] to \"keep\" (these rows stay), \"overwrite\" (the target becomes equal to the source) or \"merge\" (the source's rows win), then run 'cairn reload'",
        context: error.context)
    }
  }
}
