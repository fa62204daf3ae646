/// Writes names and texts as SQL. Only this file quotes in Cairn; `QuotingLintTests` searches for other places.
///
/// SQL ends a name at the byte 0x22 and a text at the byte 0x27. Swift's `Character` may contain that byte together
/// with its neighbors, so no code here may split or compare by characters.
///
/// A NUL in a name or text is left unchanged, because SQL cannot quote it. The execution of a statement with a NUL
/// throws.
extension String {
  /// The name as an SQL identifier in double quotes.
  ///
  ///     "a\"b".quotedName  // "a""b"
  package var quotedName: String { quoted(UInt8(ascii: "\"")) }

  /// The name as an SQLite identifier in back quotes, as some applications write it.
  package var backQuotedName: String { quoted(UInt8(ascii: "`")) }

  /// The text as a literal of standard SQL, for SQLite and PostgreSQL's replication protocol. A backslash has no
  /// special meaning in it.
  ///
  /// In a statement for PostgreSQL use ``postgresLiteral`` instead.
  package var quotedText: String { quoted(UInt8(ascii: "'")) }

  /// The text as a PostgreSQL literal that means the same under any `standard_conforming_strings`.
  ///
  /// If a word precedes the literal, a space must separate them.
  ///
  ///     #"a\'b"#.postgresLiteral  // E'a\\''b'
  ///
  /// Source: https://www.postgresql.org/docs/15/sql-syntax-lexical.html, section 4.1.2; `PQescapeLiteral`.
  package var postgresLiteral: String {
    guard utf8.contains(UInt8(ascii: "\\")) else { return quotedText }
    return "E" + quoted(UInt8(ascii: "'"), escape: true)
  }

  /// The text as a PostgreSQL literal on one line: control characters are written as escapes.
  package var postgresLineLiteral: String {
    guard utf8.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\\") }) else { return quotedText }
    var out: [UInt8] = Array("E'".utf8)
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "'"), UInt8(ascii: "\\"): out += [byte, byte]
      case UInt8(ascii: "\n"): out += "\\n".utf8
      case UInt8(ascii: "\r"): out += "\\r".utf8
      case UInt8(ascii: "\t"): out += "\\t".utf8
      case 0..<0x20: out += "\\x\(UInt64(byte).hex(2))".utf8
      default: out.append(byte)
      }
    }
    return String(decoding: out, as: UTF8.self) + "'"
  }

  /// The text in double quotes, as a field in PostgreSQL's text form of a row.
  ///
  ///     #"a"\b"#.quotedField  // "a""\\b"
  ///
  /// Source: https://www.postgresql.org/docs/15/rowtypes.html, section 8.16.6.
  package var quotedField: String { quoted(UInt8(ascii: "\""), escape: true) }

  /// The text between PostgreSQL's dollar quotes, with a tag that the text does not contain.
  ///
  ///     "BEGIN END".dollarQuoted  // $cairn$BEGIN END$cairn$
  package var dollarQuoted: String {
    // The closing tag could begin with the end of the text.
    let searched = Array((self + "$").utf8)
    var (tag, number) = ("$cairn$", 0)
    while searched.contains(Array(tag.utf8)) {
      number += 1
      tag = "$cairn\(number)$"
    }
    return tag + self + tag
  }

  /// The text as an SQL comment of one line. Control characters become spaces, so that the text cannot end the comment.
  ///
  ///     "a\nDROP TABLE b".sqlComment  // -- a DROP TABLE b
  package var sqlComment: String {
    "-- " + String(decoding: utf8.map { $0 < 0x20 ? 0x20 : $0 }, as: UTF8.self)
  }

  /// Returns the text between two quote marks, with each mark inside it doubled; with `escape`, each backslash too.
  private func quoted(_ mark: UInt8, escape: Bool = false) -> String {
    func isDoubled(_ byte: UInt8) -> Bool { byte == mark || (escape && byte == UInt8(ascii: "\\")) }
    let count = utf8.count + 2 + utf8.count(where: isDoubled)
    return String(unsafeUninitializedCapacity: count) { out in
      var next = 0
      func append(_ byte: UInt8) {
        out[next] = byte
        next += 1
      }
      append(mark)
      for byte in utf8 {
        append(byte)
        if isDoubled(byte) { append(byte) }
      }
      append(mark)
      return next
    }
  }

  /// Reads a quoted name or text, given without its outer quotes: each doubled mark becomes one.
  ///
  /// - Parameter escape: Whether doubled backslashes become one too, as in literals `E'...'` that PostgreSQL prints.
  package init(undoubling content: some Sequence<UInt8>, _ mark: UInt8, escape: Bool = false) {
    var out: [UInt8] = []
    var open: UInt8?
    for byte in content {
      if byte == open {
        open = nil
        continue
      }
      open = byte == mark || (escape && byte == UInt8(ascii: "\\")) ? byte : nil
      out.append(byte)
    }
    self = String(decoding: out, as: UTF8.self)
  }
}

extension Sequence<String> {
  /// Returns the first two elements with canonically equivalent keys: equal to Swift, but two names to a database.
  ///
  ///     ["e\u{301}", "\u{e9}"].firstAlike { $0 }  // both
  package func firstAlike(by key: (String) -> String) -> (String, String)? {
    var seen: [String: String] = [:]
    for name in self {
      if let earlier = seen.updateValue(name, forKey: key(name)) { return (earlier, name) }
    }
    return nil
  }
}

extension TableSchema.Column {
  /// The affinity that SQLite derives from this declared type. Source: https://sqlite.org/datatype3.html, section 3.1.
  package var affinity: String {
    let type = declaredType.asciiUppercased
    func has(_ part: String) -> Bool {
      let (whole, part) = (Array(type.utf8), Array(part.utf8))
      return whole.count >= part.count
        && (0...whole.count - part.count).contains { Array(whole[$0..<$0 + part.count]) == part }
    }
    if has("INT") { return "INTEGER" }
    if has("CHAR") || has("CLOB") || has("TEXT") { return "TEXT" }
    if has("BLOB") || type.isEmpty { return "BLOB" }
    if has("REAL") || has("FLOA") || has("DOUB") { return "REAL" }
    return "NUMERIC"
  }
}
