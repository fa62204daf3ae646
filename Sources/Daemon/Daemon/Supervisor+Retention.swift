import Changes
import Configuring
import ControlAPI
import ServiceKit
import SystemKit
import Trails

// Deletion of segments, and pauses of workers while the trails exceed their disk budget.
extension Supervisor {
  /// Returns which segments of the trails may be deleted now, and marks the readers that this plan gives up.
  func retention() -> RetentionPlan {
    let configuration = context.configuration
    let infos = context.trailInfos
    let trails = infos.values.map { info in
      let name = info.name.description
      return RetentionPlan.Trail(name: name, segments: info.segments, keep: configuration.histories[name])
    }
    let shares = configuration.shares.compactMap { share in
      share.diskBytes.map { bytes in
        let names = infos.values.map(\.name).filter { $0.origin != context.node && share.includes($0) }
        return RetentionPlan.Share(trails: Set(names.map(\.description.nameKey)), bytes: bytes)
      }
    }
    let keys = PeerReaders.keys(configuration, infos.values.map(\.name), besides: context.leftOut)
    let (plan, old, told) = state.withLock { state in
      var readers = applies(&state, infos)
      for key in keys {
        let info = infos[key.trail.description]
        let id = RetentionPlan.ReaderID(key.reader, key.trail.description)
        let reader = PeerReaders.reader(key, context.peers[key], info, givenUpIn: state.givenUp[id])
        if !reader.isExpired { state.givenUp[id] = nil }
        readers.append(reader)
      }
      let plan = RetentionPlan(
        configuration.limits, trails: trails, readers: readers, shares: shares, shortened: state.shortened,
        isPaused: state.isPaused, now: Clock.system.microseconds())
      let old = state.shortened
      state.shortened = plan.shortened
      state.historyBytes = [:]
      for (trail, part) in plan.parts { state.historyBytes[trail] = part.history }
      for id in plan.expired {
        if id.name.kind == .apply {
          guard let info = infos[id.trail] else { continue }
          let segment = readers.first { $0.id == id }?.segment ?? 0
          state.entries[id.name]?.expiry = Expiry(trail: info.id, segment: segment)
        } else {
          state.givenUp[id] = readers.first { $0.id == id }?.segment ?? 0
        }
      }
      let now = Clock.monotonicMilliseconds
      return (plan, old, plan.expired.filter { state.expiryNotes.take($0, now: now) })
    }
    for id in told { tellExpired(id, plan) }
    tellShortened(plan, old)
    return plan
  }

  private func applies(_ state: inout State, _ infos: [String: TrailInfo]) -> [RetentionPlan.Reader] {
    var readers: [RetentionPlan.Reader] = []
    for (name, entry) in state.entries {
      guard let apply = entry.worker as? ApplyWorker, !entry.isLeaving else { continue }
      let (needs, info) = (apply.progress.snapshot.needs, infos[apply.apply.trail])
      let isAtEnd = needs.flatMap { needs in info.map { needs >= $0.end.position } } ?? false
      let isBack = entry.isExpired && Self.isBack(entry, infos)
      if isBack { state.entries[name]?.expiry = nil }
      readers.append(
        RetentionPlan.Reader(
          name: name, trail: apply.apply.trail, segment: needs?.segment, isAtEnd: isAtEnd,
          isExpired: entry.isExpired && !isBack))
    }
    for (trail, position) in context.twoWays.needs() {
      // To resolve a conflict, an apply reads in these trails what each end wrote.
      let name = WorkerName(.capture, trail.name)
      let id = RetentionPlan.ReaderID(name, trail.description)
      let isAtEnd = infos[trail.description].map { position >= $0.end.position } ?? false
      readers.append(
        RetentionPlan.Reader(
          name: name, trail: trail.description, segment: position.segment, isAtEnd: isAtEnd,
          isExpired: state.givenUp[id] != nil))
    }
    return readers
  }

  /// Returns whether the expired apply `entry` has got past the segment for which it expired, and the trail has all
  /// segments that it still needs.
  static func isBack(_ entry: Entry, _ infos: [String: TrailInfo]) -> Bool {
    guard let expiry = entry.expiry, let apply = entry.worker as? ApplyWorker,
      let needs = apply.progress.snapshot.needs, let info = infos[apply.apply.trail]
    else { return false }
    return expiry.isOver(needs: needs.segment, of: info.id, first: info.firstPosition.segment)
  }

  private func tellExpired(_ id: RetentionPlan.ReaderID, _ plan: RetentionPlan) {
    let words = BudgetWords(plan, context.configuration.limits)
    context.log.write(
      LogEntry(
        .warning, words.expiry(of: id), worker: id.name.description, code: .diskBudget, hint: words.expiryHint(id)))
  }

  private func tellShortened(_ plan: RetentionPlan, _ old: Set<NameKey>) {
    let infos = context.trailInfos
    let words = BudgetWords(plan, context.configuration.limits)
    for trail in plan.shortened.subtracting(old).sorted().map(\.text) {
      guard let keep = context.configuration.histories[trail], let info = infos[trail] else { continue }
      let since = info.segments.first { $0.number >= plan.purgeBelow[trail] ?? 0 }?.created ?? 0
      context.log.write(
        LogEntry(
          .warning, words.shortened(trail, keep, since: since), code: .diskBudget, hint: words.shortenedHint(trail),
          context: ["trail": trail]))
    }
    for trail in old.subtracting(plan.shortened).sorted().map(\.text)
    where context.configuration.histories[trail] != nil {
      context.log.write(
        LogEntry(
          .notice, "trail \(trail) has its whole history again", code: .diskBudget, context: ["trail": trail]))
    }
  }

  /// The sizes of the histories of trails in bytes, and the trails whose history a disk limit shortens, by the last
  /// plan.
  package var histories: (bytes: [NameKey: UInt64], shortened: Set<NameKey>) {
    state.withLock { ($0.historyBytes, $0.shortened) }
  }

  /// The readers at other nodes, and the captures of two-way databases, for which no segments are kept any more.
  package var givenUp: Set<RetentionPlan.ReaderID> { state.withLock { Set($0.givenUp.keys) } }

  /// Pauses captures and pulling pumps while the trails are over their disk limit. Otherwise ends such pauses.
  package func keepBudget() {
    let plan = retention()
    let configuration = context.configuration
    let words = BudgetWords(plan, configuration.limits)
    context.peers.keep { PeerReaders.mayRead($0, configuration) }
    let now = Clock.monotonicMilliseconds
    let entry: LogEntry? = state.withLock { state in
      guard plan.pausesCaptures != state.isPaused else { return nil }
      state.isPaused = plan.pausesCaptures
      context.isFull = plan.pausesCaptures
      state.pauseReason = plan.pausesCaptures ? words.pause : ""
      for name in state.entries.keys where state.entries[name]?.spec.bringsIn == true {
        if plan.pausesCaptures {
          end(&state, name) { $0.stop(.paused, now: now) }
        } else if state.entries[name]?.supervision.rest == .paused {
          end(&state, name) { $0.start(now: now) }
        }
      }
      return plan.pausesCaptures
        ? LogEntry(
          .error, words.pause, code: .diskBudget, hint: words.pauseHint)
        : LogEntry(.notice, "the trails are within [limits] disk again: captures continue", code: .diskBudget)
    }
    if let entry {
      context.log.write(entry)
      wake()
    }
  }
}
