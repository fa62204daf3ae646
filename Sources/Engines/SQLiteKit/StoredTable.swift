import Changes

/// The kind of a table, read from its text in `sqlite_master`.
///
/// `PRAGMA table_list` is not used: it prepares every view of the file, which can take hours.
struct StoredTable {
  let name: String
  let text: String
  /// The module of a virtual table, in lower case; nil for any other table.
  let module: String?
  let isWithoutRowid: Bool
  let isStrict: Bool

  /// Reads the CREATE TABLE text of a table; nil for any other text.
  ///
  /// Example: `StoredTable(name: "t", text: "CREATE TABLE t(a) STRICT")` has ``isStrict``.
  init?(name: String, text: String) {
    (self.name, self.text) = (name, text)
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard tokens.count > 2, tokens[0].word == "CREATE" else { return nil }
    if tokens[1].word == "VIRTUAL" {
      let using = tokens.firstIndex { $0.word == "USING" }
      guard let using, using + 1 < tokens.count else { return nil }
      module = Self.bare(bytes[tokens[using + 1].range]).asciiLowercased
      (isWithoutRowid, isStrict) = (false, false)
      return
    }
    guard tokens[1].word == "TABLE" else { return nil }
    module = nil
    // The table's options follow the last parenthesis.
    let options = tokens.lastIndex { $0.symbol == UInt8(ascii: ")") }.map { tokens[($0 + 1)...] } ?? []
    isWithoutRowid = options.contains { $0.word == "WITHOUT" }
    isStrict = options.contains { $0.word == "STRICT" }
  }

  private static func bare(_ bytes: ArraySlice<UInt8>) -> String {
    let quotes = [UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "[")]
    guard let first = bytes.first, quotes.contains(first) else { return String(decoding: bytes, as: UTF8.self) }
    return String(decoding: bytes.dropFirst().dropLast(), as: UTF8.self)
  }

  /// The suffixes of the shadow tables in which each module of SQLite keeps its data (`xShadowName`).
  private static let shadows: [NameKey: Set<NameKey>] = [
    "fts3": ["content", "docsize", "segdir", "segments", "stat"],
    "fts4": ["content", "docsize", "segdir", "segments", "stat"],
    "fts5": ["config", "content", "data", "docsize", "idx"],
    "rtree": ["node", "parent", "rowid"], "rtree_i32": ["node", "parent", "rowid"],
    "geopoly": ["node", "parent", "rowid"],
  ]

  /// Returns whether this is a shadow table of a virtual table; `modules` has each virtual table's module, by table
  /// name.
  func isShadow(of modules: [NameKey: String]) -> Bool {
    let bytes = Array(name.utf8)
    guard let mark = bytes.lastIndex(of: UInt8(ascii: "_")) else { return false }
    let owner = String(decoding: bytes[..<mark], as: UTF8.self).asciiLowercased
    let end = String(decoding: bytes[(mark + 1)...], as: UTF8.self).asciiLowercased
    return modules[NameKey(owner)].flatMap { Self.shadows[$0] }?.contains(end) ?? false
  }
}
