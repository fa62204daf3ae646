import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Pumping
import Replicating
import Synchronization
import SystemKit
import Trails

/// The worker that makes the files of a `[snapshot.NAME]`.
final class SnapshotWorker: Worker {
  let name: WorkerName
  private let snapshot: Configuration.Snapshot
  private let database: Configuration.Database
  private let context: ServiceContext
  private let files = Mutex<[PublishedSnapshot]>([])
  private let isMaking = Atomic<Bool>(false)

  private struct Stopped: Error {}

  init(
    _ name: WorkerName, _ snapshot: Configuration.Snapshot, _ database: Configuration.Database,
    _ context: ServiceContext
  ) {
    (self.name, self.snapshot, self.database, self.context) = (name, snapshot, database, context)
  }

  func run(stop: StopSignal) throws {
    let shelf = SnapshotShelf(state: context.statePath, snapshot, url: database.url)
    try shelf.prepare()
    try look(shelf)
    while !stop.isSet {
      let now = Clock.system.microseconds()
      let newest = files.withLock { $0.first?.madeAt }
      let wait = SnapshotSchedule.wait(newest: newest, every: snapshot.every, now: now)
      if wait > .zero {
        _ = stop.rest(min(wait, .seconds(60)))
        continue
      }
      do { try make(shelf, at: now, stop) } catch is Stopped { return }
      try shelf.prune(keep: snapshot.keep)
      try look(shelf)
    }
  }

  private func make(_ shelf: SnapshotShelf, at now: Int64, _ stop: StopSignal) throws {
    isMaking.store(true, ordering: .relaxed)
    defer { isMaking.store(false, ordering: .relaxed) }
    var order = Snapshot(of: try database.location().canonical, to: shelf.path(at: now))
    order.tables = TablePatterns(snapshot.tables)
    order.condition = snapshot.condition
    order.captureFolders = context.configuration.captures.map {
      context.folder(of: TrailName(origin: context.node, name: $0.name))
    }
    order.progress = { _, _ in if stop.isSet { throw Stopped() } }
    let made = try order.make()
    for notice in made.notices { context.tell(name, notice) }
  }

  private func look(_ shelf: SnapshotShelf) throws {
    let found = try shelf.files()
    files.withLock { $0 = found }
  }

  func describe(_ status: inout NodeStatus.Worker) {
    status.place = database.url
    status.isCaughtUp = true
    let (there, now) = (files.withLock { $0 }, Clock.system.microseconds())
    guard let newest = there.first else {
      status.detail = isMaking.load(ordering: .relaxed) ? "makes the first file" : ""
      return
    }
    status.snapshot = NodeStatus.Snapshot(
      sha256: newest.sha256, bytes: newest.bytes, ageMilliseconds: max(0, (now - newest.madeAt) / 1000),
      files: there.count)
    let age = Lag.text(milliseconds: Double(max(0, now - newest.madeAt)) / 1000)
    let next = isMaking.load(ordering: .relaxed) ? ", makes the next file" : ""
    status.detail =
      "made \(age) ago, \(Size.text(bytes: Int64(clamping: newest.bytes))), keeps \(there.count.counted("file"))\(next)"
  }
}
