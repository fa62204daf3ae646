/// Which tables: patterns with `*` and `?`, `!` before one that excludes. A table is taken when the last pattern that
/// matches it does not exclude it. Names are matched without regard to case.
package struct TablePatterns: Equatable, Sendable {
  package let patterns: [String]

  /// Without any including pattern, all tables are included.
  package init(_ patterns: [String] = ["*"]) {
    self.patterns = patterns.allSatisfy { $0.hasPrefix("!") } ? ["*"] + patterns : patterns
  }

  package func includes(_ table: String) -> Bool {
    let name = table.lowercased()
    var included = false
    for pattern in patterns {
      let excludes = pattern.hasPrefix("!")
      if Wildcard.matches(pattern.dropFirst(excludes ? 1 : 0).lowercased(), name) { included = !excludes }
    }
    return included
  }
}
