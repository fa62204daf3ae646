import Changes

/// The versions of a row, with consecutive updates by one origin joined into one update. The joined versions give the
/// same resolved row and the same conflicts.
///
/// Two updates by one origin are joined only if all of these conditions are true:
///
/// - The author of each other version knew both updates or none of them.
/// - The author of the second update knew the same versions of other origins as the author of the first one.
/// - No other version has a stamp between the stamps of the two updates.
///
///     let condensed = CondensedVersions(history.versions, beside: incoming)
///     condensed.versions.count <= history.versions.count   // true
package struct CondensedVersions: Sendable {
  private struct Run {
    let first: RowVersion
    /// The update that replaces the joined versions, with the stamp of the last version.
    var version: RowVersion
    var isOne: Bool { first.stamp == version.stamp }
  }

  private var runs: [Run] = []

  package var versions: [RowVersion] { runs.map(\.version) }

  /// Joins the versions of a row as far as possible.
  ///
  /// - Parameter incoming: A version that will be resolved together with these versions. It limits which versions may
  ///   be joined, but is not part of the result.
  package init(_ versions: [RowVersion], beside incoming: RowVersion) {
    let all = RowHistory(versions + [incoming]).versions
    guard all.areCausal else {
      runs = all.filter { $0.stamp != incoming.stamp }.map { Run(first: $0, version: $0) }
      return
    }
    let borders = Borders(all)
    var isBorder = false
    for version in all {
      guard version.stamp != incoming.stamp else {
        isBorder = true
        continue
      }
      if !isBorder, let last = runs.last, !borders.are(between: last.version, version),
        join(version, at: runs.count - 1)
      {
        continue
      }
      runs.append(Run(first: version, version: version))
      isBorder = false
    }
  }

  /// Adds a version. Returns false, without a change, if the version requires that joined updates are separated.
  package mutating func add(_ next: RowVersion) -> Bool {
    guard !areToldApart(by: next) else { return false }
    let index = (runs.lastIndex { $0.version.stamp < next.stamp } ?? -1) + 1
    if index > 0, !isBorder(between: index - 1, next), join(next, at: index - 1) { return true }
    runs.insert(Run(first: next, version: next), at: index)
    return true
  }

  private func isBorder(between index: Int, _ next: RowVersion) -> Bool {
    let last = runs[index].version
    return runs.indices.contains { other in
      let version = runs[other].version
      return other != index
        && (last.follows(version) != next.follows(version) || version.follows(last) != version.follows(next))
    }
  }

  /// Returns whether `version` requires that joined updates are separated, for example because its author knew only
  /// some of these updates.
  package func areToldApart(by version: RowVersion) -> Bool {
    runs.contains { run in
      !run.isOne
        && (version.follows(run.first) != version.follows(run.version)
          || run.first.follows(version) != run.version.follows(version)
          || (version.stamp < run.first.stamp) != (version.stamp < run.version.stamp))
    }
  }

  private mutating func join(_ next: RowVersion, at index: Int) -> Bool {
    guard let joined = runs[index].version.joined(with: next) else { return false }
    runs[index].version = joined
    return true
  }

  /// The borders between updates of a row that must not be joined, found from all versions of the row.
  private struct Borders {
    private var known: [String: [UInt64]] = [:]
    private var numbers: [String: [UInt64]] = [:]

    init(_ versions: [RowVersion]) {
      for version in versions {
        numbers[version.stamp.origin, default: []].append(version.stamp.number)
        for (origin, number) in version.seen where origin != version.stamp.origin {
          if known[origin]?.last != number { known[origin, default: []].append(number) }
        }
      }
      known = known.mapValues { $0.sorted() }
      numbers = numbers.mapValues { $0.sorted() }
    }

    func are(between a: RowVersion, _ b: RowVersion) -> Bool {
      if Self.holds(known[a.stamp.origin], from: a.stamp.number, below: b.stamp.number) { return true }
      return b.seen.contains { origin, number in
        origin != b.stamp.origin
          && Self.holds(numbers[origin], from: (a.seen[origin] ?? 0) + 1, below: number + 1)
      }
    }

    private static func holds(_ sorted: [UInt64]?, from low: UInt64, below high: UInt64) -> Bool {
      guard let sorted, low < high else { return false }
      var (start, end) = (0, sorted.count)
      while start < end {
        let middle = (start + end) / 2
        if sorted[middle] < low { start = middle + 1 } else { end = middle }
      }
      return start < sorted.count && sorted[start] < high
    }
  }
}

extension RowVersion {
  /// Returns one update that has the effect of this update and of `next` after it; nil if there is none, or if their
  /// origins differ.
  fileprivate func joined(with next: RowVersion) -> RowVersion? {
    guard stamp.origin == next.stamp.origin, lacks == next.lacks, case .update(let first, let between) = write,
      case .update(let then, let last) = next.write, first.count == then.count
    else { return nil }
    let joined = RowVersion(next.stamp, seen: next.seen, .update(before: first, after: last), lacks: lacks)
    for column in first.indices {
      guard (first[column] == nil) == (then[column] == nil), (between[column] == nil) == (last[column] == nil),
        wrote(column) == next.wrote(column), wrote(column) == joined.wrote(column)
      else { return nil }
      if let left = between[column] ?? first[column], let found = then[column], left != found { return nil }
      // A sum (`delta`) ignores values that are no numbers, so such a value may not be skipped.
      if wrote(column), let value = between[column], Decimal(number: value) == nil,
        first[column].map({ Decimal(number: $0) != nil }) ?? false,
        last[column].map({ Decimal(number: $0) != nil }) ?? false
      {
        return nil
      }
    }
    return joined
  }
}
