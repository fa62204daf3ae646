import Changes

/// A CREATE INDEX statement over plain columns, split into its parts.
///
///     IndexText("CREATE INDEX i ON item (name)", columns: ["id", "name"], engine: .sqlite)
///     IndexText("CREATE INDEX i ON item (lower(name))", columns: ["id", "name"], engine: .sqlite)   // nil
package struct IndexText {
  struct Term: Equatable {
    let column: Int
    let isDescending: Bool
  }
  let isUnique: Bool
  let terms: [Term]

  /// Parses the statement; nil for an index with expressions, a WHERE clause, a collation, an operator class, or
  /// another method than btree.
  package init?(_ text: String, columns: [String], engine: Engine) {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let on = tokens.firstIndex(where: { $0.word == "ON" }),
      let open = tokens[on...].firstIndex(where: { $0.symbol == UInt8(ascii: "(") }),
      let close = tokens[open...].firstIndex(where: { $0.symbol == UInt8(ascii: ")") })
    else { return nil }
    if let using = tokens[on..<open].firstIndex(where: { $0.word == "USING" }), tokens[using + 1].word != "BTREE" {
      return nil
    }
    // Columns of an INCLUDE clause may precede the WHERE clause; they affect no uniqueness.
    guard !tokens[close...].contains(where: { $0.word == "WHERE" }) else { return nil }
    isUnique = tokens[..<on].contains { $0.word == "UNIQUE" }
    var terms: [Term] = []
    for part in tokens[(open + 1)..<close].split(separator: UInt8(ascii: ","), on: \.symbol) {
      guard let first = part.first else { return nil }
      let name = Self.name(String(decoding: bytes[first.range], as: UTF8.self))
      let column = columns.firstIndex { column in
        column.key(in: engine) == name.key(in: engine)
      }
      let rest = part.dropFirst().map(\.word)
      guard let column, rest.allSatisfy(["ASC", "DESC", "NULLS", "FIRST", "LAST"].contains) else { return nil }
      terms.append(Term(column: column, isDescending: rest.contains("DESC")))
    }
    guard !terms.isEmpty else { return nil }
    self.terms = terms
  }

  package static func name(_ token: String) -> String {
    let inner = token.utf8.dropFirst().dropLast()
    switch token.utf8.first {
    case UInt8(ascii: "\"")?, UInt8(ascii: "`")?: return String(undoubling: inner, token.utf8.first ?? 0)
    case UInt8(ascii: "[")?: return String(decoding: inner, as: UTF8.self)
    default: return token
    }
  }
}

extension TableSchema {
  /// Returns whether the table has a unique index of this name that ``IndexText`` cannot parse, such as an index with a
  /// WHERE clause. Such an index can be matched to an index of the other engine only by its name.
  package func hasUniqueIndexOfItsOwn(named name: String) -> Bool {
    objects.contains { object in
      object.name.sqliteKey == name.sqliteKey
        && SQLText.tokens(Array(object.text.utf8)).prefix(2).last?.word == "UNIQUE"
        && IndexText(object.text, columns: columns.map(\.name), engine: engine) == nil
    }
  }
}

extension ArraySlice {
  fileprivate func split<V: Equatable>(separator: V, on path: KeyPath<Element, V>) -> [ArraySlice<Element>] {
    split(omittingEmptySubsequences: false) { $0[keyPath: path] == separator }
  }
}
