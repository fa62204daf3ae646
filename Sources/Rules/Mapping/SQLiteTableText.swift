import Changes

/// A CREATE TABLE statement of SQLite, split into the definitions of its columns.
struct SQLiteTableText {
  struct Definition: Equatable {
    @ByBytes private(set) var name: String
    @ByBytes private(set) var text: String
  }

  let definitions: [Definition]
  private let bytes: [UInt8]
  private let end: Int

  /// Parses a CREATE TABLE statement; nil if it has no list of columns.
  init?(_ text: String) {
    bytes = Array(text.utf8)
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
        if !isConstraint {
          let range = tokens[first].range.lowerBound..<tokens[index - 1].range.upperBound
          definitions.append(
            Definition(
              name: String(decoding: bytes[tokens[first].range], as: UTF8.self),
              text: String(decoding: bytes[range], as: UTF8.self)))
          end = range.upperBound
        }
        first = index + 1
      }
      if symbol == UInt8(ascii: ")") { depth -= 1 }
      if closes { break }
    }
    guard depth == 0, !definitions.isEmpty else { return nil }
    (self.definitions, self.end) = (definitions, end)
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
