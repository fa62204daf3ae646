import Changes
import Mapping
import SystemKit
import Trails
import Transforming

/// The refreshes that a trail has after the present record.
///
/// Reads the trail once, however often it is asked: a transaction may have many changes that a later refresh excuses.
final class RefreshesAhead {
  /// The longest wait for capture to begin a refresh of a partitioned table, ms. Capture reads the catalog every two
  /// seconds.
  private static let waitMillisecondsMax: Int64 = 5000
  /// The number of tables whose refreshes are remembered. A refresh of any further table is not found.
  static let tablesMax = 100_000

  private let reader: ApplyReader
  private let last: UInt64
  private var latest: [NameKey: Position] = [:]
  private var isOver = false
  private var waited = false
  private(set) var recordsRead = 0

  /// Opens the trail in `folder` at a checkpoint; nil: at its beginning.
  ///
  /// - Parameter last: The last transaction whose refreshes count.
  init(in folder: String, from checkpoint: Checkpoint?, through last: UInt64, rules: [TableRule], to target: Engine)
    throws
  {
    reader = try ApplyReader.open(folder: folder, at: checkpoint, rules: rules, to: target, isForShapes: true)
    self.last = last
  }

  /// Returns whether a refresh of the whole table begins after the record at `start`.
  func copies(_ table: TableSchema, behind start: Position) throws -> Bool {
    let key = table.sourceKey.nameKey
    while true {
      if let found = latest[key], found > start { return true }
      guard try readOn() else { return false }
    }
  }

  /// Returns whether a refresh after the record at `start` corrects a missing or different row of a table. Waits up to
  /// 5 s for such a refresh, once.
  ///
  /// PostgreSQL does not report attached, detached or truncated partitions, so capture then refreshes the table.
  func excuses(_ table: TableSchema, behind start: Position) throws -> Bool {
    guard table.flags.contains(.partitioned) else { return false }
    let limit = Clock.monotonicMilliseconds + (waited ? 0 : Self.waitMillisecondsMax)
    while true {
      if try copies(table, behind: start) { return true }
      waited = true
      guard Clock.monotonicMilliseconds < limit else { return false }
      Pulse.beat()
      Clock.sleep(milliseconds: 250)
    }
  }

  /// Reads up to the next refresh of any table, and returns whether there is one.
  private func readOn() throws -> Bool {
    guard !isOver else { return false }
    while let record = try reader.next() {
      recordsRead += 1
      switch record {
      case .begin(let header) where header.number > last:
        isOver = true
        return false
      case .refresh(let refresh):
        guard case .start(_, let method, _) = refresh.event, method != .rows,
          let key = reader.schema(refresh.schemaID)?.sourceKey.nameKey,
          latest[key] != nil || latest.count < Self.tablesMax
        else { continue }
        latest[key] = reader.position
        return true
      default: continue
      }
    }
    return false
  }
}
