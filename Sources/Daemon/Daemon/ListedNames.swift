import Applying
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// The watch over the names in the option `tables` of an apply. It reports names that no table of the trail has, as
/// soon as the trail has brought its tables.
final class ListedNames: Sendable {
  // In milliseconds. After this time without a new position at the end of the trail, its tables count as known.
  private static let quietMilliseconds: Int32 = 2000
  // In milliseconds. The names are looked up again after this time, until each has a table.
  private static let againMilliseconds: Int32 = 10_000

  private let apply: Configuration.Apply
  private let context: ServiceContext
  private let found = Mutex<[CairnError]>([])
  private let told = Mutex<Set<NameKey>>([])

  init(_ apply: Configuration.Apply, _ context: ServiceContext) { (self.apply, self.context) = (apply, context) }

  /// A sentence for the operator about the first name without a table; nil if there is none.
  var detail: String? { found.withLock { $0.first.map { "\($0.message); \($0.hint)" } } }

  /// Starts the thread of the watch; nil if the option has only patterns.
  func watch(_ progress: ApplyProgress, at target: DatabaseURL, stop: StopSignal) throws -> WorkerThread<Void>? {
    found.withLock { $0 = [] }
    guard let trail = TrailName(apply.trail), apply.tables.contains(where: { !TablePatterns.isPattern($0) }) else {
      return nil
    }
    return try WorkerThread { [self] in
      while !stop.isSet {
        let before = progress.snapshot.position
        if stop.wait(milliseconds: Self.quietMilliseconds) { return }
        let now = progress.snapshot
        guard now.isCaughtUp, now.position == before, now.copying == nil, !now.awaitsCopies else { continue }
        // A database that cannot be reached is looked at later.
        guard let unmatched = try? unmatched(TargetDatabase(target), trail) else { continue }
        report(unmatched)
        if unmatched.isEmpty || stop.wait(milliseconds: Self.againMilliseconds) { return }
      }
    }
  }

  // Nil if the trail has brought no table yet.
  private func unmatched(_ end: TargetDatabase, _ trail: TrailName) throws -> [TablePatterns.Unmatched]? {
    let left = try LeftOutNote(state: context.statePath, apply: apply.name).read().map(LeftOutNote.title)
    let known = try end.listedNames(of: trail) + left
    guard !known.isEmpty else { return nil }
    return TablePatterns(apply.tables).unmatched(in: known).filter(\.isMistake)
  }

  private func report(_ names: [TablePatterns.Unmatched]) {
    let errors = names.map { $0.error(apply.listName, at: "trail \(apply.trail)") }
    found.withLock { $0 = errors }
    for (name, error) in zip(names, errors) where told.withLock({ $0.insert(name.name.nameKey).inserted }) {
      context.log.write(
        LogEntry(
          .warning, error.message, worker: WorkerName(.apply, apply.name).description, code: error.code,
          hint: error.hint))
    }
  }
}
