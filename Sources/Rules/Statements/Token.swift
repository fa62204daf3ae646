/// A token of a statement, as SQLite's tokenizer reads it.
///
/// Source: https://sqlite.org/lang.html, https://sqlite.org/c3ref/bind_blob.html
struct Token: Sendable {
  enum Kind: Equatable, Sendable {
    /// A bare word, in upper case and as written.
    case word(String, written: String)
    case name(String)
    case string(String)
    case blob([UInt8])
    case integer(Int64)
    case real(Double)
    /// A parameter, by its number from 1, as in `sqlite3_bind_…`.
    case parameter(Int)
    case symbol(String)

    static func == (a: Kind, b: Kind) -> Bool {
      switch (a, b) {
      case (.word(_, let a), .word(_, let b)), (.name(let a), .name(let b)), (.string(let a), .string(let b)),
        (.symbol(let a), .symbol(let b)):
        a == b
      case (.blob(let a), .blob(let b)): a == b
      case (.integer(let a), .integer(let b)): a == b
      case (.real(let a), .real(let b)): a == b
      case (.parameter(let a), .parameter(let b)): a == b
      default: false
      }
    }
  }

  let kind: Kind
  let range: Range<Int>
}

extension Token {
  /// Whether the token is TRUE or FALSE. In SQLite, `x IS TRUE` holds for any number except 0, and `x IS FALSE` for 0.
  var isTruth: Bool { if case .word(let word, _) = kind { ["TRUE", "FALSE"].contains(word) } else { false } }

  /// Whether the token can make an expression longer without parentheses, such as `+`, AND or CASE.
  var isOperator: Bool {
    switch kind {
    case .symbol(let symbol): !["(", ")", ",", ";", "."].contains(symbol)
    case .word(let word, _):
      [
        "AND", "OR", "NOT", "IS", "ISNULL", "NOTNULL", "IN", "LIKE", "GLOB", "BETWEEN", "COLLATE", "UNION", "EXCEPT",
        "INTERSECT", "CASE",
      ].contains(word)
    default: false
    }
  }
}
