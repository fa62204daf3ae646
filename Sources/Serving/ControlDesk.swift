import Capturing
import Changes
import Configuring
import Operating
import SQLiteKit
import ServiceKit
import Steering
import SystemKit
import Trails

/// Carries out what comes in over the control socket.
package struct ControlDesk: Sendable {
  package let context: ServiceContext
  package let supervisor: Supervisor
  /// As it was published last.
  package let status: @Sendable () -> NodeStatus
  /// Loads the conf anew. Errors: why it is refused.
  package let reload: @Sendable () throws -> WorkerPlan.Change

  package init(
    context: ServiceContext, supervisor: Supervisor, status: @escaping @Sendable () -> NodeStatus,
    reload: @escaping @Sendable () throws -> WorkerPlan.Change
  ) {
    (self.context, self.supervisor, self.status, self.reload) = (context, supervisor, status, reload)
  }

  package func answer(_ request: ControlRequest) throws -> JSONObject {
    switch request.command {
    case .status: return status().json
    case .start: return worker(try supervisor.order(.start, request.subject), "starting")
    case .stop: return worker(try supervisor.order(.stop, request.subject), "stopping")
    case .restart: return worker(try supervisor.order(.restart, request.subject), "restarting")
    case .copy: return try copy(request.subject, request.tables)
    case .unhook: return try hook(request, "unhooked") { try $0.unhook($1) }
    case .rehook: return try hook(request, "rehooked") { try $0.rehook($1, patterns: $0.patterns()) }
    case .reload:
      let change = try reload()
      func list(_ names: [WorkerName]) -> JSONObject.Value { .list(names.map { .text($0.description) }) }
      return JSONObject([
        ("event", .text("reloaded")), ("added", list(change.added)), ("removed", list(change.removed)),
        ("changed", list(change.altered)),
      ])
    }
  }

  private func worker(_ name: WorkerName, _ event: String) -> JSONObject {
    context.tell(name, "\(event), as ordered")
    return JSONObject([("event", .text(event)), ("worker", .text(name.description))])
  }

  // MARK: Copies

  /// Has rows copied again: those of some tables while all goes on; of all, also where the way on is lost.
  private func copy(_ text: String, _ tables: [String]) throws -> JSONObject {
    let configuration = context.configuration
    let short = text.hasPrefix("apply.") ? String(text.dropFirst("apply.".count)) : text
    guard let apply = configuration.applies.first(where: { $0.name == short }) else {
      throw CairnError(
        .usage, "there is no apply '\(text)'",
        hint: "there are \(configuration.applies.map(\.name).joined(separator: ", "))", remedy: .badInput)
    }
    let trail = try context.trailName(apply.trail)
    guard let capture = context.capture(of: trail), let database = configuration.database(capture.database) else {
      throw CairnError(
        .unsupported, "trail \(trail) comes from another node, which has the rows",
        hint: "run 'cairn copy' at the node \(trail.origin)", remedy: .badInput)
    }
    let folder = context.folder(of: trail)
    let applyName = WorkerName(.apply, apply.name)
    let captureName = WorkerName(.capture, capture.name)
    let workers = supervisor.workers()
    let wentBack = workers.first { $0.name == captureName && $0.problem?.code == ErrorCode.sourceWentBack.rawValue }
    if let wentBack, wentBack.state == .failed {
      throw CairnError(
        .sourceWentBack, "the source of trail \(trail) is not where the trail ends, so no copy can come through it",
        hint:
          "if it is to be the truth from now on: stop the daemon, 'cairn detach' the source, remove \(folder), start the daemon, and copy again",
        remedy: .stop)
    }
    let failed = workers.filter { $0.state == .failed }.map(\.name)
    if !tables.isEmpty, let capture = workers.first(where: { $0.name == captureName && $0.state == .failed }) {
      throw CairnError(
        capture.problem.flatMap { ErrorCode(rawValue: $0.code) } ?? .bug,
        "\(captureName) has failed, so it copies no table: \(capture.problem?.message ?? "")",
        hint: "have everything copied, with 'cairn copy \(apply.name)' without --tables", remedy: .badInput)
    }
    if tables.isEmpty, failed.contains(applyName) || failed.contains(captureName) {
      // Where the way on is lost: a target begins with the copy, a capture with a new slot if need be.
      if failed.contains(applyName) {
        try CopyRequest(state: context.statePath, apply: apply.name).ask()
        try supervisor.order(.restart, applyName.description)
      } else {
        try CopyRequest.askCapture(folder)
        try supervisor.order(.restart, captureName.description)
      }
      context.tell(applyName, "everything is copied again, as ordered")
      return JSONObject([
        ("event", .text("copying")), ("apply", .text(apply.name)), ("tables", .list([])), ("everything", .bool(true)),
      ])
    }
    let patterns = TablePatterns(capture.tables)
    let wanted = tables.isEmpty ? patterns : TablePatterns(tables)
    let source = try SourceEnd(database.location().canonical)
    let meant = try source.tables(wanted).filter { $0.refusal == nil }.map(\.name)
    let captured = Set(try source.tables(patterns).map(\.name))
    if let stranger = meant.first(where: { !captured.contains($0) }) ?? (meant.isEmpty ? tables.first ?? "*" : nil) {
      throw CairnError(
        .tableMissing, "no table '\(stranger)' is captured from \(database.name)",
        hint: "the capture takes \(capture.tables.joined(separator: ", "))", remedy: .badInput)
    }
    let asked = try source.askForCopies(of: wanted, trail: try Trail.info(folder: folder).id)
    context.tell(applyName, "copies \(asked.joined(separator: ", ")) again, as ordered")
    return JSONObject([
      ("event", .text("copying")), ("apply", .text(apply.name)), ("tables", .list(asked.map { .text($0) })),
      ("everything", .bool(false)),
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
        .tableMissing, "\(path) is not captured", hint: "look at 'cairn status'; its capture has not begun",
        remedy: .badInput)
    }
    let tables = try body(journal, request.tables.first)
    let unhooked = try journal.unhooked()
    for capture in configuration.captures where capture.database == database.name {
      context.note(unhooked: unhooked, of: capture.name)
    }
    context.log.write(LogEntry(.notice, "\(event) \(tables.joined(separator: ", ")) of \(path), as ordered"))
    return JSONObject([("event", .text(event)), ("tables", .list(tables.map { .text($0) }))])
  }
}
