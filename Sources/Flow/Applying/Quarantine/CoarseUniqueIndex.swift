import Changes
import Mapping

/// A unique index that may treat different values as equal: it has an expression, a WHERE or a collation.
///
/// Only the database knows which rows are equal in the index. This type may treat rows as equal that the database
/// distinguishes.
struct CoarseUniqueIndex: Equatable {
  /// The differences between texts that an index ignores.
  struct Fold: OptionSet {
    let rawValue: UInt8
    static let letterCase = Fold(rawValue: 1)
    static let blanksAtEnd = Fold(rawValue: 2)
    /// Differences between letters outside of ASCII, such as ä and Ä. All these letters are left out of the comparison.
    static let otherLetters = Fold(rawValue: 4)
  }

  struct Term: Equatable {
    let column: Int
    let fold: Fold
  }

  /// The columns by which rows are compared. Empty: any two rows of the table may be equal.
  let terms: [Term]
  /// The columns that the index uses. An update of other columns does not change the index.
  let concerned: Set<Int>

  /// Returns the unique indexes of a table, including the key, that may treat different values as equal.
  static func all(of schema: TableSchema) -> [CoarseUniqueIndex] {
    let named = collations(in: schema)
    var found: [CoarseUniqueIndex] = []
    for columns in [schema.flags.contains(.wholeRow) ? [] : schema.key] + schema.uniques where !columns.isEmpty {
      let folds = columns.map { fold(of: schema.columns[$0], schema.engine, named) }
      if folds.allSatisfy({ $0?.isEmpty == true }) { continue }
      found.append(CoarseUniqueIndex(terms: Self.terms(columns, folds), concerned: Set(columns)))
    }
    for object in schema.objects {
      let tokens = SQLText.tokens(Array(object.text.utf8))
      guard tokens.prefix(2).last?.word == "UNIQUE" else { continue }
      // An index over columns alone is among those above.
      let isPlain = IndexText(object.text, columns: schema.columns.map(\.name), engine: schema.engine) != nil
      if !isPlain { found.append(CoarseUniqueIndex(index: object.text, of: schema)) }
    }
    return found
  }

  private init(terms: [Term], concerned: Set<Int>) { (self.terms, self.concerned) = (terms, concerned) }

  private init(index text: String, of schema: TableSchema) {
    var columns: [Int] = []
    var folds: [Fold?] = []
    for term in SQLText.indexParts(text)?.terms ?? [] {
      guard let (column, fold) = Self.column(term, schema) else { continue }
      columns.append(column)
      folds.append(fold)
    }
    terms = Self.terms(columns, folds)
    concerned = Self.concerned(text, schema)
  }

  private static func terms(_ columns: [Int], _ folds: [Fold?]) -> [Term] {
    zip(columns, folds).compactMap { column, fold in fold.map { Term(column: column, fold: $0) } }
  }

  /// Returns the column of an index term, and the differences between texts that the index ignores (`fold`; nil: not
  /// known). Returns nil if the term is an expression.
  private static func column(_ term: String, _ schema: TableSchema) -> (column: Int, fold: Fold?)? {
    let bytes = Array(term.utf8)
    let tokens = SQLText.tokens(bytes)
    func name(_ token: SQLText.Token) -> String {
      IndexText.name(String(decoding: bytes[token.range], as: UTF8.self))
    }
    guard let first = tokens.first else { return nil }
    let column = schema.columns.firstIndex {
      $0.name.key(in: schema.engine) == name(first).key(in: schema.engine)
    }
    guard let column else { return nil }
    let rest = Array(tokens.dropFirst())
    if rest.allSatisfy({ ["ASC", "DESC", "NULLS", "FIRST", "LAST"].contains($0.word) }) {
      return (column, fold(of: schema.columns[column], schema.engine, []))
    }
    guard schema.engine == .sqlite, rest.count == 2, rest[0].word == "COLLATE" else { return nil }
    return (column, fold(collation: name(rest[1])))
  }

  /// Returns the columns that an index's statement names. For PostgreSQL, or if the table may have generated columns,
  /// returns all columns.
  private static func concerned(_ text: String, _ schema: TableSchema) -> Set<Int> {
    let isComputed = SQLText.tokens(Array(schema.createText.utf8)).contains { $0.word == "AS" }
    let all = Set(schema.columns.indices)
    guard schema.engine == .sqlite, !isComputed else { return all }
    let bytes = Array(text.utf8)
    let words = SQLText.tokens(bytes).map { token in
      IndexText.name(String(decoding: bytes[token.range], as: UTF8.self)).filter { $0 != "'" }.asciiLowercased
    }
    return all.filter { words.contains(schema.columns[$0].name.filter { $0 != "'" }.asciiLowercased) }
  }

  // MARK: Columns

  /// Returns the differences between a column's values that an index ignores, such as case; nil: not known.
  ///
  /// - Parameter named: SQLite: the collations that the table's statement names.
  private static func fold(of column: TableSchema.Column, _ engine: Engine, _ named: [String]) -> Fold? {
    guard engine == .postgres else {
      var all = Fold()
      for collation in named + [column.collation] {
        guard let fold = fold(collation: collation) else { return nil }
        all.formUnion(fold)
      }
      return all
    }
    let type = PostgresType(column)
    switch type.kind {
    case .text, .varchar, .bpchar:
      let collation = column.collation.split(at: ".").last.map { $0.filter { $0 != "\"" } } ?? ""
      guard ["", "C", "POSIX", "default", "ucs_basic"].contains(collation) else { return nil }
      if case .bpchar = type.kind { return .blanksAtEnd }
      return []
    case .bool, .int2, .int4, .int8, .oid, .numeric, .bytea, .date, .time, .timestamp, .timestamptz, .bit, .varbit,
      .uuid,
      .money, .inet, .enumeration:
      return []
    case .other where type.name.hasSuffix("citext"): return [.letterCase, .otherLetters]
    default: return nil
    }
  }

  private static func fold(collation: String) -> Fold? {
    switch collation.asciiLowercased {
    case "", "binary": []
    case "nocase": .letterCase
    case "rtrim": .blanksAtEnd
    default: nil
    }
  }

  /// Returns all collations that the table's CREATE TABLE statement names. Empty for PostgreSQL.
  private static func collations(in schema: TableSchema) -> [String] {
    guard schema.engine == .sqlite else { return [] }
    let bytes = Array(schema.createText.utf8)
    let tokens = SQLText.tokens(bytes)
    return tokens.indices.dropLast().filter { tokens[$0].word == "COLLATE" }.map {
      IndexText.name(String(decoding: bytes[tokens[$0 + 1].range], as: UTF8.self))
    }
  }

  // MARK: Keys

  /// Returns the collations in the primary key's own definition, as in `PRIMARY KEY (name COLLATE NOCASE)`.
  fileprivate static func keyCollations(in schema: TableSchema) -> [String] {
    let bytes = Array(schema.createText.utf8)
    let tokens = SQLText.tokens(bytes)
    func text(_ token: SQLText.Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
    guard
      let start = tokens.indices.first(where: { index in
        tokens[index].word == "PRIMARY" && index + 2 < tokens.count && tokens[index + 1].word == "KEY"
          && text(tokens[index + 2]) == "("
      }), let end = tokens[start...].firstIndex(where: { text($0) == ")" })
    else { return [] }
    return tokens[start..<end].indices.filter { tokens[$0].word == "COLLATE" && $0 + 1 < end }.map {
      IndexText.name(text(tokens[$0 + 1]))
    }
  }

  // MARK: Rows

  /// Returns whether a change may change the row's entry in the index. True for every insert and delete.
  func isTouched(_ before: [Value?]?, _ after: [Value?]?) -> Bool {
    guard let after, let before else { return true }
    return concerned.contains {
      $0 < after.count && after[$0] != nil && ($0 >= before.count || before[$0] != after[$0])
    }
  }

  /// Returns the values by which rows are compared, each with its column. Nil if a value is unknown or NULL.
  func values(_ row: [Value?]) -> [(column: Int, value: Value)]? {
    var values: [(column: Int, value: Value)] = []
    for term in terms {
      guard term.column < row.count, let value = row[term.column], value != .null else { return nil }
      values.append((term.column, Self.folded(value, term.fold)))
    }
    return values
  }

  private static func folded(_ value: Value, _ fold: Fold) -> Value {
    switch value {
    case .text(let bytes): .text(folded(bytes, fold))
    case .exact(let bytes): .exact(folded(bytes, fold))
    case .blob, .integer, .null, .real: value
    }
  }

  private static func folded(_ bytes: [UInt8], _ fold: Fold) -> [UInt8] {
    var bytes = bytes
    if fold.contains(.otherLetters) { bytes.removeAll { $0 >= 0x80 } }
    if fold.contains(.letterCase) {
      bytes = bytes.map { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 ? $0 | 0x20 : $0 }
    }
    if fold.contains(.blanksAtEnd) { while bytes.last == UInt8(ascii: " ") { bytes.removeLast() } }
    return bytes
  }
}

/// Finds keys by which SQLite treats rows as equal although their bytes differ.
enum LooseKey {
  /// Returns the collations except `BINARY` that the table's schema shows for an SQLite key column.
  static func collations(of column: TableSchema.Column, in table: TableSchema) -> [String] {
    (CoarseUniqueIndex.keyCollations(in: table) + [column.collation]).filter {
      !["", "BINARY"].contains($0.asciiUppercased)
    }
  }
}
