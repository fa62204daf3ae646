import Changes
import Trails

/// The moment to which a database is restored.
///
///     RestoreMoment.before(transaction: 812)
package enum RestoreMoment: Equatable, Sendable {
  /// After the last transaction before the first one that was committed later than this time, µs since 1970 UTC.
  case time(Int64)
  /// Between two transactions of the trail.
  case position(Position)
  /// After the transaction before this one.
  case before(transaction: UInt64)
}

/// Finds the last transaction of a trail that a restore applies, and whether the trail has all rows at that moment.
///
/// The plan is a value. Give it the records of the trail from the beginning, until it ends:
///
///     var plan = RestorePlan(.before(transaction: 812))
///     while let record = try reader.next(), plan.take(record, at: reader.position, reader.schema) {}
///     plan.last   // the transaction after which the database is as it was
package struct RestorePlan {
  package struct Transaction: Equatable, Sendable {
    package let number: UInt64
    /// The position of the transaction's begin record.
    package let begin: Position
    /// The time of its commit at the source, µs since 1970 UTC.
    package let commitTime: Int64
  }

  private let moment: RestoreMoment
  private var open: TransactionHeader?
  /// The transaction after the moment that is being read.
  private var later: Transaction?
  private var found: Set<TableKey> = []
  /// The tables whose copy goes on, by schema and name.
  private var copies: [TableKey: String] = [:]
  /// The tables whose changes before a later copy were lost, with the moment of that copy, in the order of the trail.
  package private(set) var doubtful: [(table: String, copied: Transaction)] = []
  /// The last transaction that the restore applies; nil: none.
  package private(set) var last: Transaction?
  /// The first transaction that the restore leaves out; nil if the trail ends before.
  package private(set) var next: Transaction?
  /// The last transaction so far after which the trail had all rows of all tables; nil: none.
  package private(set) var whole: Transaction?

  package init(_ moment: RestoreMoment) { self.moment = moment }

  /// The tables with rows that the trail does not have yet, because their copy goes on, in the order of their names.
  package var unfinished: [String] { copies.values.map(\.nameKey).sorted().map(\.text) }

  /// The trails whose rows an apply wrote to the source, and which this trail does not have.
  package var feeders: [String] {
    guard let open else { return [] }
    // The first one of a relayed transaction is that of its rows, which are here.
    return open.dependencies.dropFirst(open.relay == nil ? 0 : 1).map(\.origin)
  }

  /// Takes the next record of the trail. Returns false if the record belongs to a transaction after the moment.
  package mutating func take(_ record: Record, at position: Position, _ schema: (UInt64) -> TableSchema?) -> Bool {
    switch record {
    case .begin(let header):
      let transaction = Transaction(number: header.number, begin: position, commitTime: header.commitTime)
      guard includes(transaction) else {
        (next, later) = (transaction, transaction)
        return false
      }
      open = header
      last = transaction
    case .commit: if copies.isEmpty { whole = last }
    case .refresh(let refresh): take(refresh, schema)
    case .ddl(let ddl): take(ddl, schema)
    default: break
    }
    return true
  }

  /// Takes a record after the moment. A copy that makes up for lost changes says that rows before it may be wrong.
  package mutating func takeLater(_ record: Record, at position: Position, _ schema: (UInt64) -> TableSchema?) {
    switch record {
    case .begin(let header):
      later = Transaction(number: header.number, begin: position, commitTime: header.commitTime)
    case .refresh(let refresh):
      guard case .start(.lostChanges, _, _) = refresh.event, let later, let table = schema(refresh.schemaID),
        found.insert(TableKey(table)).inserted
      else { return }
      doubtful.append((table.fullName, later))
    default: return
    }
  }

  private func includes(_ transaction: Transaction) -> Bool {
    switch moment {
    case .time(let time): transaction.commitTime <= time
    case .position(let position): transaction.begin < position
    case .before(let number): transaction.number < number
    }
  }

  private mutating func take(_ refresh: Refresh, _ schema: (UInt64) -> TableSchema?) {
    guard let table = schema(refresh.schemaID) else { return }
    switch refresh.event {
    // The table keeps its other rows, so it stays whole.
    case .start(_, .rows, _): break
    case .start: copies[TableKey(table)] = table.fullName
    case .chunk: break
    case .end: copies[TableKey(table)] = nil
    }
  }

  private mutating func take(_ ddl: DDL, _ schema: (UInt64) -> TableSchema?) {
    let isUnfinished = schema(ddl.before).map { copies.removeValue(forKey: TableKey($0)) != nil } ?? false
    guard ddl.action != .drop, let after = schema(ddl.after), isUnfinished || ddl.isRefreshed else { return }
    copies[TableKey(after)] = after.fullName
  }
}

/// A table's schema and name, compared as bytes.
private struct TableKey: Hashable {
  @ByBytes private var namespace: String
  @ByBytes private var name: String
  init(_ table: TableSchema) { (namespace, name) = (table.namespace, table.name) }
}
