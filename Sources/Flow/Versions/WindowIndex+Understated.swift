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

extension WindowIndex {
  /// Lists a transaction of this database's own trail as understated, if it wrote a row over a version that was
  /// committed here and that its header does not state. The author of that version did not know the transaction either.
  ///
  /// Apply commits no version of a row for which capture still has to read a commit of an application. So each other
  /// transaction that is read after a version was committed here knows that version.
  mutating func noteIfUnderstated(_ part: TrailScan.Part, _ entry: WindowEntry) throws {
    // At the start, the order of own and other versions is unknown. If nothing is held, all of them are resolved.
    guard origins[Self.own].isRead || origins.contains(where: { $0.held != nil }) else { return }
    let stated = known(origins[Self.own].name, entry.number, seen: seen(part.header))
    let met = MetTransaction(entry: entry, known: stated)
    guard mayConcur(met) else { return }
    var found: Set<Int> = []
    for row in part.rows {
      for chain in row.isReference ? [row.chain] : [row.chain, row.reference.chain] {
        try store.forEach(of: chain) { other in
          if other.origin != Self.own, other.number <= origins[other.origin].reached, !met.knows(other),
            !isKnown(entry, to: other)
          {
            found.insert(other.origin)
          }
        }
      }
    }
    guard !found.isEmpty else { return }
    found.formUnion(understated[entry.number]?.origins ?? [])
    understated[entry.number] = Understated(header: part.header, begin: part.begin, stated: stated, origins: found)
  }

  /// Returns whether the author of a version from another trail knew an own transaction.
  private func isKnown(_ own: WindowEntry, to other: WindowEntry) -> Bool {
    own.isKnown(through: origins[other.origin].steps[Self.own].known(at: other.number), at: other.clock)
  }

  /// Returns the own transactions, in their order, that do not state changes of a trail that their authors had. Leaves
  /// out those of which only rows of suspended tables are left.
  func understated(about origin: String) -> [Understated] {
    guard !understated.isEmpty, let place = places[origin] else { return [] }
    return understated.values.filter { $0.origins.contains(place) && !$0.waitsForTables }
      .sorted { $0.header.number < $1.header.number }
  }

  /// Notes that an own transaction was resolved again beside the changes of a trail.
  ///
  /// - Parameter isWhole: False if rows of suspended tables are left.
  mutating func noteResolved(_ number: UInt64, about origin: String, isWhole: Bool) {
    guard let place = places[origin] else { return }
    guard isWhole else {
      understated[number]?.waitsForTables = true
      return
    }
    understated[number]?.origins.remove(place)
    if understated[number]?.origins.isEmpty == true { understated[number] = nil }
  }

  /// Has the transactions resolved again of which rows of suspended tables are left.
  mutating func wakeUnderstated() {
    for number in understated.keys { understated[number]?.waitsForTables = false }
  }

  /// Returns the last transaction of a trail that all understated transactions state: later ones are still needed.
  func lastStated(of place: Int) -> UInt64 {
    understated.values.lazy.filter { $0.origins.contains(place) }
      .map { place < $0.stated.count ? $0.stated[place] : 0 }.min() ?? .max
  }
}
