import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit

/// Compares two databases row by row (`docs/compare.md`).
package final class Comparison {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var names = NamePolicy.fold
    package init() {}
  }

  /// What was found in one table.
  package struct TableResult: Sendable {
    package let name: String
    package var rows = 0
    package var missing = 0
    package var extra = 0
    package var different = 0
    package var inFlight = 0
    package var milliseconds: Int64 = 0
    package var differences: Int { missing + extra + different }
  }

  package enum Event {
    case notice(String)
    case difference(Difference)
    case table(TableResult)
  }

  package struct Summary: Sendable {
    package var tables = 0
    package var rows = 0
    package var differences = 0
    package var inFlight = 0
    package var milliseconds: Int64 = 0
    package var isStopped = false
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

  /// Compares all tables; `tell` gets what is found as it is found.
  package func run(_ tell: (Event) throws -> Void) throws -> Summary {
    let begun = Clock.monotonicMilliseconds
    let plan = try ComparePlan(source, target, options.tables, options.names)
    var summary = Summary()
    for notice in plan.notices { try tell(.notice(notice)) }
    for difference in plan.differences {
      summary.differences += 1
      try tell(.difference(difference))
    }
    watch.update { $0.tables = plan.tables.count }
    let looks = (source: try ends.reader(.source), target: try ends.reader(.target))
    let settling = SettlingByLooks(stop: watch.stop)
    for table in plan.tables where !watch.stop.isSet {
      let result = try withoutActuallyEscaping(tell) { tell in try compare(table, looks, settling, tell) }
      try tell(.table(result))
      summary.tables += 1
      summary.rows += result.rows
      summary.differences += result.differences
      summary.inFlight += result.inFlight
      watch.update { $0.tablesDone += 1 }
    }
    summary.isStopped = watch.stop.isSet
    summary.milliseconds = Clock.monotonicMilliseconds - begun
    return summary
  }

  private func compare(
    _ table: ComparedTable, _ looks: (source: any RowReader, target: any RowReader), _ settling: any Settling,
    _ tell: @escaping (Event) throws -> Void
  ) throws -> TableResult {
    let begun = Clock.monotonicMilliseconds
    var result = TableResult(name: table.name)
    try TableComparison(table, ends, watch, settling: settling, looks: looks) { settlement in
      for difference in settlement.differences {
        switch difference.kind {
        case .missing: result.missing += 1
        case .extra: result.extra += 1
        default: result.different += 1
        }
        try tell(.difference(difference))
      }
      result.inFlight += settlement.inFlight
    }.run()
    result.rows = watch.snapshot.sourceRows
    result.milliseconds = Clock.monotonicMilliseconds - begun
    return result
  }
}
