/// Quoting of names and texts for SQL. No other file of Cairn may quote.
extension String {
  /// The name as an SQL identifier in double quotes.
  ///
  ///     "a\"b".quotedName  // "a""b"
  package var quotedName: String { quoted(UInt8(ascii: "\"")) }

  /// The name as an SQLite identifier in back quotes, as some applications write it.
  package var backQuotedName: String { quoted(UInt8(ascii: "`")) }

  /// The text as a literal of standard SQL, for SQLite and the replication protocol. For a PostgreSQL statement use
  /// ``postgresLiteral``.
  package var quotedText: String { quoted(UInt8(ascii: "'")) }

  /// The text as a PostgreSQL literal, valid under any `standard_conforming_strings`. Write a space between a word and
  /// the literal after it.
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

  /// Reads a quoted name or text without its outer quotes. Each doubled quote mark becomes one.
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
  /// Returns the first two elements whose keys are equal by Swift's own `==`; nil if there are none.
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
  /// The affinity that SQLite derives from the declared type. Source: https://sqlite.org/datatype3.html, section 3.1.
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
