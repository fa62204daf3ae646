import Changes

/// A CREATE TABLE statement of SQLite, split into the definitions of its columns.
struct SQLiteTableText {
  struct Definition: Equatable {
    @ByBytes private(set) var name: String
    @ByBytes private(set) var text: String
  }

  /// A column or a constraint in the list of the statement.
  struct Part {
    var range: Range<Int>
    /// The name of the column; nil for a constraint.
    var column: NameKey?
    /// The words of the definition, without the name of the column.
    var words: [NameKey]
  }

  let definitions: [Definition]
  private(set) var parts: [Part] = []
  /// The words after the list, such as `STRICT`.
  private(set) var options: [NameKey] = []
  let bytes: [UInt8]
  /// The end of the last column in ``bytes``.
  let end: Int

  /// Parses a CREATE TABLE statement; nil if it has no list of columns.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    self.bytes = bytes
    let tokens = SQLText.tokens(bytes)
    guard let table = tokens.firstIndex(where: { $0.word == "TABLE" }),
      let open = tokens[table...].firstIndex(where: { $0.symbol == UInt8(ascii: "(") })
    else { return nil }
    var definitions: [Definition] = []
    var end = 0
    var depth = 0
    var first = open + 1
    for index in open..<tokens.count {
      let symbol = tokens[index].symbol
      if symbol == UInt8(ascii: "(") { depth += 1 }
      let closes = symbol == UInt8(ascii: ")") && depth == 1
      if closes || (symbol == UInt8(ascii: ",") && depth == 1) {
        guard first < index else { return nil }
        let isConstraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].contains(tokens[first].word)
        let range = tokens[first].range.lowerBound..<tokens[index - 1].range.upperBound
        let words = tokens[first..<index].map { Self.word($0, bytes) }
        let rest = Array(words.dropFirst(isConstraint ? 0 : 1))
        parts.append(Part(range: range, column: isConstraint ? nil : words[0], words: rest))
        if !isConstraint {
          definitions.append(
            Definition(
              name: String(decoding: bytes[tokens[first].range], as: UTF8.self),
              text: String(decoding: bytes[range], as: UTF8.self)))
          end = range.upperBound
        }
        first = index + 1
      }
      if symbol == UInt8(ascii: ")") { depth -= 1 }
      if closes {
        options = tokens[(index + 1)...].map { Self.word($0, bytes) }
        break
      }
    }
    guard depth == 0, !definitions.isEmpty else { return nil }
    (self.definitions, self.end) = (definitions, end)
  }

  /// Returns a word of the statement: a name without quotes and in lower case, a text as it is.
  private static func word(_ token: SQLText.Token, _ bytes: [UInt8]) -> NameKey {
    let text = String(decoding: bytes[token.range], as: UTF8.self)
    return token.symbol == UInt8(ascii: "'") ? NameKey(text) : IndexText.name(text).sqliteKey
  }

  func definition(of column: String) -> Definition? {
    let folded = column.sqliteKey
    return definitions.first { IndexText.name($0.name).sqliteKey == folded }
  }

  /// Returns the statement with these definitions of columns added after its own columns.
  func adding(_ texts: [String]) -> String {
    String(decoding: bytes[..<end], as: UTF8.self) + texts.map { ", " + $0 }.joined()
      + String(decoding: bytes[end...], as: UTF8.self)
  }
}

extension TableSchema {
  /// Returns a column's definition in the CREATE TABLE statement, such as `n INTEGER NOT NULL`; nil if there is none.
  package func definitionText(of column: String) -> String? {
    SQLiteTableText(createText)?.definition(of: column)?.text
  }
}
