import Applying
import Changes
import Configuring
import Operating
import ServiceKit
import Steering
import Synchronization
import SystemKit
import Trails

/// Applies a trail to a database.
final class ApplyWorker: Worker {
  let name: WorkerName
  let apply: Configuration.Apply
  private let database: Configuration.Database
  private let context: ServiceContext
  let progress = ApplyProgress()
  private let waitsForTrail = Atomic<Bool>(false)
  private let noticesTold = Mutex(0)

  init(_ name: WorkerName, _ apply: Configuration.Apply, _ database: Configuration.Database, _ context: ServiceContext)
  {
    (self.name, self.apply, self.database, self.context) = (name, apply, database, context)
  }

  func run(stop: StopSignal) throws {
    let trail = try context.trailName(apply.trail)
    let folder = context.folder(of: trail)
    let location = try database.location().canonical
    progress.forgetConnection()
    guard waitForTrail(folder, stop) else { return }
    let entry = ApplyEntry(
      name: apply.name, target: location, trail: trail, folder: folder, existing: apply.existing, context: context)
    var options = ApplyOptions()
    options.askedBehind = try entry.prove()
    options.existing = apply.existing ?? .overwrite
    options.names = apply.names
    options.misfits = apply.misfits
    options.ddl = apply.ddl
    try ApplyRun(location, trail: trail, folder: folder, options: options)
      .run(stop: stop, drain: stop, progress: progress)
  }

  /// False when it was stopped before there was a trail.
  private func waitForTrail(_ folder: String, _ stop: StopSignal) -> Bool {
    defer { waitsForTrail.store(false, ordering: .relaxed) }
    while !Folder.exists(folder + "/durable") {
      waitsForTrail.store(true, ordering: .relaxed)
      if stop.wait(milliseconds: 200) { return false }
    }
    return !stop.isSet
  }

  func describe(_ status: inout NodeStatus.Worker) {
    let now = progress.snapshot
    status.trail = apply.trail
    status.place = (try? database.location().place) ?? ""
    (status.rows, status.transactions) = (now.rows, now.transactions)
    status.position = now.position == .start ? (now.needs?.description ?? "") : now.position.description
    status.lags = now.lags
    status.tablesWaiting = now.waiting.map(\.name)
    let end = context.trailInfos[apply.trail]?.end.position
    let isBehind = end.map { $0 > max(now.position, now.needs ?? .start) } ?? false
    status.isCaughtUp = now.isCaughtUp
    if now.lastCommitTime > 0 {
      let waits = (!now.isCaughtUp || status.state != .running) && isBehind
      let lag = waits ? Clock.system.microseconds() - now.lastCommitTime : now.lagMicroseconds
      status.lagMilliseconds = Double(max(0, lag)) / 1000
    }
    if let copying = now.copying { status.detail = "copies table \(copying.table), \(copying.rows) rows so far" }
    if let table = now.waiting.first { status.detail = "table \(table.name) waits: \(table.message)" }
    guard status.state == .running else { return }
    if waitsForTrail.load(ordering: .relaxed) {
      status.state = .waiting
      let isOurs = apply.trail.hasPrefix(context.node + ".")
      status.detail =
        "waits for trail \(apply.trail)\(isOurs ? ", which its capture has not begun yet" : ", which is not received yet")"
    } else if now.isReconnecting {
      status.state = .waiting
      status.detail = "waits for the server of \(status.place)"
    } else if now.isWaitingForLock {
      status.detail = "waits for a lock on the target"
    }
  }

  /// What it has to say once since the last call.
  func news() -> [String] {
    let notices = progress.snapshot.notices
    return noticesTold.withLock { told in
      defer { told = notices.count }
      return Array(notices.dropFirst(told))
    }
  }
}
