/// The versions of one row which some node may not know yet.
///
/// What is settled depends on the set of versions alone, whatever order they came in. Versions are forgotten together: when
/// every node has seen them all, whatever comes later follows them.
package struct RowHistory: Sendable {
  package private(set) var versions: [RowVersion] = []

  package init(_ versions: [RowVersion] = []) { for version in versions { add(version) } }

  /// False when it is there already.
  @discardableResult package mutating func add(_ version: RowVersion) -> Bool {
    // Most come in their order.
    var index = versions.count
    while index > 0, versions[index - 1].stamp >= version.stamp { index -= 1 }
    if index < versions.count, versions[index].stamp == version.stamp { return false }
    versions.insert(version, at: index)
    return true
  }

  /// Forgets the versions that all others follow and that `isSeen` by every node.
  package mutating func forget(where isSeen: (Stamp) -> Bool) {
    // From the latest border on which everything before is seen, and followed by everything behind.
    for count in stride(from: versions.count, to: 0, by: -1) {
      let (early, late) = (versions[..<count], versions[count...])
      guard early.allSatisfy({ isSeen($0.stamp) }),
        late.allSatisfy({ one in early.allSatisfy { one.follows($0) } })
      else { continue }
      versions.removeFirst(count)
      return
    }
  }

  /// Without those that no other version follows and for which it is said; nil where there is none of them.
  package func withoutHeads(where isLeftOut: (RowVersion) throws -> Bool) rethrows -> RowHistory? {
    let leftOut = Set(try versions.heads.filter(isLeftOut).map(\.stamp))
    guard !leftOut.isEmpty else { return nil }
    var left = self
    left.versions.removeAll { leftOut.contains($0.stamp) }
    return left
  }

  /// Whether a version that comes can be put in the place of the row without a look at what is here.
  package func isFollowed(by version: RowVersion) -> Bool { versions.allSatisfy { version.follows($0) } }
}
