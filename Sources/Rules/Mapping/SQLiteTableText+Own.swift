import Changes

// Parts of a table that only the target has.
extension SQLiteTableText {
  /// Returns this statement, which the source has after a schema change, with the parts that only the target has.
  /// These are columns, constraints, and definitions of columns that the schema change does not alter.
  ///
  /// - Parameter there: The present statement of the target.
  /// - Parameter before: The statement of the source before the schema change.
  /// - Parameter extras: The names of columns that only the target has. Those that neither statement names are too.
  /// - Parameter former: Returns the name of a column before the schema change; nil if the column is new.
  /// - Returns: nil if source and target have altered the same definition.
  func keepingOwn(
    of there: SQLiteTableText, besides before: SQLiteTableText, extras: Set<NameKey>, former: (NameKey) -> NameKey?
  ) -> String? {
    var edits: [(range: Range<Int>, text: String)] = []
    for part in parts {
      guard let name = part.column, let old = former(name), let was = before.column(old),
        let theirs = there.column(old) ?? there.column(name), theirs.words != was.words, theirs.words != part.words
      else { continue }
      guard part.words == was.words else { return nil }
      edits.append((part.range, definition(part, as: theirs, of: there)))
    }
    let known = Set((parts + before.parts).compactMap(\.column)).subtracting(extras)
    let columns = there.parts.filter { $0.column.map { !known.contains($0) } ?? false }.map(there.text)
    if !columns.isEmpty { edits.append((end..<end, columns.map { ", " + $0 }.joined())) }
    let constraints = (parts + before.parts).filter { $0.column == nil }.map(\.words)
    let own = there.parts.filter { $0.column == nil && !constraints.contains($0.words) }.map(there.text)
    let close = parts.last?.range.upperBound ?? end
    if !own.isEmpty { edits.append((close..<close, own.map { ", " + $0 }.joined())) }
    guard [before.options, options].contains(there.options) || before.options == options else { return nil }
    var result = ""
    var place = 0
    for edit in edits {
      result += String(decoding: bytes[place..<edit.range.lowerBound], as: UTF8.self) + edit.text
      place = edit.range.upperBound
    }
    return result + String(decoding: bytes[place...], as: UTF8.self)
  }

  /// Returns whether two statements have the same columns, constraints and options, in any order.
  func hasSameParts(as other: SQLiteTableText) -> Bool {
    func sorted(_ text: SQLiteTableText) -> [[NameKey]] {
      text.parts.map { ($0.column.map { [$0] } ?? []) + $0.words }.sorted { $0.lexicographicallyPrecedes($1) }
    }
    return options == other.options && sorted(self) == sorted(other)
  }

  private func column(_ name: NameKey) -> Part? { parts.first { $0.column == name } }

  private func text(_ part: Part) -> String { String(decoding: bytes[part.range], as: UTF8.self) }

  /// Returns the name of a column of this statement with the definition that the column has in `there`.
  private func definition(_ part: Part, as theirs: Part, of there: SQLiteTableText) -> String {
    func split(_ statement: SQLiteTableText, _ part: Part) -> (name: String, rest: String) {
      let text = Array(statement.bytes[part.range])
      let end = SQLText.tokens(text).first?.range.upperBound ?? 0
      return (String(decoding: text[..<end], as: UTF8.self), String(decoding: text[end...], as: UTF8.self))
    }
    return split(self, part).name + split(there, theirs).rest
  }
}
