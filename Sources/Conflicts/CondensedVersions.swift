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
      if !isBorder, let last = runs.last, !borders.are(between: last.version, version), join(version) { continue }
      runs.append(Run(first: version, version: version))
      isBorder = false
    }
  }

  /// Adds what is later than all of them. False: it tells some of a run apart, or is earlier, and nothing has changed.
  package mutating func append(_ next: RowVersion) -> Bool {
    guard let last = runs.last else {
      runs.append(Run(first: next, version: next))
      return true
    }
    guard last.version.stamp < next.stamp, !areToldApart(by: next) else { return false }
    let isBorder = runs.dropLast().contains { run in
      last.version.follows(run.version) != next.follows(run.version)
        || run.version.follows(last.version) != run.version.follows(next)
    }
    if isBorder || !join(next) { runs.append(Run(first: next, version: next)) }
    return true
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

  /// Makes a version part of the last run.
  private mutating func join(_ next: RowVersion) -> Bool {
    guard let joined = runs[runs.count - 1].version.joined(with: next) else { return false }
    runs[runs.count - 1].version = joined
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
    guard stamp.origin == next.stamp.origin, case .update(let first, let between) = write,
      case .update(let then, let last) = next.write, first.count == then.count
    else { return nil }
    let joined = RowVersion(next.stamp, seen: next.seen, .update(before: first, after: last))
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
