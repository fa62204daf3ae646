/// Which trails: patterns of `NODE.NAME` with `*` and `?`, `!` before one that excludes. A trail is taken when the last
/// pattern that matches it does not exclude it. Case counts, as in the names of trails.
package struct TrailPatterns: Equatable, Sendable {
  @ByBytes package private(set) var patterns: [String]

  /// Without any pattern, no trail is included; with excluding ones only, all others are.
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

  /// Of the patterns, those that name one trail and no more.
  package var names: [String] { patterns.filter { !$0.hasPrefix("!") && !Self.isPattern($0) } }

  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }

  /// The one trail that is meant, where the patterns are a plain name.
  package var only: TrailName? { patterns.count == 1 ? TrailName(patterns[0]) : nil }
}
