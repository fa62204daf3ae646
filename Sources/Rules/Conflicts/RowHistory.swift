/// The versions of one row that some node may not know yet.
///
/// The resolved row depends only on the set of versions, not on their order of arrival.
///
///     var history = RowHistory([version])
///     history.add(version)   // false: the history has it
package struct RowHistory: Sendable {
  package private(set) var versions: [RowVersion] = []

  package init(_ versions: [RowVersion] = []) { for version in versions { add(version) } }

  /// Adds a version of the row. Returns false if the history has the version.
  @discardableResult package mutating func add(_ version: RowVersion) -> Bool {
    // Most versions arrive in order.
    var index = versions.count
    while index > 0, versions[index - 1].stamp >= version.stamp { index -= 1 }
    if index < versions.count, versions[index].stamp == version.stamp { return false }
    versions.insert(version, at: index)
    return true
  }

  /// Removes versions from the oldest on, as long as every node and the authors of all remaining versions know them.
  /// - Parameter isSeen: A function that returns whether every node knows a version.
  package mutating func forget(where isSeen: (VersionStamp) -> Bool) {
    // Find the latest place before which every version is seen, and followed by every version after it.
    for count in stride(from: versions.count, to: 0, by: -1) {
      let (early, late) = (versions[..<count], versions[count...])
      guard early.allSatisfy({ isSeen($0.stamp) }),
        late.allSatisfy({ one in early.allSatisfy { one.follows($0) } })
      else { continue }
      versions.removeFirst(count)
      return
    }
  }

  /// Returns the history without the latest versions that satisfy the condition; nil if none does. A version is one of
  /// the latest if no other version's author knew it.
  package func withoutHeads(where isLeftOut: (RowVersion) throws -> Bool) rethrows -> RowHistory? {
    let leftOut = Set(try versions.heads.filter(isLeftOut).map(\.stamp))
    guard !leftOut.isEmpty else { return nil }
    var left = self
    left.versions.removeAll { leftOut.contains($0.stamp) }
    return left
  }

  /// Returns whether the author of `version` knew all versions of the history.
  package func isFollowed(by version: RowVersion) -> Bool { versions.allSatisfy { version.follows($0) } }
}
