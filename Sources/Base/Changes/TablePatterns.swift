/// A list of tables: patterns with `*` and `?`, and `!` before a pattern that excludes. The last pattern that matches a
/// table decides whether the list includes it. The case of ASCII letters is ignored; in a pattern that excludes, the
/// case of all letters.
///
///     TablePatterns(["k"]).includes("K")          // true
///     TablePatterns(["k"]).includes("\u{212a}")  // false: the sign of Kelvin, whose lower case is k
///     TablePatterns(["!\u{c4}rzte"]).includes("\u{e4}rzte")  // false
package struct TablePatterns: Equatable, Sendable {
  @ByBytes package private(set) var patterns: [String]
  private var others: [TablePatterns] = []

  /// Creates a list from patterns. If every pattern excludes, the list includes all other tables.
  package init(_ patterns: [String] = ["*"]) {
    self.patterns = patterns.allSatisfy { Self.parts($0).excludes } ? ["*"] + patterns : patterns
  }

  /// Creates a list of the tables in at least one of `lists`. If `lists` is empty, the new list includes all tables.
  ///
  ///     TablePatterns(anyOf: [TablePatterns(["a"]), TablePatterns(["*", "!a"])]).includes("a")  // true
  package init(anyOf lists: [TablePatterns]) {
    var known: Set<[NameKey]> = []
    let distinct = lists.flatMap(\.alternatives).filter { known.insert($0.nameKeys).inserted }
    self = distinct.first { $0.takesAll } ?? distinct.first ?? TablePatterns()
    if !takesAll { others = Array(distinct.dropFirst()) }
  }

  package init(text: String) { self.init(anyOf: (Self.lists(json: text) ?? Self.lists(plain: text)).map { Self($0) }) }

  /// The patterns as text, which ``init(text:)`` reads. Names with commas or line breaks need JSON.
  ///
  ///     TablePatterns(["a*", "!ab"]).text  // a*,!ab
  ///     TablePatterns(["k,m"]).text        // [["k,m"]]
  package var text: String {
    let plain = alternatives.map { $0.patterns.joined(separator: ",") }.joined(separator: "\n")
    if TablePatterns(text: plain) == self { return plain }
    let lists = alternatives.map { JSONObject.Value.list($0.patterns.map { .text($0) }) }
    return JSONObject.text(.list(lists))
  }

  private static func lists(plain text: String) -> [[String]] {
    text.utf8.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
      .map { String(decoding: $0, as: UTF8.self).split(at: ",") }
  }

  private static func lists(json text: String) -> [[String]]? {
    guard text.hasPrefix("[["), case .list(let lists)? = try? JSONReader.read(text) else { return nil }
    var found: [[String]] = []
    for case .list(let names) in lists {
      found.append(names.compactMap { if case .text(let name) = $0 { name } else { nil } })
      guard found.last?.count == names.count else { return nil }
    }
    return found.count == lists.count ? found : nil
  }

  private var alternatives: [TablePatterns] {
    var first = self
    first.others = []
    return [first] + others
  }

  /// The patterns without those of other lists, for sets.
  private var nameKeys: [NameKey] { patterns.map(\.nameKey) }

  /// Whether the last pattern is `*`, which includes every table.
  package var takesAll: Bool { alternatives.contains { $0.patterns.last.map { $0 == "*" } ?? false } }

  /// Returns true if this list surely includes every table of another list. False may also mean: unknown.
  package func covers(_ list: TablePatterns) -> Bool {
    if takesAll { return true }
    let known = Set(alternatives.map(\.nameKeys))
    return list.alternatives.allSatisfy { known.contains($0.nameKeys) }
  }

  package static func parts(_ pattern: String) -> (excludes: Bool, plain: String) {
    let scalars = pattern.unicodeScalars
    return scalars.first == "!" ? (true, String(scalars.dropFirst())) : (false, pattern)
  }

  /// Returns whether the list has one of these names of a table itself, and not only a pattern that matches it.
  ///
  ///     TablePatterns(["item*", "sale"]).names(anyOf: ["public.sale", "sale"])  // true
  ///     TablePatterns(["item*", "sale"]).names(anyOf: ["public.item", "item"])  // false
  package func names(anyOf names: [String]) -> Bool {
    let wanted = names.map(\.asciiLowercased)
    return alternatives.flatMap(\.patterns).contains { pattern in
      !Self.parts(pattern).excludes && !Self.isPattern(pattern)
        && wanted.contains { $0.hasSameBytes(as: pattern.asciiLowercased) }
    }
  }

  package func includes(_ table: String) -> Bool { includes(anyOf: [table]) }

  /// Returns whether the list includes a table with these names: the last pattern that matches one of them decides.
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

  /// Returns whether the list can include some table of a PostgreSQL schema (namespace).
  ///
  ///     TablePatterns(["sales.o*"]).includesTables(of: "sales")         // true
  ///     TablePatterns(["*", "!sales.*"]).includesTables(of: "sales")    // false
  package func includesTables(of schema: String) -> Bool {
    let start = "\(schema.asciiLowercased)."
    return includesSome(start) { plain in
      // The text after the dot matches the table. A pattern without a dot is for `public`, except `*`.
      guard plain.contains(".") || plain.allSatisfy({ $0 == "*" }) || schema == "public" else { return false }
      return plain.indices.contains { $0 > plain.startIndex && Wildcard.matches(String(plain[..<$0]), start) }
        || (plain.last == "*" && Wildcard.matches(String(plain), start))
    }
  }

  /// Whether the list can include a table whose name has no schema (namespace).
  package var includesPlainTables: Bool { includesSome("") { !$0.contains(".") } }

  private func includesSome(_ start: String, _ isMatch: (Substring.UnicodeScalarView) -> Bool) -> Bool {
    // This name represents every name after the start: a pattern can match its NUL characters only with `*` or `?`.
    let all = start + String(repeating: "\u{0}", count: 256)
    return patterns.reduce(false) { included, pattern in
      let (excludes, plain) = Self.parts(pattern.asciiLowercased)
      if excludes { return included && !Wildcard.matches(plain, all) }
      return included || isMatch(plain[...].unicodeScalars)
    }
  }

  /// Returns whether the list lets an apply write to a PostgreSQL table. An including pattern without a dot admits only
  /// tables of the schema `public`, except `*`, which admits all tables.
  ///
  ///     TablePatterns(["evil_*"]).admits(namespace: "evil_other", name: "salaries")  // false
  ///
  /// - Parameter namespace: The schema of the table; empty for `public`.
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

  /// A table name in the list that no existing table has, such as a misspelled one.
  package struct Unmatched: Equatable, Sendable {
    @ByBytes package var name: String
    /// The existing table with the most similar name; nil if none is similar.
    @ByBytes package var nearest: String? = nil
    package var isExclusion: Bool
    /// Whether the name is an error to report. A name in an excluding pattern is an error only if a table has a similar
    /// name.
    package var isMistake: Bool { !isExclusion || nearest != nil }
  }

  /// Returns the names in the list, except patterns with `*` or `?`, that no table has.
  ///
  ///     TablePatterns(["itme", "sale"]).unmatched(in: ["item", "sale"])  // itme, nearest: item
  ///
  /// - Parameter tables: All names of the existing tables; one table may have several.
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
