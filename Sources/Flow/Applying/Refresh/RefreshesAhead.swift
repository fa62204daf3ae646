import Changes
import Mapping
import SystemKit
import Trails
import Transforming

/// The refreshes that a trail has after the present record.
///
/// Reads the trail once, however often it is asked: a transaction may have many changes that a later refresh excuses.
final class RefreshesAhead {
  /// The number of tables whose refreshes are remembered. A refresh of any further table is not found.
  static let tablesMax = 100_000

  private let reader: ApplyReader
  private let last: UInt64
  private var latest: [NameKey: Position] = [:]
  private var isOver = false
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
