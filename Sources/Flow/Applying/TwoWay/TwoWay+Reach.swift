import Changes
import Mapping
import Versions

// How far trails have been applied to this database.
extension TwoWay {
  struct Reach {
    /// The id of the trail; nil: nothing of the trail has been applied.
    var id: TrailID?
    var number: UInt64 = 0
    /// The transaction after which the target may lack changes, because of suspended tables or the quarantine. Nil if
    /// the target lacks no changes.
    var held: UInt64?
    /// The suspended tables, by name: in SQLite the target's name in lower case, in PostgreSQL the name in the trail.
    /// The value is the last transaction that the table has as a whole. Leaves out tables that the trail has renamed
    /// since.
    var suspended: [NameKey: UInt64] = [:]
    /// The transactions in quarantine, or discarded from it.
    var aside: Set<UInt64> = []
  }

  var engine: Engine { if case .journal = local { .sqlite } else { .postgres } }

  /// Returns whether this database lacks the changes of a table by a transaction, because the table is suspended.
  ///
  /// False for the transaction at which the table was suspended: the table may have a part of its changes.
  func lacks(_ number: UInt64, _ table: TableSchema, _ reach: Reach) -> Bool {
    guard !reach.suspended.isEmpty else { return false }
    let name =
      engine == .sqlite ? TableMapping.targetName(of: table, in: .sqlite).sqliteKey : table.sourceKey.nameKey
    return reach.suspended[name].map { number > $0 && number - $0 > 1 } ?? false
  }
}
