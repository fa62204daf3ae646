/// A list of trails: patterns of `NODE.NAME` with `*` and `?`, and `!` before a pattern that excludes. The last pattern
/// that matches a trail decides whether the list includes it.
///
///     let stores = TrailPatterns(["store-*.pos", "!store-007.*"])
///     stores.includes("store-001.pos")   // true
package struct TrailPatterns: Equatable, Sendable {
  @ByBytes package private(set) var patterns: [String]

  /// Creates a list from patterns.
  ///
  /// A list without patterns includes no trail. If all patterns exclude trails, the list includes all other trails.
  package init(_ patterns: [String]) {
    self.patterns = !patterns.isEmpty && patterns.allSatisfy { $0.hasPrefix("!") } ? ["*"] + patterns : patterns
  }

  package func includes(_ trail: TrailName) -> Bool {
    let name = trail.description
    var included = false
    for pattern in patterns {
      let excludes = pattern.hasPrefix("!")
      if Wildcard.matches(String(pattern.dropFirst(excludes ? 1 : 0)), name) { included = !excludes }
    }
    return included
  }

  package func includes(_ trail: String) -> Bool { TrailName(trail).map(includes) ?? false }

  /// The plain names in the list, without patterns that have `*`, `?` or `!`.
  package var names: [String] { patterns.filter { !$0.hasPrefix("!") && !Self.isPattern($0) } }

  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }

  /// The trail that the list names, if its only pattern is a plain name; nil otherwise.
  package var only: TrailName? { patterns.count == 1 ? TrailName(patterns[0]) : nil }
}
