/// Which tables: patterns with `*` and `?`, `!` before one that excludes. A table is taken when the last pattern that
/// matches it does not exclude it. Names are matched without regard to case.
package struct TablePatterns: Equatable, Sendable {
  package let patterns: [String]

  /// Without any including pattern, all tables are included.
  package init(_ patterns: [String] = ["*"]) {
    self.patterns = patterns.allSatisfy { $0.hasPrefix("!") } ? ["*"] + patterns : patterns
  }

  package func includes(_ table: String) -> Bool { includes(anyOf: [table]) }

  /// Returns whether the last pattern that matches one of a table's names includes it.
  package func includes(anyOf names: [String]) -> Bool {
    let names = names.map { $0.lowercased() }
    var included = false
    for pattern in patterns {
      let excludes = pattern.hasPrefix("!")
      let plain = pattern.dropFirst(excludes ? 1 : 0).lowercased()
      if names.contains(where: { Wildcard.matches(plain, $0) }) { included = !excludes }
    }
    return included
  }
}
