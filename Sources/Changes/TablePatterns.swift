/// Which tables: patterns with `*` and `?`, `!` before one that excludes. A table is taken when the last pattern that
/// matches it does not exclude it.
///
/// Names are matched without regard to the case of ASCII letters, as SQLite compares them. A pattern that excludes a table
/// also excludes one whose other letters differ only in case, so that no list takes a table in by such a letter.
///
///     TablePatterns(["k"]).includes("K")          // true
///     TablePatterns(["k"]).includes("\u{212a}")  // false: the sign of Kelvin, whose lower case is k
///     TablePatterns(["!\u{c4}rzte"]).includes("\u{e4}rzte")  // false
package struct TablePatterns: Equatable, Sendable {
  @ByBytes package private(set) var patterns: [String]
  /// Further lists: a table is also taken when one of them takes it.
  private var others: [TablePatterns] = []

  /// Without any including pattern, all tables are included.
  package init(_ patterns: [String] = ["*"]) {
    self.patterns = patterns.allSatisfy { Self.parts($0).excludes } ? ["*"] + patterns : patterns
  }

  /// The tables that at least one of several lists takes; all tables if there is no list.
  ///
  ///     TablePatterns(anyOf: [TablePatterns(["a"]), TablePatterns(["*", "!a"])]).includes("a")  // true
  package init(anyOf lists: [TablePatterns]) {
    var distinct: [TablePatterns] = []
    for list in lists.flatMap(\.alternatives) where !distinct.contains(list) { distinct.append(list) }
    self = distinct.first { $0.takesAll } ?? distinct.first ?? TablePatterns()
    if !takesAll { others = Array(distinct.dropFirst()) }
  }

  /// Reads what ``text`` writes.
  package init(text: String) {
    self.init(
      anyOf: text.split(separator: "\n").map { TablePatterns($0.split(separator: ",").map(String.init)) })
  }

  /// The lists as a text: patterns with commas between them, a list a line.
  package var text: String { alternatives.map { $0.patterns.joined(separator: ",") }.joined(separator: "\n") }

  private var alternatives: [TablePatterns] {
    var first = self
    first.others = []
    return [first] + others
  }

  /// Whether it is known that every table is taken, whatever its name.
  package var takesAll: Bool { alternatives.contains { $0.patterns.last.map { $0 == "*" } ?? false } }

  /// Whether it is known that every table is taken which another list takes.
  package func covers(_ list: TablePatterns) -> Bool {
    takesAll || list.alternatives.allSatisfy(alternatives.contains)
  }

  /// Whether a pattern excludes, and what stands behind its `!`.
  private static func parts(_ pattern: String) -> (excludes: Bool, plain: String) {
    let scalars = pattern.unicodeScalars
    return scalars.first == "!" ? (true, String(scalars.dropFirst())) : (false, pattern)
  }

  package func includes(_ table: String) -> Bool { includes(anyOf: [table]) }

  /// Returns whether the last pattern that matches one of a table's names includes it.
  package func includes(anyOf names: [String]) -> Bool {
    if others.contains(where: { $0.includes(anyOf: names) }) { return true }
    let (exact, wide) = (names.map(\.asciiLowercased), names.map { $0.lowercased() })
    var included = false
    for pattern in patterns {
      let (excludes, plain) = Self.parts(pattern)
      let isMatch = exact.contains { Wildcard.matches(plain.asciiLowercased, $0) }
      if isMatch || (excludes && wide.contains { Wildcard.matches(plain.lowercased(), $0) }) { included = !excludes }
    }
    return included
  }

  /// Returns whether the list can include a table of a schema, whatever the table is called. Patterns that exclude count if
  /// they exclude all of its tables.
  ///
  ///     TablePatterns(["sales.o*"]).includesTables(of: "sales")         // true
  ///     TablePatterns(["*", "!sales.*"]).includesTables(of: "sales")    // false
  package func includesTables(of schema: String) -> Bool {
    let start = "\(schema.asciiLowercased)."
    return includesSome(start) { plain in
      // What stands after the dot is the pattern of the table. A pattern without a dot is of `public`, except `*`.
      guard plain.contains(".") || plain.allSatisfy({ $0 == "*" }) || schema == "public" else { return false }
      return plain.indices.contains { $0 > plain.startIndex && Wildcard.matches(String(plain[..<$0]), start) }
        || (plain.last == "*" && Wildcard.matches(String(plain), start))
    }
  }

  /// Returns whether the list can include a table that it names without a schema.
  package var includesPlainTables: Bool { includesSome("") { !$0.contains(".") } }

  private func includesSome(_ start: String, _ isMatch: (Substring.UnicodeScalarView) -> Bool) -> Bool {
    // A pattern that matches this name matches every name after the start: none of its letters is one of a pattern.
    let all = start + String(repeating: "\u{0}", count: 256)
    return patterns.reduce(false) { included, pattern in
      let (excludes, plain) = Self.parts(pattern.asciiLowercased)
      if excludes { return included && !Wildcard.matches(plain, all) }
      return included || isMatch(plain[...].unicodeScalars)
    }
  }

  /// Returns whether the list of an apply admits a table of a PostgreSQL target: the last pattern that matches it decides.
  ///
  /// Stricter than a capture's list: a pattern without a dot admits tables of `public` only, except `*`, which admits all. One that excludes a table by its
  /// name alone excludes it in every schema.
  ///
  ///     TablePatterns(["evil_*"]).admits(namespace: "evil_other", name: "salaries")  // false
  ///
  /// - Parameter namespace: the schema; empty for `public`.
  package func admits(namespace: String, name: String) -> Bool {
    let isPublic = namespace.isEmpty || namespace.hasSameBytes(as: "public")
    let whole = "\(isPublic ? "public" : namespace).\(name)"
    var included = false
    for pattern in patterns {
      let (excludes, plain) = Self.parts(pattern)
      if excludes {
        let names = [name, whole].map { $0.lowercased() }
        if names.contains(where: { Wildcard.matches(plain.lowercased(), $0) }) { included = false }
      } else if plain.utf8.allSatisfy({ $0 == UInt8(ascii: "*") }) {
        included = true
      } else if plain.utf8.contains(UInt8(ascii: ".")) {
        if Wildcard.matches(plain.asciiLowercased, whole.asciiLowercased) { included = true }
      } else if isPublic, Wildcard.matches(plain.asciiLowercased, name.asciiLowercased) {
        included = true
      }
    }
    return included
  }

  /// A name in a list of tables that no table has.
  package struct Unmatched: Equatable, Sendable {
    @ByBytes package var name: String
    /// The name of a table that it may be meant for.
    @ByBytes package var nearest: String? = nil
    /// It was to be left out.
    package var isExclusion: Bool
    /// Whether it is an error where the list is new. A table that is to be left out need not exist; where another one has
    /// nearly its name, that one would be taken although it is meant.
    package var isMistake: Bool { !isExclusion || nearest != nil }
  }

  /// Returns the names, without `*` and `?`, that no table has.
  ///
  ///     TablePatterns(["itme", "sale"]).unmatched(in: ["item", "sale"])  // itme, nearest: item
  ///
  /// - Parameter tables: the names by which patterns may know tables; those of one table may be several.
  package func unmatched(in tables: [String]) -> [Unmatched] {
    patterns.compactMap { pattern in
      let (isExclusion, name) = Self.parts(pattern)
      guard !Self.isPattern(name), !tables.contains(where: TablePatterns([name]).includes) else {
        return nil
      }
      let (plain, others) = (name.lowercased(), tables.map { $0.lowercased() })
      let near = isExclusion ? plain.nearest(in: others, atMost: plain.count < 4 ? 1 : 2) : plain.nearest(in: others)
      return Unmatched(
        name: name, nearest: tables.first { $0.lowercased() == near }, isExclusion: isExclusion)
    }
  }
}
