/// Of many versions of one row. Whoever knew a transaction of an origin knew all that are before it there: so what would be
/// asked of each two of them is asked of each once, as rows that are written all the time have thousands.
extension [RowVersion] {
  /// Those that none of the others follows.
  var heads: [RowVersion] {
    // Of each origin, those with smaller numbers are followed.
    var bounds: [String: UInt64] = [:]
    for version in self {
      bounds[version.stamp.origin] = Swift.max(bounds[version.stamp.origin] ?? 0, version.stamp.number)
      for (origin, number) in version.seen where origin != version.stamp.origin {
        bounds[origin] = Swift.max(bounds[origin] ?? 0, number + 1)
      }
    }
    return filter { $0.stamp.number >= bounds[$0.stamp.origin] ?? 0 }
  }

  /// Those that follow none of the others.
  var roots: [RowVersion] {
    let first = byOrigin { $0 < $1 }
    return filter { one in first.allSatisfy { one.stamp == $0.stamp || !one.follows($0) } }
  }

  /// The one that follows all others; nil where there is none.
  var whole: RowVersion? {
    let last = byOrigin { $0 > $1 }
    return last.filter { one in last.allSatisfy { one.stamp == $0.stamp || one.follows($0) } }
      .max { $0.stamp < $1.stamp }
  }

  /// Without those that all later ones follow.
  var unshared: [RowVersion] {
    guard count > 1 else { return self }
    let origins = byOrigin { $0 > $1 }.map(\.stamp.origin)
    // Of the versions before an index: the last number of each origin, 0 where there is none.
    var early = [[UInt64](repeating: 0, count: origins.count)]
    for version in self {
      var next = early[early.count - 1]
      if let place = origins.firstIndex(of: version.stamp.origin) {
        next[place] = Swift.max(next[place], version.stamp.number)
      }
      early.append(next)
    }
    // What all from an index on knew.
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

  /// Of each origin the version whose number comes before those of all others.
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
