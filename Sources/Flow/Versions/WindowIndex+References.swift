import Changes
import Conflicts

// References between rows, and the knowledge of the authors that made them. They decide whether a delete of the
// referenced row takes effect.
extension WindowIndex {
  /// Returns the last transaction of a trail that wrote a foreign key value that refers to a row; nil if there is none.
  func lastReference(_ row: RowName, _ origin: Int) throws -> WindowEntry? {
    var last: WindowEntry?
    try store.forEach(of: row.reference.chain) {
      if $0.origin == origin, $0.number > last?.number ?? 0 { last = $0 }
    }
    return last
  }

  /// Returns false if the author of a delete knew every foreign key value in the window. True does not prove that a
  /// foreign key value refers to the deleted row.
  func mayBeReferred(beside delete: VersionStamp, seen: [String: UInt64]) -> Bool {
    hasReferences
      && origins.contains {
        $0.name != delete.origin
          && ($0.lastReference > seen[$0.name] ?? 0 || $0.lastReference > 0 && $0.lastReferenceClock >= delete.clock)
      }
  }

  /// Returns whether another transaction wrote a foreign key value that refers to a row, concurrently with a delete of
  /// the row. Concurrent means that neither author knew the other's transaction.
  /// - Parameter delete: The stamp of the transaction that deletes the row.
  /// - Parameter seen: For each trail, the last transaction that the author of the delete knew.
  func isReferred(_ row: RowName, beside delete: VersionStamp, seen: [String: UInt64]) throws -> Bool {
    var isFound = false
    try forEachReference(to: row, beside: delete, seen) { _ in isFound = true }
    return isFound
  }

  /// Returns the places of the versions with a foreign key to a row that were written concurrently with its delete.
  func references(to row: RowName, beside delete: VersionStamp, seen: [String: UInt64]) throws -> [VersionPlace] {
    var found: [VersionPlace] = []
    try forEachReference(to: row, beside: delete, seen) { found.append(place($0)) }
    return found
  }

  private func forEachReference(
    to row: RowName, beside delete: VersionStamp, _ seen: [String: UInt64], _ body: (WindowEntry) -> Void
  ) throws {
    guard hasReferences, let deleter = places[delete.origin] else { return }
    try store.forEach(of: row.reference.chain) { entry in
      if entry.origin == deleter { return }
      let knewDelete = origins[entry.origin].steps[deleter].known(at: entry.number) >= delete.number
      if !entry.isKnown(through: seen[origins[entry.origin].name] ?? 0, at: delete.clock),
        !(knewDelete && delete.clock < entry.clock)
      {
        body(entry)
      }
    }
  }

  mutating func sweepReferences(_ row: RowName) throws {
    var versions: [WindowEntry] = []
    try store.forEach(of: row.chain) { versions.append($0) }
    let origins = origins
    try store.remove(of: row.reference.chain) { reference in
      origins[reference.origin].floor.includes(reference)
        && !versions.contains { version in
          version.origin != reference.origin
            && !reference.isKnown(
              through: origins[version.origin].steps[reference.origin].known(at: version.number), at: version.clock)
            && !version.isKnown(
              through: origins[reference.origin].steps[version.origin].known(at: reference.number), at: reference.clock)
        }
    }
  }
}
