import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails
import Transforming

/// Compares two databases row by row (`docs/explanation/compare.md`).
///
///     let watch = CompareWatch()
///     let comparison = try Comparison(from: source, to: target, state: nil, options: .init(), watch: watch)
///     let summary = try comparison.run { print($0) }
package final class Comparison {
  /// The settings of one comparison.
  ///
  ///     var options = Comparison.Options()
  ///     options.tables = TablePatterns(["orders"])
  ///     options.repairs = true
  package struct Options: Sendable {
    /// The tables to compare; nil for the captured tables, or for all tables if no replication is known.
    package var tables: TablePatterns?
    /// The conversion of names between SQLite and PostgreSQL; nil for the conversion of the replication.
    package var names: NamePolicy?
    /// The trail of the replication from the source to the target; nil if there is none.
    package var trail: TrailPlace?
    /// Whether the source sends differing rows again through the trail.
    package var repairs = false
    /// The rules of the apply. A table with a rule is not compared; a notice names it.
    package var rules: [TableRule] = []
    /// The tables of the target that the apply may write; all others are not compared.
    package var scope = TargetScope()
    package init() {}
  }

  /// The result of the comparison of one table.
  package struct TableResult: Sendable {
    package let name: String
    package var rows = 0
    package var missing = 0
    package var extra = 0
    package var different = 0
    package var inFlight = 0
    /// The number of rows that differed, were sent again, and were equal after that.
    package var mended = 0
    package var milliseconds: Int64 = 0
    /// False if the comparison was stopped before the end of the table.
    package var isFinished = true
    package var differences: Int { missing + extra + different }
  }

  package enum Event {
    case notice(String)
    case difference(Difference, ComparedTable?)
    /// A row that differs, but may be in flight.
    case unproven(Difference)
    case table(TableResult)
  }

  package struct Summary: Sendable {
    package var tables = 0
    package var rows = 0
    package var differences = 0
    package var inFlight = 0
    package var mended = 0
    package var milliseconds: Int64 = 0
    package var isStopped = false
    /// The number of tables that were not compared to their end because the comparison was stopped.
    package var tablesLeft = 0
  }

  private let ends: CompareEnds
  private let source: CompareDatabase
  private let target: CompareDatabase
  private let options: Options
  package let watch: CompareWatch

  package init(
    _ ends: CompareEnds, source: CompareDatabase, target: CompareDatabase, options: Options, watch: CompareWatch
  ) {
    (self.ends, self.source, self.target) = (ends, source, target)
    (self.options, self.watch) = (options, watch)
  }

  /// Compares all tables.
  ///
  /// - Parameter tell: Receives each result as soon as it is known.
  package func run(_ tell: (Event) throws -> Void) throws -> Summary {
    let begun = Clock.monotonicMilliseconds
    let looks = (source: try ends.reader(.source), target: try ends.reader(.target))
    let flight = try flight(looks)
    let plan = try plan(flight)
    var summary = Summary()
    for notice in plan.notices { try tell(.notice(notice)) }
    for difference in plan.differences {
      summary.differences += 1
      try tell(.difference(difference, nil))
    }
    for (name, place) in plan.locked {
      summary.inFlight += 1
      try tell(
        .notice("table \(name) is not compared: another session holds a lock on it at \(place); compare it again"))
    }
    watch.update { $0.tables = plan.tables.count }
    let unknown = flight == nil ? try unknownTrail(looks) : nil
    if let unknown { try tell(.notice(unknown)) }
    let settling: any Settling = flight ?? SettlingByLooks(stop: watch.stop, proves: unknown == nil && !ends.isAfar)
    let repair = try options.repairs ? repair(flight) : nil
    for table in plan.tables where !watch.stop.isSet {
      let result = try withoutActuallyEscaping(tell) { tell in try compare(table, looks, settling, repair, tell) }
      try tell(.table(result))
      if result.isFinished { summary.tables += 1 }
      summary.rows += result.rows
      summary.differences += result.differences
      summary.inFlight += result.inFlight
      summary.mended += result.mended
      watch.update { $0.tablesDone += 1 }
    }
    if repair != nil, summary.differences > summary.mended, let flight, !flight.follower.isRunning {
      try tell(
        .notice("asked the source to send the rows that differ: they arrive when 'cairn replicate' runs next"))
    }
    summary.isStopped = watch.stop.isSet
    summary.tablesLeft += plan.tables.count - summary.tables
    if summary.inFlight > 0, !summary.isStopped, let flight {
      let state = flight.follower.place.state
      try tell(
        .notice(
          flight.follower.isRunning
            ? "a 'cairn replicate' runs on the state folder \(state), but the target has not reached the position of the source: see its output"
            : "no 'cairn replicate' runs on the state folder \(state): changes not applied yet are counted as on their way; start it and compare again"
        ))
    }
    summary.milliseconds = Clock.monotonicMilliseconds - begun
    return summary
  }

  /// Returns an object that finds out from the trail which rows are in flight. Nil if there is no trail at this node,
  /// if the source is not captured, or if the target has applied nothing.
  private func flight(_ looks: (source: any RowReader, target: any RowReader)) throws -> SettlingByTrail? {
    guard let trail = options.trail, Trail.exists(folder: trail.folder) else { return nil }
    let flightEnds = FlightEnds(source: looks.source, target: looks.target, trail: trail.name)
    guard try flightEnds.isCaptured(), try flightEnds.checkpoint() != nil else { return nil }
    let follower = TrailFollower(trail, stop: watch.stop)
    return SettlingByTrail(follower: follower, ends: flightEnds, seed: ends.seed, stop: watch.stop)
  }

  /// Returns a message if the target has a checkpoint of a trail that is not at this node; otherwise nil. Without the
  /// trail, no difference can be proven.
  private func unknownTrail(_ looks: (source: any RowReader, target: any RowReader)) throws -> String? {
    guard let trail = options.trail, !Trail.exists(folder: trail.folder) else { return nil }
    let flightEnds = FlightEnds(source: looks.source, target: looks.target, trail: trail.name)
    guard try flightEnds.checkpoint() != nil else { return nil }
    return
      "the target is filled from trail \(trail.name), which is not in the state folder \(trail.state): name that replication's state folder with --state; without it, differences may be changes that are still on their way"
  }

  /// Returns the plan of the comparison. If tables or columns differ during a replication, first waits until the target
  /// has applied the source's present commits, then plans again.
  private func plan(_ flight: SettlingByTrail?) throws -> ComparePlan {
    let plan = try ComparePlan(
      source, target, options.tables ?? TablePatterns(), options.names ?? .fold, options.rules, scope: options.scope,
      trail: options.trail?.name)
    guard !plan.differences.isEmpty, let flight, flight.follower.isRunning, try flight.waitUntilNow() else {
      return plan
    }
    return try ComparePlan(
      source, target, options.tables ?? TablePatterns(), options.names ?? .fold, options.rules, scope: options.scope,
      trail: options.trail?.name)
  }

  private func repair(_ flight: SettlingByTrail?) throws -> Repair {
    guard let flight else {
      throw CairnError(
        .trailMissing, "no replication runs between the two databases, so rows cannot be sent",
        hint: "start 'cairn replicate', name its state folder with --state, or print statements with --sql",
        remedy: .badInput)
    }
    return try Repair(ends, flight, stop: watch.stop)
  }

  /// Compares a table without reporting its rows. Returns the number of differences, including rows that may be in
  /// flight.
  private func countDifferences(
    _ table: ComparedTable, _ looks: (source: any RowReader, target: any RowReader), _ settling: any Settling
  ) throws -> Int {
    var count = 0
    try TableComparison(table, ends, watch, settling: settling, looks: looks) { settlement in
      count += settlement.differences.reduce(settlement.inFlight) { $0 + $1.times }
    }.run()
    return count
  }

  private func compare(
    _ table: ComparedTable, _ looks: (source: any RowReader, target: any RowReader), _ settling: any Settling,
    _ repair: Repair?, _ tell: @escaping (Event) throws -> Void
  ) throws -> TableResult {
    let begun = Clock.monotonicMilliseconds
    var result = TableResult(name: table.name)
    if let flight = settling as? SettlingByTrail, try flight.ends.isWaiting(table) {
      result.inFlight = 1
      try tell(.notice("table \(table.name) is suspended until a schema change at the target, and is not compared"))
      return result
    }
    if let flight = settling as? SettlingByTrail, try !flight.waitForCopy(of: table) {
      result.inFlight = 1
      try tell(.notice("table \(table.name) is being copied: compare it again after the copy"))
      return result
    }
    let comparison = TableComparison(table, ends, watch, settling: settling, looks: looks) { settlement in
      for difference in settlement.differences {
        switch difference.kind {
        case .missing: result.missing += difference.times
        case .extra: result.extra += difference.times
        default: result.different += difference.times
        }
        try tell(.difference(difference, table))
      }
      for difference in settlement.unproven { try tell(.unproven(difference)) }
      try repair?.ask(table, settlement.differences)
      result.inFlight += settlement.inFlight
    }
    do { try comparison.run() } catch is Narrowing.TooMany {
      result.inFlight += 1
      try tell(
        .notice(
          "table \(table.name) is not compared: too many of its rows have the same hash to hold them in memory, as if their node had chosen the hashes"
        ))
    } catch let error as CairnError where error.code == .tableRefused {
      // The owner of one table must not keep the others from being compared.
      result.inFlight += 1
      try tell(.notice("table \(table.name) is not compared: \(error.message); \(error.hint)"))
    } catch is OriginSource.TooLarge {
      result.inFlight += 1
      try tell(
        .notice(
          "table \(table.name) is not compared: some of its rows are too large for an answer of their node; compare it there with 'cairn compare --from URL --to URL'"
        ))
    }
    result.rows = watch.snapshot.sourceRows
    if let repair, result.differences > 0 {
      do {
        let left = try repair.finish(comparison.look, comparison.verdict) {
          try countDifferences(table, looks, settling)
        }
        result.mended = max(0, result.differences - min(left, result.differences))
      } catch let error as CairnError where error.code == .tableRefused {
        try tell(.notice("whether table \(table.name) is repaired is unknown: \(error.message); \(error.hint)"))
      }
    }
    result.isFinished = !watch.stop.isSet
    result.milliseconds = Clock.monotonicMilliseconds - begun
    return result
  }
}
