/// Queries over many versions of one row.
extension [RowVersion] {
  /// Whether the clocks are consistent: no version's author knew a version with an equal or later clock.
  var areCausal: Bool {
    // By origin: the least number among the versions with later or equal clocks.
    var later: [String: UInt64] = [:]
    let descending = sorted { $0.stamp.clock > $1.stamp.clock }
    var next = descending.startIndex
    for version in descending {
      while next < descending.endIndex, descending[next].stamp.clock >= version.stamp.clock {
        let stamp = descending[next].stamp
        later[stamp.origin] = Swift.min(later[stamp.origin] ?? .max, stamp.number)
        next += 1
      }
      let claims = version.seen.contains { origin, number in
        origin != version.stamp.origin && later[origin] ?? .max <= number
      }
      if claims { return false }
    }
    return true
  }

  /// The versions that no author of another version in the list knew.
  var heads: [RowVersion] {
    guard areCausal else { return filter { one in !contains { $0.follows(one) } } }
    // Another version's author knew a version if it has the same origin and a greater number, or has seen that number
    // or a later one.
    var bounds: [String: UInt64] = [:]
    for version in self {
      bounds[version.stamp.origin] = Swift.max(bounds[version.stamp.origin] ?? 0, version.stamp.number)
      for (origin, number) in version.seen where origin != version.stamp.origin {
        bounds[origin] = Swift.max(bounds[origin] ?? 0, number + 1)
      }
    }
    return filter { $0.stamp.number >= bounds[$0.stamp.origin] ?? 0 }
  }

  /// The versions whose authors knew no other version in the list.
  var roots: [RowVersion] {
    guard areCausal else { return filter { one in !contains(where: one.follows) } }
    let first = byOrigin { $0 < $1 }
    return filter { one in first.allSatisfy { one.stamp == $0.stamp || !one.follows($0) } }
  }

  /// The version whose author knew all other versions; nil if there is none.
  var whole: RowVersion? {
    let last = areCausal ? byOrigin { $0 > $1 } : self
    return last.filter { one in last.allSatisfy { one.stamp == $0.stamp || one.follows($0) } }
      .max { $0.stamp < $1.stamp }
  }

  /// The list without its longest prefix that the authors of all remaining versions knew.
  var unshared: [RowVersion] {
    guard count > 1 else { return self }
    guard areCausal else {
      let border = indices.reversed().dropLast().first { index in
        self[index...].allSatisfy { late in self[..<index].allSatisfy(late.follows) }
      }
      return Array(self[(border ?? 0)...])
    }
    let origins = byOrigin { $0 > $1 }.map(\.stamp.origin)
    // For each index, the last number of each origin among the versions before it; 0 if there is none.
    var early = [[UInt64](repeating: 0, count: origins.count)]
    for version in self {
      var next = early[early.count - 1]
      if let place = origins.firstIndex(of: version.stamp.origin) {
        next[place] = Swift.max(next[place], version.stamp.number)
      }
      early.append(next)
    }
    // The numbers that all versions from an index on knew, by origin.
    var known = [UInt64](repeating: .max, count: origins.count)
    for index in indices.reversed().dropLast() {
      let late = self[index]
      for (place, origin) in origins.enumerated() {
        let number = origin == late.stamp.origin ? late.stamp.number - 1 : late.seen[origin] ?? 0
        known[place] = Swift.min(known[place], number)
      }
      if zip(early[index], known).allSatisfy({ $0 <= $1 }) { return Array(self[index...]) }
    }
    return self
  }

  /// Returns, for each origin, the version whose transaction number comes first in the order `comesBefore`.
  private func byOrigin(_ comesBefore: (UInt64, UInt64) -> Bool) -> [RowVersion] {
    var first: [String: RowVersion] = [:]
    for version in self {
      guard let known = first[version.stamp.origin], !comesBefore(version.stamp.number, known.stamp.number) else {
        first[version.stamp.origin] = version
        continue
      }
    }
    return Array(first.values)
  }
}
