import Changes

/// A transaction of this database's own trail that states less than its author knew.
///
/// While a table is suspended or a transaction is in quarantine, this database states that it lacks all changes from
/// there on. It has most of them, and its applications write over them. Other nodes resolve such writes as conflicts,
/// so this node must do the same.
package struct Understated: Sendable {
  package let header: TransactionHeader
  package let begin: Position
  /// For each trail, by index, the last transaction that the header states; 0 for none.
  let stated: [UInt64]
  /// The trails, by index, with changes that the author had and did not state.
  var origins: Set<Int>
  /// Whether all rows are resolved except those of tables that are suspended.
  var waitsForTables = false
}

extension Understated {
  /// Creates the entry of a transaction of this database's own trail. Nil unless it wrote a row over a version that was
  /// committed here and that its header does not state. The author of that version did not know the transaction either.
  ///
  /// Apply commits no version of a row for which capture still has to read a commit of an application. So each other
  /// transaction that is read after a version was committed here knows that version.
  init?(_ part: TrailScan.Part, _ entry: WindowEntry, in index: WindowIndex) throws {
    let own = WindowIndex.own
    // At the start, the order of own and other versions is unknown. If nothing is held, all of them are resolved.
    guard index.origins[own].isRead || index.origins.contains(where: { $0.held != nil }) else { return nil }
    var index = index
    let stated = index.known(index.origins[own].name, entry.number, seen: index.seen(part.header))
    let met = MetTransaction(entry: entry, known: stated)
    guard index.mayConcur(met) else { return nil }
    var found: Set<Int> = []
    for row in part.rows {
      for chain in row.isReference ? [row.chain] : [row.chain, row.reference.chain] {
        try index.store.forEach(of: chain) { other in
          let origin = index.origins[other.origin]
          guard other.origin != own, other.number <= origin.reached, !met.knows(other),
            !entry.isKnown(through: origin.steps[own].known(at: other.number), at: other.clock)
          else { return }
          found.insert(other.origin)
        }
      }
    }
    guard !found.isEmpty else { return nil }
    self.init(header: part.header, begin: part.begin, stated: stated, origins: found)
  }
}

/// The understated transactions that are not resolved yet.
struct UnderstatedList {
  private var transactions: [UInt64: Understated] = [:]

  mutating func note(_ one: Understated) {
    var one = one
    // Large transactions come in parts.
    one.origins.formUnion(transactions[one.header.number]?.origins ?? [])
    transactions[one.header.number] = one
  }

  /// Returns the transactions, in their order, that do not state changes of a trail. Leaves out those that wait for
  /// suspended tables.
  func all(about place: Int?) -> [Understated] {
    guard !transactions.isEmpty, let place else { return [] }
    return transactions.values.filter { $0.origins.contains(place) && !$0.waitsForTables }
      .sorted { $0.header.number < $1.header.number }
  }

  /// Notes that a transaction was resolved again beside the changes of a trail.
  ///
  /// - Parameter isWhole: False if rows of suspended tables are left.
  mutating func noteResolved(_ number: UInt64, about place: Int?, isWhole: Bool) {
    guard let place else { return }
    guard isWhole else {
      transactions[number]?.waitsForTables = true
      return
    }
    transactions[number]?.origins.remove(place)
    if transactions[number]?.origins.isEmpty == true { transactions[number] = nil }
  }

  /// Lists the transactions again that wait for suspended tables.
  mutating func wake() { for number in transactions.keys { transactions[number]?.waitsForTables = false } }

  /// Returns the last transaction of a trail that all understated transactions state: later ones are still needed.
  func lastStated(of place: Int) -> UInt64 {
    transactions.values.lazy.filter { $0.origins.contains(place) }
      .map { place < $0.stated.count ? $0.stated[place] : 0 }.min() ?? .max
  }
}
