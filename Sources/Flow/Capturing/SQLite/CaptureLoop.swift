import Changes
import SQLiteKit
import SystemKit
import Trails

/// Runs the capture of an SQLite file: reads the source, writes the changes to the trail, syncs the trail, and waits.
final class CaptureLoop<Source: ChangeSource> {
  private let path: String
  private let source: Source
  private let trail: TrailWriter
  private let progress: CaptureProgress
  private let identity: FileIdentity?
  private var isWaitingForLock = false

  init(path: String, source: Source, trail: TrailWriter, progress: CaptureProgress) {
    (self.path, self.source, self.trail, self.progress) = (path, source, trail, progress)
    identity = FileIdentity(path: path)
  }

  func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    var watch = try SourceWatch(database: path)
    source.takesNotesAtOnce = untilCaughtUp
    progress.noteDurable(trail.end.position)
    try source.begin()
    while !stop.isSet {
      do {
        let found = try take(stop)
        isWaitingForLock = false
        progress.update { $0.isCaughtUp = !found }
        if found { continue }
        if untilCaughtUp { break }
        try checkIdentity()
        try source.rest()
        watch.wait(found: false, atMost: source.idleMilliseconds, stop: stop)
        try lookUntilFound(&watch, stop)
      } catch is CaptureStopped {
        break
      } catch let error as SQLiteError where error.primary == 1 {
        try source.checkParts()
        throw error
      } catch let error as SQLiteError where error.isBusy && !untilCaughtUp {
        waitForLock(error)
      }
    }
    try source.end()
  }

  private func take(_ stop: StopSignal) throws -> Bool {
    defer { source.endLook() }
    switch try source.look() {
    case .nothing: return false
    case .settled: return true
    case .found(let look):
      try source.write(look, stop: stop)
      let end = try trail.sync()
      progress.noteDurable(end.position, (look.readAt, Clock.monotonicMicroseconds - look.begun))
      try source.finish(look)
      return true
    }
  }

  private func waitForLock(_ error: SQLiteError) {
    source.release()
    if !isWaitingForLock { progress.tell("another program holds a lock on \(path) (\(error.message)): waiting for it") }
    isWaitingForLock = true
    progress.update { $0.isCaughtUp = false }
    Pulse.beat()
  }

  private func lookUntilFound(_ watch: inout SourceWatch, _ stop: StopSignal) throws {
    // Readers of other programs make events too; these must not prevent work that is left for a pause.
    let limit = Clock.monotonicMilliseconds + 100
    while !stop.isSet, Clock.monotonicMilliseconds < limit {
      if try source.hasNews() { return }
      guard watch.isClimbing else { return }
      watch.wait(found: false, atMost: .max, stop: stop)
    }
  }

  private func checkIdentity() throws {
    guard let now = FileIdentity(path: path, followsLink: false) else {
      throw CairnError(
        .databaseMissing, "database \(path) no longer exists", hint: "put it back: capture then reads what it contains")
    }
    guard now == identity else { throw SQLiteCapture.wentBack(path, "another file has taken its place") }
    guard now.owner == identity?.owner else {
      throw CairnError(
        .databaseUnsafe, "database \(path) belongs to another user than when capture started",
        hint:
          "if an administrator changed the owner, start the capture again; else find out which user did: ls -l \(path)")
    }
  }
}
