import Applying
import Changes
import Configuring
import Mapping
import Operating
import Reshaping
import SystemKit
import Trails

/// What an apply makes sure of before it begins: that its target goes on where the trail is, and holds nothing that it
/// would overwrite unasked.
struct ApplyEntry {
  let name: String
  let target: DatabaseURL
  let trail: TrailName
  let folder: String
  let existing: ExistingRows?
  let rules: [ReshapeRule]
  let names: NamePolicy
  let scope: TargetScope
  let context: ServiceContext

  /// Returns what copies of everything were asked for; nil: none. And the tables whose rules are other ones than those
  /// under which their rows came.
  func prove() throws -> (asked: CopyRequest.Asked?, changed: [ChangedRule]) {
    let end = try TargetEnd(target)
    let asked = try prove(end)
    return (asked, try adoptRules(end))
  }

  ///
  /// Everything is copied where the trail does not go on from where the target is: its checkpoint was purged, since it was
  /// away for too long, or it is new and the trail's beginning was purged; and where a person asked for that. Errors:
  /// `same-database`, `checkpoint-foreign`, `target-differs`.
  private func prove(_ end: TargetEnd) throws -> CopyRequest.Asked? {
    let info = try Trail.info(folder: folder)
    let request = CopyRequest(state: context.statePath, apply: name)
    try checkNotItsSource(end)
    let known = try end.checkpoint(of: trail)
    try checkReaches(known, info)
    let first = FirstCopies(state: context.statePath, apply: name)
    // Who asks for a copy of everything has decided what becomes of rows.
    if try request.isPending() { first.end() }
    if try request.isPending() || isPurged(known, info) {
      let isLost = known.map { $0.trail != info.id } ?? true || isPurged(known, info)
      return try copyAll(end, info, request, forgets: isLost)
    }
    if let known, known.trail != info.id {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) was fed from a trail \(trail) that is not in \(context.statePath)",
        hint:
          "copy everything again with 'cairn copy \(name)'; a state folder that was moved away may be put back only if no daemon ran without it",
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
    // One that was told to begin anew, and has not yet, may hold what it held.
    let isTold = asked.map { !$0.isBegun && $0.at != nil } ?? false
    // Of a trail without copies, nothing is overwritten.
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

  /// A copy that was removed or put back comes again from the node that sends it.
  private func checkReaches(_ known: Checkpoint?, _ info: TrailInfo) throws {
    guard trail.origin != context.node, let known, known.trail == info.id,
      info.end.position < known.position
    else { return }
    throw CairnError(
      .trailElsewhere,
      "the copy of trail \(trail) here ends at \(info.end.position), and the target \(target.place) goes on at \(known.position)",
      hint: "the rest is waited for; see in 'cairn status' whether it comes", remedy: .retry,
      context: ["trail": trail.description])
  }

  /// Nobody has to be asked before everything is copied into a target that never had any of it.
  private func checkIsNew(_ end: TargetEnd, _ info: TrailInfo) throws {
    guard try end.knowsTables(of: trail) else { return }
    throw CairnError(
      .checkpointForeign,
      "the target \(target.place) has tables of trail \(trail) and no place in it, and the trail's beginning has been purged: the oldest segment is \(info.firstPosition.segment)",
      hint: "copy everything again with 'cairn copy \(name)'", context: ["trail": trail.description])
  }

  /// Under another name, what a waiting table missed would be looked for in vain, and be left out: a copy has to take its
  /// place, into the table that it has.
  private func checkNames(_ end: TargetEnd) throws {
    let noted = TargetNames(state: context.statePath, apply: name)
    let now = TargetNames.text(rules, names)
    guard let before = try noted.read(), before != now else { return try noted.note(now) }
    let held = try end.heldTables(of: trail)
    if held.isEmpty { return try noted.note(now) }
    // Done by `adoptRules`, once the copies are noted.
    if try canBeReplaced(held, before, now) { return }
    throw CairnError(
      .ruleRefused,
      "tables wait at \(target.place), and the conf gives tables of trail \(trail) other names there than when they began to wait: what they missed would not be found",
      hint:
        "put 'names', and 'from' and 'to' of [[apply.\(name).table]], back until no table waits; or copy everything again with 'cairn copy \(name)'",
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

  /// The conf is refused where this can be seen; a link, a file that came later, or another way to a server shows only
  /// here. A source that cannot be reached is another one, since the target was.
  private func checkNotItsSource(_ end: TargetEnd) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    let source = try database.location().canonical
    guard source.engine == target.engine, let identity = try end.identity(), identity == DatabaseIdentity(source)
    else { return }
    throw CairnError(
      .sameDatabase, "the trail \(trail) comes from the database that it would be applied to, \(target.place)",
      hint: "name another database in [apply.\(name)]", remedy: .badInput)
  }

  private func isPurged(_ known: Checkpoint?, _ info: TrailInfo) -> Bool {
    guard let known, known.trail == info.id else { return false }
    return known.position.segment < info.firstPosition.segment
  }

  /// First the copy is certain to come, then the target forgets where it was, if that is of no use: whatever ends us in
  /// between, it is begun again.
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
    let by = capture == nil ? "; node \(trail.origin) is asked for it" : ""
    context.tell(.init(.apply, name), "everything is copied again into \(target.place)\(by)")
    // A trail that is whole is read from its beginning.
    if info.firstPosition.segment <= 1 { asked.at = nil }
    return asked
  }

  /// Only the node that the trail comes from has the rows.
  private func askFromAfar(_ info: TrailInfo) throws {
    guard trail.origin != context.node else {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) needs a copy of everything, and nothing captures trail \(trail) any more",
        hint: "add [capture.\(trail.name)] again, or take [apply.\(name)] out", context: ["trail": trail.description])
    }
    let requests = context.requests
    // One is enough: the later one counts.
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
          "say in [apply.\(name)] what is to become of them: existing = \"keep\" (they stay), \"overwrite\" (the target becomes equal) or \"merge\" (the source's rows win), and reload",
        context: error.context)
    }
  }
}
