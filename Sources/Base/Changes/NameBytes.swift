// Databases compare the bytes of a name; Swift takes canonically equivalent texts for equal.
extension StringProtocol {
  /// Returns whether two names have the same bytes, so that they are one name to a database.
  ///
  ///     "caf\u{e9}" == "cafe\u{301}"                // true
  ///     "caf\u{e9}".hasSameBytes(as: "cafe\u{301}")  // false
  package func hasSameBytes(as other: some StringProtocol) -> Bool {
    utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
  }

  /// The text with ASCII letters in lower case. Other letters stay.
  package var asciiLowercased: String {
    String(decoding: utf8.map { (0x41...0x5a).contains($0) ? $0 + 0x20 : $0 }, as: UTF8.self)
  }

  /// The text with ASCII letters in upper case. Other letters stay.
  package var asciiUppercased: String {
    String(decoding: utf8.map { (0x61...0x7a).contains($0) ? $0 - 0x20 : $0 }, as: UTF8.self)
  }
}

// Swift searches for a `Character`. If a combining character follows an ASCII character, Swift takes both as one other
// character.
extension StringProtocol {
  /// Returns the parts of a text between the occurrences of an ASCII character.
  ///
  ///     "a,\u{301}b".split(at: ",")  // ["a", "\u{301}b"]
  package func split(at mark: Unicode.Scalar, maxSplits: Int = .max, omittingEmpty: Bool = true) -> [String] {
    utf8.split(separator: UInt8(ascii: mark), maxSplits: maxSplits, omittingEmptySubsequences: omittingEmpty)
      .map { String(decoding: $0, as: UTF8.self) }
  }

  /// Returns the texts before and after the first occurrence of an ASCII character; nil if the text does not contain
  /// it.
  ///
  ///     "sales.\u{301}item".cut(at: ".")  // ("sales", "\u{301}item")
  package func cut(at mark: Unicode.Scalar) -> (before: String, after: String)? {
    utf8.firstIndex(of: UInt8(ascii: mark)).map(cut)
  }

  /// Returns the texts before and after the last occurrence of an ASCII character; nil if the text does not contain it.
  package func cut(atLast mark: Unicode.Scalar) -> (before: String, after: String)? {
    utf8.indices.reversed().first { utf8[$0] == UInt8(ascii: mark) }.map(cut)
  }

  private func cut(at place: Index) -> (before: String, after: String) {
    (
      String(decoding: utf8[..<place], as: UTF8.self),
      String(decoding: utf8[utf8.index(after: place)...], as: UTF8.self)
    )
  }

  /// Returns whether the text contains the ASCII character `mark`.
  package func has(_ mark: Unicode.Scalar) -> Bool { utf8.contains(UInt8(ascii: mark)) }
}

extension String {
  /// Returns whether two names are one name to SQLite, which folds ASCII letters and compares bytes.
  ///
  ///     "Items".isSameInSQLite(as: "ITEMS")          // true
  ///     "\u{c9}t".isSameInSQLite(as: "\u{e9}t")      // false
  package func isSameInSQLite(as other: String) -> Bool { asciiLowercased.hasSameBytes(as: other.asciiLowercased) }
}

extension Optional where Wrapped: StringProtocol {
  /// Returns whether two optional texts have the same bytes. Two nils are equal.
  package func hasSameBytes(as other: Wrapped?) -> Bool {
    switch (self, other) {
    case (let one?, let other?): one.hasSameBytes(as: other)
    case (nil, nil): true
    default: false
    }
  }
}

extension Sequence<String> {
  /// Returns whether two sequences have the same names in the same order, compared by their bytes.
  package func hasSameBytes(as other: some Sequence<String>) -> Bool {
    elementsEqual(other) { $0.hasSameBytes(as: $1) }
  }
}

/// Writes several names into one text, and reads them back unchanged. The character U+001F separates the names. Inside
/// a name, U+001F is written as U+0010 and `1`, and U+0010 as U+0010 and `0`.
///
///     NameList.text(["a", "b"])        // "a\u{1f}b"
///     NameList.names("a\u{10}1\u{1f}b")  // ["a\u{1f}", "b"]
package enum NameList {
  private static let (separator, escape) = (UInt8(0x1f), UInt8(0x10))

  package static func text(_ names: some Sequence<String>) -> String {
    var out: [UInt8] = []
    for (index, name) in names.enumerated() {
      if index > 0 { out.append(separator) }
      for byte in name.utf8 {
        switch byte {
        case separator: out += [escape, UInt8(ascii: "1")]
        case escape: out += [escape, UInt8(ascii: "0")]
        default: out.append(byte)
        }
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  package static func names(_ text: String) -> [String] {
    text.utf8.split(separator: separator).map { part in
      var out: [UInt8] = []
      var bytes = part.makeIterator()
      while let byte = bytes.next() {
        guard byte == escape else {
          out.append(byte)
          continue
        }
        switch bytes.next() {
        case UInt8(ascii: "1")?: out.append(separator)
        case UInt8(ascii: "0")?: out.append(escape)
        case let other?: out += [escape, other]
        case nil: out.append(escape)
        }
      }
      return String(decoding: out, as: UTF8.self)
    }
  }
}
