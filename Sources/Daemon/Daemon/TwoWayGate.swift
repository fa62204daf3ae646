import Applying
import Changes
import Configuring
import Conflicts
import ControlAPI
import Deploying
import Endpoints
import Replicating
import ServiceKit
import SystemKit
import Transforming

/// The check of two-way tables before an apply starts: each needs a key, and keys that both databases generate must
/// differ.
struct TwoWayGate {
  let apply: Configuration.Apply
  let context: ServiceContext
  private var conf: Configuration { context.configuration }

  /// Checks the tables of a two-way apply. Does nothing for a one-way apply.
  ///
  /// Once the apply has begun, a table that cannot be replicated two-way is only reported, as in `cairn replicate`. Apply
  /// suspends it, and the others go on.
  ///
  /// - Parameter warns: Whether problems that do not prevent the replication are logged.
  /// - Throws: `table-refused`, `keys-alike`; `conf-value` if `local_writes` is set for a two-way table.
  func check(warns: Bool = false) throws {
    guard let behind = conf.captureBehind(apply), let trail = TrailName(apply.trail) else { return }
    if let capture = context.capture(of: trail) {
      try checkPair(capture, behind, warns)
    } else {
      try checkOwn(behind, trail, warns)
    }
  }

  private func warn(_ end: SourceDatabase, _ tables: [SourceDatabase.Table], beside other: Engine?) throws {
    for warning in try TwoWayCheck.warnings(end, tables, beside: other) { warn(warning) }
  }

  private func warn(_ text: String) {
    context.log.write(LogEntry(.warning, text, worker: WorkerName(.apply, apply.name).description))
  }

  /// Whether the target has a position in the trail.
  private var hasBegun: Bool {
    guard let trail = TrailName(apply.trail), let location = try? conf.database(apply.database)?.location().canonical,
      let target = try? TargetDatabase(location)
    else { return false }
    return (try? target.checkpoint(of: trail)) != nil
  }

  /// Starts a thread that repeats the checks after the initial load. Returns the thread; nil if the apply is one-way.
  ///
  /// - Parameter restart: Called if a check fails. It restarts the apply, which then reports the error.
  func checkOnceCopied(_ progress: ApplyProgress, stop: StopSignal, restart: @escaping @Sendable () -> Void) throws
    -> WorkerThread<Void>?
  {
    guard conf.captureBehind(apply) != nil else { return nil }
    return try WorkerThread {
      while !stop.wait(milliseconds: 250) {
        let now = progress.snapshot
        guard now.isCaughtUp, now.copying == nil, !now.awaitsCopies else { continue }
        guard now.tablesCopied > 0 else { return }
        do { try check() } catch let error as CairnError where Self.isOurs(error) { restart() } catch {}
        return
      }
    }
  }

  private static func isOurs(_ error: CairnError) -> Bool {
    [.tableRefused, .keysAlike, .confValue].contains(error.code)
  }

  // If a database cannot be reached, the check is made at the next start.
  private func checkPair(_ capture: Configuration.Capture, _ behind: Configuration.Capture, _ warns: Bool) throws {
    guard
      let back = conf.applies.first(where: { $0.trail == conf.trail(of: behind) && $0.database == capture.database }),
      let there = try? route(capture, apply), let again = try? route(behind, back)
    else { return }
    let pairs = try there.tables(thatComeBackBy: again)
    try checkLocalWrites(pairs.map(\.there), behind)
    let (here, other) = (pairs.map(\.here), pairs.map(\.there))
    try checkKeyed(here, there.source, capture, beside: (again.source.url.engine, other))
    try checkKeyed(other, again.source, behind, beside: (there.source.url.engine, here))
    if warns { try warn(again.source, other, beside: there.source.url.engine) }
    guard ![apply.database, capture.database].contains(where: { conf.database($0)?.sharesKeys ?? false }) else {
      return
    }
    let check = TwoWayCheck(there.source, pairs.map(\.here), again.source, at: again.source.url)
    if let alike = try check.keysAlike() { throw alike.sayingShared(apply.database) }
  }

  private func route(_ capture: Configuration.Capture, _ apply: Configuration.Apply) throws -> TwoWayRoute? {
    guard let database = conf.database(capture.database) else { return nil }
    let end = try SourceDatabase(database.location().canonical)
    return try TwoWayRoute(end, tables(end, capture), apply.rules, apply.names)
  }

  // Once apply has begun, capture goes on without a table that its owner keeps locked.
  private func tables(_ end: SourceDatabase, _ capture: Configuration.Capture) throws -> [SourceDatabase.Table] {
    try end.tables(TablePatterns(capture.tables), passesLocked: hasBegun).filter { !$0.isLocked }
  }

  // This node cannot reach the other database, so only its own one is checked.
  private func checkOwn(_ capture: Configuration.Capture, _ trail: TrailName, _ warns: Bool) throws {
    guard let database = conf.database(capture.database) else { return }
    let location = try database.location().canonical
    let target = try TargetDatabase(location)
    // Apply creates the file, and its tables are checked once they are copied.
    if target.isMissing { return }
    let comes = Set(try target.tableNames(of: trail).map { GeneratedKey.commonName(ofTable: $0).nameKey })
    let end = try SourceDatabase(location)
    let tables = try tables(end, capture)
      .filter { comes.contains(GeneratedKey.commonName(ofTable: $0.name)) }
    try checkLocalWrites(tables, capture)
    try checkKeyed(tables, end, capture)
    if warns { try warn(end, tables, beside: nil) }
    if database.sharesKeys { return }
    if let alike = try TwoWayCheck.keysNotSeparated(end, tables, from: trail) {
      throw alike.sayingShared(database.name, chain: (capture.name, trail.origin))
    }
  }

  private func checkLocalWrites(_ tables: [SourceDatabase.Table], _ capture: Configuration.Capture) throws {
    let error = TwoWayCheck.writtenLocally(tables, apply.localWritesPlan, capture: capture.name)
    if let error { throw error }
  }

  private func checkKeyed(
    _ tables: [SourceDatabase.Table], _ end: SourceDatabase, _ capture: Configuration.Capture,
    beside other: (engine: Engine, tables: [SourceDatabase.Table])? = nil
  ) throws {
    // Each check reports its own table.
    let checks: [() throws -> Void] = [
      {
        try TwoWayCheck.checkKeys(end, tables, beside: other) {
          "leave it out of 'tables' of [capture.\(capture.name)], as in [\"*\", \"!\($0)\"]"
        }
      },
      {
        if conf.database(capture.database)?.acceptsMovedKeys == true { return }
        try TwoWayCheck.checkMovedKeys(end, tables, hint: capture.movedKeysHint)
      },
      { try TwoWayCheck.checkSums(end, tables, apply.conflictPlan) },
    ]
    let hasBegun = hasBegun
    for check in checks { try TwoWayCheck.passing(ifBegun: hasBegun, warn: warn, check) }
  }
}
