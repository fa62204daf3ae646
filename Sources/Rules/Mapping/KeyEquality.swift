import Changes

/// The type of a key column, or a type inside it, such as the element type of an array.
///
///     KeyPart("text", collation: "NOCASE")
package struct KeyPart: Sendable {
  /// The name of the type in `pg_type`, such as `uuid`, or `ltree.ltree` for a type of an extension. For SQLite:
  /// `text`.
  package var type: String
  package var isEnumeration = false
  /// Whether the type has a length or a scale, such as `numeric(12,2)`.
  package var hasModifier = false
  /// The collation, if it treats different texts as equal; otherwise empty.
  package var collation = ""
  /// Whether the type is a part of an array, a range or a composite type.
  package var isNested = false
  /// Whether the SQLite database stores values of the type as text, exactly as PostgreSQL prints them.
  package var isText = false

  package init(
    _ type: String, isEnumeration: Bool = false, hasModifier: Bool = false, collation: String = "",
    isNested: Bool = false, isText: Bool = false
  ) {
    (self.type, self.isEnumeration, self.hasModifier) = (type, isEnumeration, hasModifier)
    (self.collation, self.isNested, self.isText) = (collation, isNested, isText)
  }
}

/// The check whether a database treats different key values as equal. Cairn compares texts by their bytes and numbers
/// by their value.
///
///     KeyEquality.problem([KeyPart("jsonb")])  // "is of type jsonb, in which different texts can be equal"
///     KeyEquality.problem([KeyPart("uuid")])   // nil
package enum KeyEquality {
  /// The types whose values are equal only if PostgreSQL prints the same text for both.
  private static let exact = Set(
    """
    bit bool bytea char cid cidr date inet int2 int4 int8 macaddr macaddr8 money name oid pg_lsn text tid time timestamp
    timestamptz timetz tsvector uuid varbit varchar xid xid8 ltree.ltree
    """.split(whereSeparator: \.isWhitespace).map { NameKey(String($0)) })

  /// Returns the reason why a database may treat different key values of a column as equal, as the end of a sentence.
  /// Nil if there is none.
  ///
  /// - Parameter parts: The column's type and all types that it uses.
  package static func problem(_ parts: [KeyPart]) -> String? { parts.lazy.compactMap(problem).first }

  /// The types of numbers without a rounding, and those of texts.
  private static let alike = ["int2 int4 int8 numeric", "text varchar bpchar name"].map {
    Set($0.split(whereSeparator: \.isWhitespace).map { NameKey(String($0)) })
  }

  /// Returns whether a value of one type has the text, or the number, of an equal value of another type.
  package static func haveLikeTexts(_ type: String, _ other: String) -> Bool {
    type.hasSameBytes(as: other) || alike.contains { $0.contains(type.nameKey) && $0.contains(other.nameKey) }
  }

  private static func problem(_ part: KeyPart) -> String? {
    if !part.collation.isEmpty { return "has a collation under which different texts are one: \(part.collation)" }
    if part.isEnumeration || exact.contains(part.type) { return nil }
    let name = part.type.split(at: ".").last ?? part.type
    switch part.type {
    // Trailing blanks are ignored in comparisons, but printed if the type has no length.
    case "bpchar" where part.hasModifier: return nil
    case "numeric" where part.hasModifier: return nil
    case "numeric" where part.isText && !part.isNested:
      return "is numeric without a scale, and 1.5 and 1.50 are two texts in SQLite"
    case "numeric" where !part.isNested, "float4" where !part.isNested, "float8" where !part.isNested: return nil
    default:
      let how = part.isNested ? "holds values of type" : "is of type"
      return "\(how) \(name), in which different texts can be equal"
    }
  }
}
