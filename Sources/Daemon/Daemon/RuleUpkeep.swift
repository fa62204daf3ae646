import Applying
import Changes
import ControlAPI
import Mapping
import ServiceKit
import Synchronization
import SystemKit
import Transforming

/// Requests a refresh of each table whose rule changed, and repeats the request until the rows follow the new rule.
final class RuleUpkeep: Sendable {
  private struct State {
    var rules: [TableRule] = []
    var changed: [ChangedRule] = []
    var askedAt: Int64 = 0
    // The time of the last request by table, for suspended tables that need nothing but a copy.
    var wanted: [NameKey: Int64] = [:]
  }

  // In milliseconds. A capture that was already copying the table may have ignored the first request.
  private let askAgainMilliseconds: Int64

  private let apply: String
  private let context: ServiceContext
  private let state = Mutex(State())

  init(_ apply: String, _ context: ServiceContext, askAgainMilliseconds: Int64 = 30_000) {
    (self.apply, self.context, self.askAgainMilliseconds) = (apply, context, askAgainMilliseconds)
  }

  /// The tables whose changed rules need a refresh that has not started at the target yet.
  var awaited: [String] { state.withLock { $0.changed.filter(\.isCopied).map(\.table) } }

  /// Forgets all tables, when a run of the apply begins.
  func rest() { state.withLock { $0 = State() } }

  func begin(_ rules: [TableRule], _ changed: [ChangedRule]) {
    state.withLock { $0 = State(rules: rules, changed: changed, askedAt: Clock.monotonicMilliseconds) }
  }

  /// Forgets each table whose new rule has taken effect, or that is no longer captured. Requests again each refresh
  /// that has not started. Returns the entries to log.
  func look(_ now: ApplyProgress.Snapshot, _ trail: TrailName) -> [LogEntry] {
    state.withLock { state in
      let wanted = askForWanted(&state, now, trail)
      guard !state.changed.isEmpty else { return wanted }
      let requests = context.requests.all
      let isMissing = { (table: String) in
        now.isCaughtUp && requests.contains { $0.isOf(apply: self.apply, trail, table) && $0.isMissing }
      }
      let gone = state.changed.map(\.table).filter { !now.rulesAdopted.contains($0) && isMissing($0) }
      let left = state.changed.filter { !now.rulesAdopted.contains($0.table) && !gone.contains($0.table) }
      if left.count < state.changed.count {
        // If this fails, the table is handled again at the next start.
        try? RuleNote(state: context.statePath, apply: apply).note(.init(rules: state.rules, changed: left))
        state.changed = left
        context.requests.settle { request in gone.contains { request.isOf(apply: self.apply, trail, $0) } }
      }
      askAgain(&state, now, trail)
      return wanted
        + gone.map { table in
          LogEntry(
            .warning,
            "table \(table) is no longer captured, so it is not copied for its new rule: its rows at the target keep the former rule",
            worker: WorkerName(.apply, apply).description)
        }
    }
  }

  // Only a copy lets a suspended table continue whose rule was invalid and is valid now.
  private func askForWanted(_ state: inout State, _ now: ApplyProgress.Snapshot, _ trail: TrailName) -> [LogEntry] {
    guard now.isCaughtUp else { return [] }
    let tables = Set(now.copiesWanted.values.map(\.nameKey))
    for table in state.wanted.keys where !tables.contains(table) {
      state.wanted[table] = nil
      context.requests.settle { $0.isOf(apply: self.apply, trail, table.text) }
    }
    let moment = Clock.monotonicMilliseconds
    var news: [LogEntry] = []
    for table in tables.sorted() where !state.changed.contains(where: { $0.table.nameKey == table }) {
      if let asked = state.wanted[table], moment - asked < askAgainMilliseconds { continue }
      let isNew = state.wanted.updateValue(moment, forKey: table) == nil
      // An earlier run of the daemon has requested it already.
      if isNew, context.requests.all.contains(where: { $0.isOf(apply: apply, trail, table.text) }) { continue }
      if isNew {
        news.append(
          LogEntry(
            .notice, "table \(table) fits its rule again: copying it",
            worker: WorkerName(.apply, apply).description))
      }
      ask(for: table.text, now, trail)
    }
    return news
  }

  private func ask(for table: String, _ now: ApplyProgress.Snapshot, _ trail: TrailName) {
    context.requests.settle { $0.isOf(apply: self.apply, trail, table) }
    try? context.requests.ask(
      trail, [table], for: apply, behind: now.transactions, now: Clock.system.microseconds())
  }

  private func askAgain(_ state: inout State, _ now: ApplyProgress.Snapshot, _ trail: TrailName) {
    let moment = Clock.monotonicMilliseconds
    guard now.isCaughtUp, moment - state.askedAt >= askAgainMilliseconds else { return }
    state.askedAt = moment
    for table in state.changed where table.isCopied { ask(for: table.table, now, trail) }
  }
}
