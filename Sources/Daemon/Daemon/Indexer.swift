import Changes
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// The thread that builds the indexes of sealed segments, one at a time for all trails. No other worker waits for it.
///
///     let indexer = Indexer(context)
///     indexer.keep()   // starts the thread, unless it runs
///     indexer.end()
final class Indexer: Sendable {
  private let context: ServiceContext
  private let stop = StopSignal()
  private let thread = Mutex<WorkerThread<Void>?>(nil)
  private let pauseMilliseconds: Int64
  // The trails with a segment that could not be indexed, which was logged.
  private let told = Mutex<Set<NameKey>>([])
  // The processor time of one pass. Segments of peers decide how long an index takes.
  private static let passMilliseconds: Int64 = 5_000
  private static let endMillisecondsMax: Int64 = 3_000

  init(_ context: ServiceContext, pauseMilliseconds: Int64 = 10_000) {
    (self.context, self.pauseMilliseconds) = (context, pauseMilliseconds)
  }

  /// Starts the thread if it does not run. Without a thread, trails have no indexes, and the next call tries again.
  func keep() {
    thread.withLock { thread in
      guard thread == nil else { return }
      thread = try? WorkerThread { [self] in Pulse(stop: stop).attached { run() } }
    }
  }

  /// Ends the thread. An index that is not written yet is built after the next start.
  func end() {
    stop.set()
    let limit = Clock.monotonicMilliseconds + Self.endMillisecondsMax
    thread.withLock { thread in
      while thread != nil, thread?.outcome == nil, Clock.monotonicMilliseconds < limit { Clock.sleep(milliseconds: 10) }
      if thread?.outcome != nil { _ = thread?.join() }
      thread = nil
    }
  }

  private func run() {
    var last: String?
    while !stop.rest(.milliseconds(pauseMilliseconds)) {
      last = pass(after: last)
    }
  }

  // Takes one segment of each trail in turn, so that no trail waits for all segments of another one. Returns the trail
  // with which the pass ended, for lack of time.
  private func pass(after last: String?) -> String? {
    let names = ((try? Trail.names(state: context.statePath)) ?? []).sorted { $0.description < $1.description }
    let first = names.firstIndex { $0.description > last ?? "" } ?? 0
    var left = Array(names[first...] + names[..<first])
    let limit = Clock.threadMilliseconds + Self.passMilliseconds
    while !left.isEmpty {
      for trail in left {
        if stop.isSet { return nil }
        if !index(trail) { left.removeAll { $0 == trail } }
        if Clock.threadMilliseconds >= limit { return trail.description }
      }
    }
    return nil
  }

  // Returns whether the trail may have more segments without an index.
  private func index(_ trail: TrailName) -> Bool {
    do {
      return try !Trail.buildIndexes(
        folder: context.folder(of: trail), most: 1, isEnding: { stop.isSet }, failed: { tell(trail, $0) }
      ).isEmpty
    } catch {
      // The trail may have been removed meanwhile.
      if Trail.exists(folder: context.folder(of: trail)) {
        tell(trail, CairnError(enveloping: error, doing: "index trail \(trail)"))
      }
      return false
    }
  }

  // An index is only a cache, so an error ends nothing. One of each trail is logged.
  private func tell(_ trail: TrailName, _ error: CairnError) {
    guard told.withLock({ $0.insert(trail.description.nameKey).inserted }) else { return }
    context.log.write(
      LogEntry(
        .warning, "cannot build an index of trail \(trail), so searches in it take longer: \(error.message)",
        code: error.code, hint: error.hint, context: ["trail": trail.description]))
  }
}
