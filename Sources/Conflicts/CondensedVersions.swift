import Changes

/// Versions of a row, of which runs of updates that one origin made in a row are one update each: what is settled from
/// them, and what conflicts there are, is the same. A row that a node wrote ten thousand times while it had no line is
/// settled in no more time than one that it wrote once.
///
/// Two updates are in one run where no other version tells them apart: none was made by somebody who knew only the first, the
/// author of the second knew none that the author of the first did not, and none is between them in time.
package struct CondensedVersions: Sendable {
  private struct Run {
    let first: RowVersion
    /// What all of them made of the row, with the stamp of the last one.
    var version: RowVersion
    var isOne: Bool { first.stamp == version.stamp }
  }

  /// By rising stamps.
  private var runs: [Run] = []

  package var versions: [RowVersion] { runs.map(\.version) }

  /// `incoming` is settled with them, and none of them.
  package init(_ versions: [RowVersion], beside incoming: RowVersion) {
    let all = RowHistory(versions + [incoming]).versions
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

  /// Adds a version. False: it tells some of a run apart, and nothing has changed.
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

  /// Whether a version is none like the others to all of a run.
  package func areToldApart(by version: RowVersion) -> Bool {
    runs.contains { run in
      !run.isOne
        && (version.follows(run.first) != version.follows(run.version)
          || run.first.follows(version) != run.version.follows(version)
          || (version.stamp < run.first.stamp) != (version.stamp < run.version.stamp))
    }
  }

  /// Makes a version part of a run.
  private mutating func join(_ next: RowVersion, at index: Int) -> Bool {
    guard let joined = runs[index].version.joined(with: next) else { return false }
    runs[index].version = joined
    return true
  }

  /// Where versions of other origins come between two of one.
  private struct Borders {
    /// By origin, rising: the last number that some version of another origin knew.
    private var known: [String: [UInt64]] = [:]
    /// By origin, rising.
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
  /// Two updates by one origin, one behind the other, as one; nil where that would say something else than both.
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
      // Of what is no number, sums know nothing.
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
