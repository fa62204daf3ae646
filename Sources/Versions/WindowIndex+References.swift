import Changes
import Conflicts

// Which rows were referred to by others, and what those who did it knew: by this a delete is told to count or not.
extension WindowIndex {
  /// The last transaction of an origin that made or kept a reference to a row.
  func lastReference(_ row: RowName, _ origin: Int) throws -> WindowEntry? {
    var last: WindowEntry?
    try store.forEach(of: row.reference.chain) {
      if $0.origin == origin, $0.number > last?.number ?? 0 { last = $0 }
    }
    return last
  }

  /// False: nobody has referred to any row of whom the author of a delete did not know.
  func mayBeReferred(beside delete: Stamp, seen: [String: UInt64]) -> Bool {
    hasReferences && origins.contains { $0.name != delete.origin && $0.lastReference > seen[$0.name] ?? 0 }
  }

  /// Whether somebody referred to a row who did not know that it was deleted, and of whom that was not known where it was.
  /// `delete`: of its transaction; `seen`: what its author knew.
  func isReferred(_ row: RowName, beside delete: Stamp, seen: [String: UInt64]) throws -> Bool {
    guard hasReferences, let deleter = places[delete.origin] else { return false }
    var isFound = false
    try store.forEach(of: row.reference.chain) { entry in
      if isFound || entry.origin == deleter { return }
      isFound =
        entry.number > seen[origins[entry.origin].name] ?? 0
        && origins[entry.origin].steps[deleter].known(at: entry.number) < delete.number
    }
    return isFound
  }

  /// Forgets those that all know, but for those beside which there is a version that is still needed.
  mutating func sweepReferences(_ row: RowName) throws {
    var versions: [WindowEntry] = []
    try store.forEach(of: row.chain) { versions.append($0) }
    let origins = origins
    try store.remove(of: row.reference.chain) { reference in
      reference.number <= origins[reference.origin].floor
        && !versions.contains { version in
          version.origin != reference.origin
            && origins[version.origin].steps[reference.origin].known(at: version.number) < reference.number
            && origins[reference.origin].steps[version.origin].known(at: reference.number) < version.number
        }
    }
  }
}
