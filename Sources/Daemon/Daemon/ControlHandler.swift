import Applying
import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Glibc
import Replicating
import SQLiteKit
import ServiceKit
import SystemKit
import Trails

/// Executes the requests that arrive over the control socket.
package struct ControlHandler: Sendable {
  package let context: ServiceContext
  package let supervisor: Supervisor
  package let status: @Sendable () -> NodeStatus
  /// Loads the conf again. Throws if the new conf is invalid.
  package let reload: @Sendable () throws -> WorkerPlan.Change
  private let questionNotes = OrderNotes()

  package init(
    context: ServiceContext, supervisor: Supervisor, status: @escaping @Sendable () -> NodeStatus,
    reload: @escaping @Sendable () throws -> WorkerPlan.Change
  ) {
    (self.context, self.supervisor, self.status, self.reload) = (context, supervisor, status, reload)
  }

  /// Executes a request and returns the answer. Commands that change something are logged first. Questions about rows
  /// are logged at most once a minute for each user and trail.
  package func answer(_ request: ControlRequest, from peer: ControlPeer) throws -> JSONObject {
    if request.command == .question { return try question(request, peer) }
    if request.command != .status {
      let words = [request.subject] + request.tables + (request.at.map { ["--at \($0)"] } ?? [])
      log(request.command, words.filter { !$0.isEmpty }.joined(separator: " "), peer)
    }
    if let verdict = RowDecision.Verdict(rawValue: request.command.rawValue) {
      return try decide(verdict, request, peer)
    }
    return try carryOut(request)
  }

  private func log(_ command: ControlRequest.Command, _ subject: String, _ peer: ControlPeer) {
    context.log.write(
      LogEntry(
        .notice, "order '\(command.rawValue)\(subject.isEmpty ? "" : " " + subject)' of \(peer)",
        context: ["uid": peer.user.map(String.init) ?? "unknown"]))
  }

  private func carryOut(_ request: ControlRequest) throws -> JSONObject {
    switch request.command {
    case .status, .question, .skip, .takeSource: return status().json
    case .start: return worker(try supervisor.order(.start, request.subject), "starting")
    case .stop: return worker(try supervisor.order(.stop, request.subject), "stopping")
    case .restart: return worker(try supervisor.order(.restart, request.subject), "restarting")
    case .pause: return try pause(request)
    case .resume: return worker(try supervisor.resume(request.subject), "resuming")
    case .copy: return try copy(request.subject, request.tables)
    case .unhook: return try hook(request, "unhooked") { try $0.unhook($1) }
    case .rehook: return try hook(request, "rehooked") { try $0.rehook($1, patterns: $0.patterns()) }
    case .reload:
      let change = try reload()
      func list(_ names: [WorkerName]) -> JSONObject.Value { .list(names.map { .text($0.description) }) }
      return JSONObject([
        ("event", .text("reloaded")), ("added", list(change.added)), ("removed", list(change.removed)),
        ("changed", list(change.altered)),
        ("notes", .list((change.notices + supervisor.obstacles(change.added + change.altered)).map { .text($0) })),
      ])
    }
  }

  private func worker(_ name: WorkerName, _ event: String) -> JSONObject {
    context.tell(name, "\(event), on request")
    return JSONObject([("event", .text(event)), ("worker", .text(name.description))])
  }

  private func pause(_ request: ControlRequest) throws -> JSONObject {
    if let until = request.until, until <= Clock.system.microseconds() {
      throw CairnError(
        .usage, "the pause would end at \(UTCTime(until)), which has passed", hint: "name a later time",
        remedy: .badInput)
    }
    var answer = worker(try supervisor.pause(request.subject, until: request.until), "pausing")
    answer["until"] = request.until.map { .text(UTCTime($0).description) } ?? .null
    return answer
  }

  // MARK: Questions about rows

  // Only root and the daemon's own user may read rows of other nodes.
  private func question(_ request: ControlRequest, _ peer: ControlPeer) throws -> JSONObject {
    // Other subjects are left out, so that a client cannot fill the log with them.
    let subject = context.configuration.applies.first { $0.trail.hasSameBytes(as: request.subject) }?.trail ?? ""
    if questionNotes.isDue(peer.user, subject, now: Clock.monotonicMilliseconds) { log(.question, subject, peer) }
    guard let user = peer.user, user == 0 || user == geteuid() else {
      throw CairnError(
        .privilegeMissing, "\(peer) may not read rows of other nodes",
        hint: "run 'cairn compare' as root or as the daemon's own user", remedy: .badInput)
    }
    let trail = try context.trailName(request.subject)
    guard trail.origin != context.node,
      context.configuration.applies.contains(where: { $0.trail == trail.description }),
      let question = HexText.bytes(request.data)
    else {
      throw CairnError(
        .usage, "no apply of this node reads trail \(trail) of another node",
        hint: "use the same version of cairn and cairnd (docs/reference/control-protocol.md)", remedy: .badInput)
    }
    let answer = try context.answer(question, about: trail, of: "cairn compare") { false }
    return JSONObject([("data", .text(HexText.text(answer)))])
  }

  private func apply(named text: String) throws -> Configuration.Apply {
    let applies = context.configuration.applies
    let short = text.hasPrefix("apply.") ? String(text.dropFirst("apply.".count)) : text
    guard let apply = applies.first(where: { $0.name == short }) else {
      let near = short.nearest(in: applies.map(\.name)).map { "did you mean '\($0)'? " } ?? ""
      throw CairnError(
        .usage, "there is no apply '\(text)'",
        hint: "\(near)there are \(applies.map(\.name).joined(separator: ", "))", remedy: .badInput)
    }
    return apply
  }

  // MARK: Rows that stop an apply

  // The apply carries the decision out when it starts again, and logs it as a conflict with the row.
  private func decide(
    _ verdict: RowDecision.Verdict, _ request: ControlRequest, _ peer: ControlPeer
  ) throws -> JSONObject {
    let apply = try apply(named: request.subject)
    let name = WorkerName(.apply, apply.name)
    guard let worker = supervisor.workers().first(where: { $0.name == name }), let at = request.at else {
      throw DecidableRow.notStopped(name, "")
    }
    let row = try DecidableRow(worker, goesBothWays: context.configuration.captureBehind(apply) != nil).row(
      verdict, at: at)
    let trail = try Trail.info(folder: context.folder(of: context.trailName(apply.trail))).id
    let account = peer.user.flatMap { Account(user: $0)?.name }.map { " (\($0))" } ?? ""
    try RowDecisionFile(state: context.statePath, apply: apply.name).add(
      RowDecision(
        verdict, of: trail, at: row.position, transaction: row.transaction,
        by: "uid \(peer.user.map(String.init) ?? "unknown")\(account)"), applied: worker.transactions)
    try supervisor.order(.start, name.description)
    context.tell(name, "\(verdict.rawValue) of table \(row.table), row \(row.key), at \(row.position), on request")
    return JSONObject([
      ("event", .text(verdict.rawValue)), ("apply", .text(apply.name)), ("row", .object(row.json)),
      ("database", .text(apply.database)),
    ])
  }

  // MARK: Copies

  // All tables if `tables` is empty. After a failure of the apply, only all tables can be copied.
  private func copy(_ text: String, _ tables: [String]) throws -> JSONObject {
    let configuration = context.configuration
    let apply = try apply(named: text)
    let trail = try context.trailName(apply.trail)
    let applyName = WorkerName(.apply, apply.name)
    let failed = supervisor.workers().first { $0.name == applyName && $0.state == .failed }
    if let failed, !tables.isEmpty { return try copy(apply, tables, for: failed, trail) }
    let isLost = failed != nil
    if !isLost, let error = OppositeCopy(apply, configuration)?.refusal(supervisor.copying) { throw error }
    guard let capture = context.capture(of: trail) else {
      return try copyFromAfar(apply, trail, tables, isLost: isLost)
    }
    let order = CopyOrder(context: context, supervisor: supervisor)
    try order.checkSource(of: capture)
    let outcome: CopyOrder.Outcome
    if isLost {
      try beginAnew(apply)
      outcome = .everything
    } else {
      outcome = try order.carryOut(
        capture, Self.sources(of: tables, apply),
        hint: "run 'cairn copy \(apply.name)' without --tables to copy everything", isStrict: true)
    }
    switch outcome {
    case .everything:
      context.tell(applyName, "copying everything again, on request")
      return copying(apply, [], isEverything: true, capture)
    case .tables(let asked):
      context.tell(applyName, "copies \(asked.joined(separator: ", ")) again, on request")
      return copying(apply, asked, isEverything: false, capture)
    }
  }

  // The copies are requested first, so that they come after the row that stopped the apply.
  private func copy(
    _ apply: Configuration.Apply, _ tables: [String], for failed: NodeStatus.Worker, _ trail: TrailName
  ) throws -> JSONObject {
    let isTwoWay = context.configuration.captureBehind(apply) != nil
    let wanted = try FailedCopy(apply, failed, tables, goesBothWays: isTwoWay)
    guard let database = context.configuration.database(apply.database) else { return JSONObject() }
    let target = try TargetDatabase(database.location().canonical)
    try wanted.check(at: target, trail)
    let capture = context.capture(of: trail)
    var (asked, origin) = (tables, "")
    if let capture {
      let order = CopyOrder(context: context, supervisor: supervisor)
      try order.checkSource(of: capture)
      let outcome = try order.carryOut(
        capture, Self.sources(of: tables, apply),
        hint: "run 'cairn copy \(apply.name)' without --tables to copy everything", isStrict: true)
      if case .tables(let names) = outcome { asked = names }
    } else {
      origin = try copyFromAfar(apply, trail, tables, isLost: false).text("asked_of") ?? ""
    }
    try wanted.mark(at: target, trail, asked)
    try supervisor.order(.start, failed.name.description)
    context.tell(failed.name, "copies \(asked.joined(separator: ", ")) again after a failure, on request")
    var answer = copying(apply, asked, isEverything: false, capture)
    if !origin.isEmpty { answer["asked_of"] = .text(origin) }
    return answer
  }

  // A table may be given by its name at the target too, because a suspended table is reported under that name.
  private static func sources(of tables: [String], _ apply: Configuration.Apply) -> [String] {
    tables.map { name in apply.rules.first { $0.to?.asciiLowercased == name.asciiLowercased }?.from ?? name }
  }

  private func beginAnew(_ apply: Configuration.Apply) throws {
    try CopyRequest(state: context.statePath, apply: apply.name).ask()
    try supervisor.order(.restart, WorkerName(.apply, apply.name).description)
  }

  // Only the node where the trail begins can read the rows. The request goes through the nodes on the way.
  private func copyFromAfar(
    _ apply: Configuration.Apply, _ trail: TrailName, _ tables: [String], isLost: Bool
  ) throws -> JSONObject {
    guard context.configuration.receives(apply.trail) else {
      throw CairnError(
        .unsupported, "trail \(trail) comes from another node, and nothing brings it here",
        hint: "add a [pump.NAME] that fetches it, or a [peer.NAME] that may push it", remedy: .badInput)
    }
    if isLost {
      try beginAnew(apply)
    } else {
      let info = try Trail.info(folder: context.folder(of: trail))
      try context.requests.ask(
        trail, Self.sources(of: tables, apply), for: apply.name, behind: info.lastTransaction,
        now: Clock.system.microseconds())
    }
    let what = tables.isEmpty ? "everything" : tables.joined(separator: ", ")
    context.tell(.init(.apply, apply.name), "asked node \(trail.origin) to copy \(what) again, on request")
    var answer = copying(apply, tables, isEverything: tables.isEmpty, nil)
    answer["asked_of"] = .text(trail.origin)
    return answer
  }

  private func copying(
    _ apply: Configuration.Apply, _ tables: [String], isEverything: Bool, _ capture: Configuration.Capture?
  ) -> JSONObject {
    let name = WorkerName(.apply, apply.name)
    let workers = [name] + (capture.map { [WorkerName(.capture, $0.name)] } ?? [])
    // A suspended table is reported by its name at the target.
    let names = tables + apply.rules.filter { tables.contains($0.from) }.compactMap(\.to)
    let notes = supervisor.obstacles(workers) + supervisor.waitingTables(of: name, TablePatterns(names))
    return JSONObject([
      ("event", .text("copying")), ("apply", .text(apply.name)), ("tables", .list(tables.map { .text($0) })),
      ("names", .list(names.map { .text($0) })), ("everything", .bool(isEverything)),
      ("notes", .list(notes.map { .text($0) })),
    ])
  }

  // MARK: Triggers

  private func hook(
    _ request: ControlRequest, _ event: String, _ body: (Journal, String?) throws -> [String]
  ) throws -> JSONObject {
    let configuration = context.configuration
    guard let database = configuration.database(request.subject) else {
      throw CairnError(
        .usage, "there is no database '\(request.subject)'",
        hint: "there are \(configuration.databases.map(\.name).joined(separator: ", "))", remedy: .badInput)
    }
    let path = try database.location().sqlitePath(for: "cairn \(request.command.rawValue)")
    let journal = Journal(try Ends.open(path, mode: .readWrite))
    guard try journal.owner() != nil else {
      throw CairnError(
        .tableMissing, "\(path) is not captured", hint: "see 'cairn status': its capture has not started",
        remedy: .badInput)
    }
    let tables = try body(journal, request.tables.first)
    let unhooked = try journal.unhooked()
    for capture in configuration.captures where capture.database == database.name {
      context.note(unhooked: unhooked, of: capture.name)
    }
    context.log.write(LogEntry(.notice, "\(event) \(tables.joined(separator: ", ")) of \(path), on request"))
    return JSONObject([("event", .text(event)), ("tables", .list(tables.map { .text($0) }))])
  }
}
