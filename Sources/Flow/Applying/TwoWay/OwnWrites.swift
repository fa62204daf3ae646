import Changes
import Conflicts
import SystemKit
import Versions

/// A table of this database, as ``OwnWrites`` finds it.
enum OwnTable<Table> {
  case open(Table)
  /// The table is suspended or waits for a copy.
  case later
  /// Writes to the table are not resolved here.
  case none
}

/// Resolves rows that applications of this database wrote while it stated less than it knew; see ``Understated``.
///
/// All other nodes resolve these writes as conflicts with the changes that were not stated. This node does it with the
/// same code, as if its own transaction came from another node.
struct OwnWrites<Target: ApplyTarget> {
  private let target: Target
  private let name: TrailName
  private let transactions: [Understated]
  /// The session of this database's own trail, under the rules of the apply's trail.
  let session: TwoWaySession<Target.Table>
  private let resolver: RowResolver<Target>
  private let reader: VersionReader
  private let table: (TableSchema) throws -> OwnTable<Target.Table>

  /// Nil if there is nothing to resolve.
  ///
  /// - Parameter name: The trail that the apply reads.
  /// - Parameter table: Returns a table of this database, given as its own trail has it.
  init?(
    _ target: Target, of name: TrailName, _ desk: TwoWaySession<Target.Table>, _ clock: Clock,
    table: @escaping (TableSchema) throws -> OwnTable<Target.Table>
  ) {
    transactions = desk.shared.window.understated(about: name)
    guard !transactions.isEmpty else { return nil }
    (self.target, self.name, self.table) = (target, name, table)
    session = TwoWaySession(desk.shared, desk.shared.own, desk.names, clock, rulesOf: name)
    resolver = RowResolver(target, session, name, clock)
    reader = VersionReader(seen: desk.shared.window.seen)
  }

  /// The header of the first transaction.
  var first: TransactionHeader? { transactions.first?.header }

  /// Resolves the rows in the target's open transaction.
  ///
  /// - Returns: The transactions to report with ``noteResolved(_:)`` after the commit.
  /// - Throws: ``LocalAhead`` if capture has not read all commits of applications to these rows.
  func resolve(_ stop: StopSignal) throws -> [(Understated, isWhole: Bool)] {
    var resolved: [(Understated, isWhole: Bool)] = []
    for one in transactions {
      if stop.isSet { throw ApplyStopped() }
      try session.begin(one.header, at: one.begin)
      let isWhole = try deferRows()
      try resolver.resolve(stop)
      resolved.append((one, isWhole))
    }
    try resolver.judge()
    return resolved
  }

  func noteResolved(_ resolved: [(Understated, isWhole: Bool)]) {
    for (one, isWhole) in resolved {
      session.shared.window.noteResolved(one, about: name, isWhole: isWhole)
    }
    session.noteCandidates()
  }

  /// Passes the rows of the present transaction to the resolver. Returns false if rows of suspended tables are left.
  private func deferRows() throws -> Bool {
    var tables: [(schema: TableSchema, table: OwnTable<Target.Table>)] = []
    var isWhole = true
    let folder = try session.shared.folder(of: session.shared.own.description)
    try reader.forEachRow(at: session.place, folder: folder) { schema, change, isCopied in
      guard !isCopied else { return }
      let index = tables.lastIndex { $0.schema == schema } ?? tables.count
      if index == tables.count {
        tables.append((schema, try table(session.part(of: schema)?.schema ?? schema)))
      }
      switch tables[index].table {
      case .none: break
      case .later: isWhole = false
      case .open(let table):
        _ = try session.defers(
          change, schema, table, isReferenced: target.hasReferrers(table), takesRowsIn: false, mayWait: true)
      }
    }
    return isWhole
  }
}
